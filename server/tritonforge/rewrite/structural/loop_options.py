"""What `tl.range` can be told of a loop beside its stages: unrolling, flattening, specialised warps, one accumulator.

None of them changes what is computed. Each is asked for where it can do something:

- `unrolled-loops`: innermost loops that load blocks and have no dot, so that several rounds are in flight.
- `flattened-loops`: a loop over tiles around a loop with a dot becomes one, so that the next tile's loads begin before
  the last one is stored. NVIDIA, Triton 3.3 and later.
- `specialized-warps`: loops with one dot on sm_100 and later, and 8 warps at least: with 4 the compiler's pass fails.
- `one-accumulator`: loops with a dot on sm_100, whose accumulators live in tensor memory, where two may be too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of, with_value
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced

_LEAST_WARPS = 8
"""Of a program whose warps are specialised."""


class UnrolledLoops:
    """Several rounds of a loop in one."""

    name = "unrolled-loops"
    treats = frozenset({"TF208"})
    classes: frozenset[BottleneckClass] = frozenset({"latency", "special-function", "fp32-compute"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield factors of 4 and 2."""
        flow = flow_of(text.function, text.kernel, text.tl)
        loops = []
        for node, call in _loops(text, "loop_unroll_factor"):
            names = {name_of(n, text.tl) or "" for n in nodes_of(node.body)}
            blocks = any(
                isinstance(n, cst.Call) and name_of(n, text.tl) == "load" and flow.of(n.args[0].value).shape
                for n in nodes_of(node.body)
            )
            if blocks and not _inner(node) and not any(n == "dot" or n.startswith("atomic") for n in names):
                loops.append(call)
        if not loops:
            raise Absent("no loop without a dot loads blocks")
        for factor in (4, 2):
            title = f"loops unrolled {factor} times"
            yield _told(text, loops, "loop_unroll_factor", str(factor), title)


class FlattenedLoops:
    """A loop over tiles and the loop in it as one."""

    name = "flattened-loops"
    treats = frozenset({"TF206", "TF303"})
    classes: frozenset[BottleneckClass] = frozenset({"tensor-core", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        if capability(text) < 80:
            raise Absent(f"{text.task.arch} has no asynchronous copies that could begin earlier")
        loops = [
            call
            for node, call in _loops(text, "flatten")
            if len(_inner(node)) == 1 and any(name_of(n, text.tl) == "dot" for n in nodes_of(_inner(node)[0]))
        ]
        if not loops:
            raise Absent("no loop stands around one loop with a dot")
        yield _told(text, loops, "flatten", "True", "the loop over tiles flattened")


class SpecializedWarps:
    """Warps that load and warps that multiply."""

    name = "specialized-warps"
    treats = frozenset({"TF202", "TF206"})
    classes: frozenset[BottleneckClass] = frozenset({"tensor-core", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        if capability(text) < 100:
            raise Absent(f"{text.task.arch} does not specialise warps")
        loops = _dot_loops(text, "warp_specialize", most=1)
        warps = text.value("num_warps") or 4
        if warps < _LEAST_WARPS:
            raise Refused(f"with {warps} warps the pass that specialises them fails; it takes {_LEAST_WARPS}")
        yield _told(text, loops, "warp_specialize", "True", "specialised warps")


class OneAccumulator:
    """One accumulator in tensor memory instead of two."""

    name = "one-accumulator"
    treats = frozenset({"TF106", "TF301"})
    classes: frozenset[BottleneckClass] = frozenset({"register-spill", "low-occupancy"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        if not 100 <= capability(text) < 120:
            raise Absent(f"{text.task.arch} has no tensor memory")
        loops = _dot_loops(text, "disallow_acc_multi_buffer", most=4)
        yield _told(text, loops, "disallow_acc_multi_buffer", "True", "one accumulator in tensor memory")


def _loops(text: KernelText, option: str) -> Iterator[tuple[cst.For, cst.Call]]:
    """Yield the loops over `range` or `tl.range` that do not say `option` yet."""
    for node in nodes_of(text.function):
        if isinstance(node, cst.For) and isinstance(node.iter, cst.Call):
            plain = code(node.iter.func) in {"range", f"{text.tl}.range"}
            said = {a.keyword.value for a in node.iter.args if a.keyword is not None}
            if plain and option not in said:
                yield node, node.iter


def _dot_loops(text: KernelText, option: str, *, most: int) -> list[cst.Call]:
    found = []
    for node, call in _loops(text, option):
        dots = sum(name_of(n, text.tl) == "dot" for n in nodes_of(node.body))
        if 1 <= dots <= most and not _inner(node):
            found.append(call)
    if not found:
        raise Absent("no loop has a dot")
    return found


def _inner(node: cst.For) -> list[cst.CSTNode]:
    return [n for n in nodes_of(node.body) if isinstance(n, cst.For | cst.While)]


def capability(text: KernelText) -> int:
    """Return 90 for sm_90; 0 for what is not NVIDIA's."""
    found = re.fullmatch(r"sm_(\d+)[af]?", text.task.arch)
    return int(found.group(1)) if found is not None else 0


def _told(text: KernelText, loops: Sequence[cst.Call], option: str, value: str, title: str) -> Change:
    if not text.tl:
        raise Refused("triton.language is not imported under a name of its own")
    made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    for call in loops:
        ranged = call.with_changes(func=cst.parse_expression(f"{text.tl}.range"))
        made.append((call, with_value(ranged, None, option, cst.parse_expression(value))))
    return Change(title, text.edits(replaced(text.function, made)), ((option, value),))
