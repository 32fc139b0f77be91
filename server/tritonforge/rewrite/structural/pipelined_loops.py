"""Loads of later rounds while this one computes: `tl.range(…, num_stages=n)` on a loop that streams without a dot.

Triton pipelines a loop by the launch's `num_stages` only where its loads feed a dot. Other loops wait for each load
unless the loop says otherwise.

Preconditions: an innermost `for` over `range` or `tl.range` without options, with a load of a block in it and no dot,
no atomic, no inner loop and no `while`; the target is NVIDIA's sm_80 or newer, which copies asynchronously.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of, with_value
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced


class PipelinedLoops:
    """Loops that load ahead."""

    name = "pipelined-loops"
    treats = frozenset({"TF206", "TF208"})
    classes: frozenset[BottleneckClass] = frozenset({"latency", "dram-bandwidth", "l2-bandwidth", "redundant-traffic"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield 3, 2 and 4 stages."""
        if not text.task.arch.startswith("sm_") or (text.task.arch < "sm_80" and len(text.task.arch) == 5):
            raise Absent(f"{text.task.arch} does not copy asynchronously")
        flow = flow_of(text.function, text.kernel, text.tl)
        loops = []
        for node in nodes_of(text.function):
            if isinstance(node, cst.For) and isinstance(node.iter, cst.Call):
                names = {name_of(n, text.tl) for n in nodes_of(node.body)}
                plain = code(node.iter.func) in {"range", f"{text.tl}.range"}
                options = [a for a in node.iter.args if a.keyword is not None]
                blocks = any(
                    isinstance(n, cst.Call) and name_of(n, text.tl) == "load" and flow.of(n.args[0].value).shape
                    for n in nodes_of(node.body)
                )
                inner = any(isinstance(n, cst.For | cst.While) for n in nodes_of(node.body))
                busy = "dot" in names or any((n or "").startswith("atomic") for n in names)
                if plain and not options and blocks and not inner and not busy:
                    loops.append(node.iter)
        if not loops:
            raise Absent("no loop without a dot loads blocks")
        if not text.tl:
            raise Refused("triton.language is not imported under a name of its own")
        for stages in (3, 2, 4):
            made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
            for call in loops:
                ranged = call.with_changes(func=cst.parse_expression(f"{text.tl}.range"))
                made.append((call, with_value(ranged, None, "num_stages", cst.Integer(str(stages)))))
            yield Change(
                f"loops that load {stages - 1} rounds ahead",
                text.edits(replaced(text.function, made)),
                (("num_stages", str(stages)),),
            )
