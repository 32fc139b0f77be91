"""Strides that Triton may look at: an `int` annotation fixes the type of an argument and hides that it is 1.

A stride of 1 becomes a constant only when nothing is said of its type (Triton 3.2 to 3.9); with `stride: int` the
compiler must take every element for one by itself.

Preconditions: the parameter is annotated `int` or `tl.int32`, its recorded value is 1 or divisible by 16 in every
launch, and it has no default. A 64-bit annotation stays: it decides how wide offsets are.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Scalar
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, replaced


class PlainStrides:
    """Sizes and strides without a type."""

    name = "plain-strides"
    treats = frozenset({"TF102", "TF101"})
    classes: frozenset[BottleneckClass] = frozenset({"uncoalesced-access", "dram-bandwidth", "l2-bandwidth", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield all of them together."""
        narrow = {"int", f"{text.tl}.int32", "'int'", '"int"'}
        names = []
        for parameter in text.kernel.parameters:
            if parameter.constexpr or parameter.annotation not in narrow or parameter.default is not None:
                continue
            values = [dict(launch.problem.arguments).get(parameter.name) for launch in text.task.launches]
            known = [v.value for v in values if isinstance(v, Scalar) and type(v.value) is int]
            if known and len(known) == len(values) and all(v == 1 or v % 16 == 0 for v in known):
                names.append(parameter.name)
        if not names:
            raise Absent("no annotation hides what the recorded values show")
        made: list[tuple[cst.CSTNode, cst.CSTNode]] = [
            (p, p.with_changes(annotation=None)) for p in text.function.params.params if p.name.value in names
        ]
        yield Change(f"no fixed type for {', '.join(names)}", text.edits(replaced(text.function, made)))
