"""Atomics that order nothing: `sem="relaxed"` where the default makes a fence of every update.

Preconditions: the atomic's result is not used, no ordering is given, and the kernel has neither a lock (`atomic_cas`,
`atomic_xchg`, a `while`) nor a load of what it updates: then only the updates themselves matter, and those stay atomic.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, with_value
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, nodes_of, replaced

_UPDATES = frozenset({"atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor"})


class RelaxedAtomics:
    """Updates without fences."""

    name = "relaxed-atomics"
    treats = frozenset({"TF107"})
    classes: frozenset[BottleneckClass] = frozenset({"atomic-contention"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        for node in nodes_of(text.function):
            if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
                continue
            name = name_of(node.value, text.tl)
            if name in _UPDATES and argument(node.value, name, "sem") is None:
                made.append((node.value, with_value(node.value, None, "sem", cst.SimpleString('"relaxed"'))))
        if not made:
            raise Absent("no atomic has the default ordering and an unused result")
        for node in nodes_of(text.function):
            name = name_of(node, text.tl)
            if name in {"atomic_cas", "atomic_xchg"} or isinstance(node, cst.While):
                raise Refused("the kernel waits for other programs, so that the order of its updates matters")
        updated = {r.pointers for r in text.kernel.reaches or () if r.name in _UPDATES}
        read = {p for a in text.kernel.accesses if a.kind == "load" for p in [a.pointer]}
        both = {p for pointers in updated for p in pointers} & read
        if both:
            raise Refused(f"the kernel reads {min(p for p in both if p)}, which it updates")
        if text.kernel.helpers:
            raise Refused("what the kernel's helpers do about the order of its updates is not looked into")
        yield Change("atomics without ordering", text.edits(replaced(text.function, made)))
