"""Loads that every round of a loop repeats, in front of the loop.

The compiler moves what does not change out of a loop, loads too, but not out of a loop that stores: it cannot know that
the store leaves the loaded memory alone. Where the kernel never writes through that pointer, and the recorded launch
gives it memory of its own, it does.

Preconditions: the loop stores; the load has a mask, so that it may run although the loop might not; what it reads is
set in front of the loop; its name is set once in the loop and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import ELEMENTWISE, argument, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced
from tritonforge.rewrite.structural.loops import times_set

_PURE = ELEMENTWISE | {"load", "arange", "full", "zeros", "expand_dims", "broadcast_to", "program_id"}


class HoistedLoads:
    """Loads that do not depend on a loop, in front of it."""

    name = "hoisted-loads"
    treats = frozenset({"TF205", "TF103"})
    classes: frozenset[BottleneckClass] = frozenset({"redundant-traffic", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        made: list[tuple[cst.CSTNode, Replacement]] = []
        reasons: list[str] = []
        for node in nodes_of(text.function):
            if isinstance(node, cst.For) and not any(node in nodes_of(old) for old, _ in made):
                moved = self.moved(text, node, reasons)
                if moved:
                    made.append((node, _without(node, moved)))
        if not made:
            raise Refused(reasons[0]) if reasons else Absent("no loop that stores repeats a load")
        yield Change("loads that a loop repeats in front of it", text.edits(replaced(text.function, made)))

    def moved(self, text: KernelText, loop: cst.For, reasons: list[str]) -> list[cst.SimpleStatementLine]:
        """Return the statements of a loop that can stand in front of it: loads, and what they need."""
        calls = [name_of(n, text.tl) or "" for n in nodes_of(loop.body)]
        if not any(name == "store" or name.startswith("atomic") for name in calls):
            return []
        inside = times_set(loop)
        free: dict[str, cst.SimpleStatementLine] = {}
        loads: list[str] = []
        for statement in loop.body.body:
            named = _assignment(statement)
            if named is None or not isinstance(statement, cst.SimpleStatementLine):
                continue
            name, value = named
            read = {n.value for n in (value, *nodes_of(value)) if isinstance(n, cst.Name)}
            if read & (inside.keys() - free.keys()) or inside[name] > 1 or not self.is_pure(text, value):
                continue
            if _set_before(text.function, loop, name) or _read_before(loop, statement, name):
                continue
            found = [n for n in (value, *nodes_of(value)) if name_of(n, text.tl) == "load"]
            problem = next((why for n in found if (why := self.obstacle(text, n))), "")
            if problem:
                reasons.append(problem)
                continue
            free[name] = statement
            if found:
                loads.append(name)
        wanted: set[str] = set(loads)
        for name in reversed(list(free)):
            if name in wanted:
                wanted |= {n.value for n in nodes_of(free[name]) if isinstance(n, cst.Name)} & free.keys()
        return [free[name] for name in free if name in wanted]

    def is_pure(self, text: KernelText, value: cst.BaseExpression) -> bool:
        """Tell whether an expression calls nothing but functions without an effect."""
        for node in (value, *nodes_of(value)):
            if isinstance(node, cst.Call):
                method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
                if name_of(node, text.tl) not in _PURE and not method:
                    return False
        return True

    def obstacle(self, text: KernelText, node: cst.CSTNode) -> str:
        """Return why a load cannot be moved, or an empty text."""
        assert isinstance(node, cst.Call)
        words = code(node)
        if argument(node, "load", "mask") is None:
            return f"{words} has no mask, and may read what is not there when the loop does not run"
        if any(a.keyword is not None and a.keyword.value == "volatile" for a in node.args):
            return f"{words} is volatile"
        address = " ".join(code(node.args[0].value).split())
        pointers = {
            a.pointer for a in text.kernel.accesses if " ".join(a.address.split()) == address and a.kind == "load"
        }
        written = {p for r in text.kernel.reaches or () if r.name != "load" for p in r.pointers}
        unknown = text.kernel.reaches is None or any(a.pointer is None for a in text.kernel.accesses)
        pointer = next(iter(pointers), None)
        if len(pointers) != 1 or pointer is None or unknown:
            return f"it is not known what {words} reads"
        if pointer in written:
            return f"the kernel also writes through {pointer}"
        shared = next((name for name in sorted(written) if text.share_memory(pointer, name)), "")
        return f"{pointer} and {shared} are the same memory" if shared else ""


def _without(loop: cst.For, moved: list[cst.SimpleStatementLine]) -> cst.FlattenSentinel[cst.BaseStatement]:
    rest = [s for s in loop.body.body if s not in moved]
    first, *others = moved
    head = first.with_changes(leading_lines=[*loop.leading_lines, *first.leading_lines])
    body = loop.body.with_changes(body=rest)
    return cst.FlattenSentinel([head, *others, loop.with_changes(leading_lines=(), body=body)])


def _assignment(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    small = statement.body[0]
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    target = small.targets[0].target
    return (target.value, small.value) if isinstance(target, cst.Name) else None


def _set_before(function: cst.FunctionDef, loop: cst.For, name: str) -> bool:
    """Tell whether a name is also set outside of the loop, or is a parameter."""
    return times_set(function.body)[name] != times_set(loop)[name] or any(
        p.name.value == name for p in function.params.params
    )


def _read_before(loop: cst.For, statement: cst.CSTNode, name: str) -> bool:
    for other in loop.body.body:
        if other is statement:
            return False
        if any(isinstance(n, cst.Name) and n.value == name for n in nodes_of(other)):
            return True
    return False
