"""A size known to the compiler: a run-time integer that keeps loads narrow becomes a constexpr.

Triton knows of a run-time integer only whether it is 1 or divisible by 16. A row length of 1,000 hides that rows start
at multiples of 8 elements and that masks end at one, so accesses fall apart into single elements. As a constexpr it
shows both.

Preconditions: the recorded values are few, none is 1 or divisible by 16, all are divisible by an element count that
widens accesses; the parameter takes part in addresses or masks, has no default and is not set in the kernel. Each value
is compiled anew, so a size that differs from call to call is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Launch, Scalar
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced

MOST_VALUES = 4
"""Distinct recorded values of a size; more would be compiled again and again."""


class ConstexprSize:
    """Run-time sizes as constexprs."""

    name = "constexpr-size"
    treats = frozenset({"TF102", "TF101"})
    classes: frozenset[BottleneckClass] = frozenset({"uncoalesced-access", "dram-bandwidth", "l2-bandwidth", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield all sizes that qualify together."""
        sizes = [p.name for p in text.kernel.parameters if not p.constexpr and self._qualifies(text, p.name)]
        if not sizes:
            raise Absent("no run-time size keeps accesses narrow")
        for launch in text.task.launches:
            if launch.config.grid and any(_value(launch, name) is None for name in sizes):
                raise Refused("not every recorded launch says how large its sizes are")
        for name in sizes:
            values = {_value(launch, name) for launch in text.task.launches}
            if len(values) > MOST_VALUES:
                raise Refused(f"{name} has {len(values)} different values, and each would be compiled anew")
        annotated = []
        for parameter in text.function.params.params:
            if parameter.name.value in sizes:
                like = next(
                    (p.annotation for p in text.function.params.params if p.annotation and "constexpr" in code(p)), None
                )
                annotation = (
                    like.deep_clone()
                    if like is not None
                    else cst.Annotation(cst.parse_expression(f"{text.tl}.constexpr"))
                )
                annotated.append((parameter, parameter.with_changes(annotation=annotation)))
        title = f"{' and '.join(sizes)} known to the compiler"
        yield Change(title, text.edits(replaced(text.function, annotated)), tuple((n, "constexpr") for n in sizes))

    def _qualifies(self, text: KernelText, name: str) -> bool:
        parameter = text.kernel.parameter(name)
        value = text.value(name)
        if parameter is None or parameter.role not in {"scalar", "stride"} or parameter.default is not None:
            return False
        # Divisible by 4 elements at least: 8 bytes of fp16, 16 of fp32.
        if value is None or value <= 1 or value % 16 == 0 or value % 4:
            return False
        if "do_not_specialize" in " ".join(text.kernel.decorators) or _is_set(text, name):
            return False
        words = [w for a in text.kernel.accesses if a.block is not False for w in (a.address, a.mask or "")]
        names = {n for w in words for n in _identifiers(w)}
        for node in nodes_of(text.function):
            if isinstance(node, cst.Assign | cst.AugAssign):
                target = node.targets[0].target if isinstance(node, cst.Assign) else node.target
                if code(target) in names:
                    names |= set(_identifiers(code(node.value)))
        return name in names


def _value(launch: Launch, name: str) -> int | None:
    found = dict(launch.problem.arguments).get(name)
    return found.value if isinstance(found, Scalar) and type(found.value) is int else None


def _identifiers(words: str) -> list[str]:
    return [w for w in "".join(c if c.isalnum() or c == "_" else " " for c in words).split() if w.isidentifier()]


def _is_set(text: KernelText, name: str) -> bool:
    """Tell whether the kernel sets the parameter, or uses it as only a run-time value can be used."""
    for node in nodes_of(text.function):
        if isinstance(node, cst.Assign) and any(code(t.target) == name for t in node.targets):
            return True
        if isinstance(node, cst.AugAssign | cst.For) and code(node.target) == name:
            return True
        if isinstance(node, cst.Attribute) and code(node.value) == name:
            return True  # `n.to(tl.int64)`: a constexpr has no such method
    return False
