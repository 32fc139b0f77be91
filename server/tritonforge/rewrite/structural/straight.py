"""Straight-line code without what it does twice: repeated assignments, repeated loads, sums that begin at zero."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tritonforge.rewrite.structural.calls import ELEMENTWISE, REDUCTIONS, argument, name_of, value_of
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of

Numbered = tuple[cst.BaseStatement, int]
"""A statement and the number of the loop that it stood in, -1 for none."""


def simplified(text: KernelText, statements: Sequence[Numbered]) -> list[cst.BaseStatement]:
    """Return `statements` without repetitions. Only statements that stood in a loop are changed or left out."""
    return _Straight(text, list(statements)).run()


class _Straight:
    def __init__(self, text: KernelText, statements: list[Numbered]) -> None:
        self.tl = text.tl
        self.statements = statements
        self.scalars = {p.name for p in text.kernel.parameters if p.role in {"scalar", "stride"}}
        self.known: dict[str, cst.BaseExpression] = {}
        self.renamed: dict[str, str] = {}
        self.out: list[cst.BaseStatement] = []

    def run(self) -> list[cst.BaseStatement]:
        """Go through all statements, in order."""
        waiting: list[cst.EmptyLine] = []
        for index, (statement, number) in enumerate(self.statements):
            kept = self.step(index, statement, number)
            if kept is None:
                # What was said above a statement that is left out is said above the next one.
                waiting += [line for line in getattr(statement, "leading_lines", ()) if line.comment or not waiting]
                continue
            if waiting and isinstance(kept, cst.SimpleStatementLine):
                kept = kept.with_changes(leading_lines=[*waiting, *kept.leading_lines])
                waiting = []
            self.out.append(kept)
        return self.out

    def step(self, index: int, statement: cst.BaseStatement, number: int) -> cst.BaseStatement | None:
        if self.renamed:
            visited = statement.visit(_Rename(self.renamed, _assigned(statement)))
            assert isinstance(visited, cst.BaseStatement)
            statement = visited
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            for name in _all_assigned(statement):
                self.forget(name)
            if any(name_of(n, self.tl) == "store" for n in nodes_of(statement)):
                self.forget_loads()
            return statement
        (small,) = statement.body
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
            return self.assignment(index, statement, small, small.targets[0].target.value, number)
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            return self.accumulation(index, statement, small, small.target.value, number)
        for name in _all_assigned(statement):
            self.forget(name)
        if isinstance(small, cst.Expr) and name_of(small.value, self.tl) == "store":
            assert isinstance(small.value, cst.Call)
            if not self.is_single(small.value):
                self.forget_loads()
        return statement

    def assignment(
        self, index: int, statement: cst.SimpleStatementLine, small: cst.Assign, name: str, number: int
    ) -> cst.BaseStatement | None:
        self.renamed.pop(name, None)
        value = small.value
        if number >= 0:
            old = self.known.get(name)
            if old is not None and code(old) == code(value):
                return None
            same = self.same_load(index, value, number)
            if same == name:
                return None
            if same is not None:
                self.forget(name)
                if not self.set_later(index, same):
                    self.renamed[name] = same
                    return None
                return statement.with_changes(body=[small.with_changes(value=cst.Name(same))])
        self.forget(name)
        if not any(isinstance(n, cst.Name) and n.value == name for n in (value, *nodes_of(value))):
            self.known[name] = value
        return statement

    def accumulation(
        self, index: int, statement: cst.SimpleStatementLine, small: cst.AugAssign, name: str, number: int
    ) -> cst.BaseStatement | None:
        """Take `total += x` for `total = x` where total was zero; rounding to fp32 included."""
        first = self.known.get(name)
        self.renamed.pop(name, None)
        zero = first is not None and name_of(first, self.tl) == "zeros" and self.is_float32(first)
        if number < 0 or not zero or not isinstance(small.operator, cst.AddAssign) or not self.is_float32(small.value):
            self.forget(name)
            return statement
        place = next((i for i, s in enumerate(self.out) if _sets(s, name, first)), None)
        between = self.out[place + 1 :] if place is not None else []
        if place is None or any(_reads(s, name) for s in between):
            self.forget(name)
            return statement
        gone = self.out.pop(place)
        self.forget(name)
        lines = [*getattr(gone, "leading_lines", ())]
        if any(line.comment for line in lines) and place < len(self.out):
            following = self.out[place]
            self.out[place] = following.with_changes(leading_lines=[*lines, *getattr(following, "leading_lines", ())])
        if isinstance(small.value, cst.Name) and not self.set_later(index, small.value.value):
            self.renamed[name] = small.value.value
            return None
        self.known[name] = small.value
        target = cst.AssignTarget(small.target)
        return statement.with_changes(body=[cst.Assign([target], small.value)])

    def same_load(self, index: int, value: cst.BaseExpression, number: int) -> str | None:
        """Return the variable that holds what `value` loads, if that is the same wherever it matters."""
        load = self.load_in(value)
        if load is None:
            return None
        for name, old in reversed(self.known.items()):
            earlier = self.load_in(old)
            if earlier is None or self.without_other(old) != self.without_other(value):
                continue
            mine, theirs = value_of(load, "load", "other"), value_of(earlier, "load", "other")
            equal = mine is None or (theirs is not None and _number(mine) == _number(theirs))
            if equal or self.only_stores(index, number, load):
                return name
        return None

    def only_stores(self, index: int, number: int, load: cst.Call) -> bool:
        """Tell whether the loop does nothing but compute, element by element, what the load's own mask lets out."""
        mask = self.expanded(value_of(load, "load", "mask"))
        inside = [s for s, n in self.statements[index:] if n == number]
        names = {name for s in inside for name in _all_assigned(s)}
        after = [s for s, n in self.statements[index:] if n != number]
        local = dict(self.known)
        for statement in inside:
            for node in nodes_of(statement):
                called = name_of(node, self.tl)
                if isinstance(node, cst.AugAssign) or called in REDUCTIONS or (called or "").startswith("atomic_"):
                    return False
                if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
                    local[node.targets[0].target.value] = node.value
                if called == "store" and isinstance(node, cst.Call):
                    kept = value_of(node, "store", "mask")
                    if self.expanded(kept, local) != mask:
                        return False
        return not any(_reads(s, name) for s in after for name in names)

    def expanded(self, mask: cst.BaseExpression | None, known: dict[str, cst.BaseExpression] | None = None) -> str:
        known = self.known if known is None else known
        while isinstance(mask, cst.Name) and mask.value in known:
            mask = known[mask.value]
        return code(mask).replace(" ", "") if mask is not None else ""

    def load_in(self, node: cst.BaseExpression) -> cst.Call | None:
        if name_of(node, self.tl) == "load":
            assert isinstance(node, cst.Call)
            return node
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
            return self.load_in(node.func.value)
        return None

    def without_other(self, node: cst.BaseExpression) -> tuple[str, ...]:
        """Return a load and its casts as text, but for what fills masked elements and how it is cached."""
        load = self.load_in(node)
        assert load is not None
        casts = "".join(code(node).replace(code(load), "").split())
        volatile = next((code(a.value) for a in load.args if a.keyword and a.keyword.value == "volatile"), "")
        mask = self.expanded(value_of(load, "load", "mask"))
        return (code(load.args[0].value).replace(" ", ""), mask, casts, volatile)

    def is_single(self, store: cst.Call) -> bool:
        """Tell whether a store writes one element: of something reduced, to an address without a block."""
        pointer = code(store.args[0].value)
        words = {n.value for n in nodes_of(store.args[0]) if isinstance(n, cst.Name)}
        blocks = {
            name
            for name, value in self.known.items()
            if any(name_of(n, self.tl) == "arange" for n in (value, *nodes_of(value)))
        }
        return "arange" not in pointer and not words & blocks and argument(store, "store", "mask") is None

    def is_float32(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression surely is in single precision."""
        if isinstance(node, cst.Name):
            return node.value in self.known and self.is_float32(self.known[node.value])
        if isinstance(node, cst.BinaryOperation):
            sides = (node.left, node.right)
            return all(self.is_float32(s) or self.is_scalar(s) for s in sides) and any(
                self.is_float32(s) for s in sides
            )
        if not isinstance(node, cst.Call):
            return False
        name = name_of(node, self.tl)
        if name in {"zeros", "full"}:
            dtype = value_of(node, name, "dtype")
            return dtype is not None and code(dtype) == f"{self.tl}.float32"
        if name in {"sum", "max", "min"}:
            return bool(node.args) and self.is_float32(node.args[0].value)
        if name in ELEMENTWISE - {"cast"} and node.args:
            listed = [a.value for a in node.args[1 if name == "where" else 0 :]]
            return all(self.is_float32(a) or self.is_scalar(a) for a in listed) and any(map(self.is_float32, listed))
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to" and node.args:
            return code(node.args[0].value) == f"{self.tl}.float32"
        return False

    def is_scalar(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression is a number, which leaves single precision as it is."""
        return isinstance(node, cst.Float | cst.Integer) or (isinstance(node, cst.Name) and node.value in self.scalars)

    def set_later(self, index: int, name: str) -> bool:
        return any(name in _all_assigned(s) for s, _ in self.statements[index + 1 :])

    def forget(self, name: str) -> None:
        self.known.pop(name, None)
        for other in [
            n
            for n, value in self.known.items()
            if any(isinstance(x, cst.Name) and x.value == name for x in (value, *nodes_of(value)))
        ]:
            del self.known[other]

    def forget_loads(self) -> None:
        for name in [n for n, value in self.known.items() if self.load_in(value) is not None]:
            del self.known[name]


class _Rename(cst.CSTTransformer):
    """Reads other variables; what a statement sets keeps its name."""

    def __init__(self, renamed: dict[str, str], kept: set[int]) -> None:
        super().__init__()
        self.renamed, self.kept = renamed, kept

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if id(original_node) in self.kept:
            return updated_node
        return updated_node.with_changes(value=self.renamed.get(updated_node.value, updated_node.value))

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    out: list[cst.BaseExpression] = []
    for child in (node, *nodes_of(node)):
        if isinstance(child, cst.Assign):
            out += [t.target for t in child.targets]
        elif isinstance(child, cst.AnnAssign | cst.AugAssign | cst.For):
            out.append(child.target)
    return out


def _assigned(node: cst.CSTNode) -> set[int]:
    """Return the ids of the names that an assignment sets."""
    return {id(n) for target in _targets(node) for n in (target, *nodes_of(target)) if isinstance(n, cst.Name)}


def _all_assigned(node: cst.CSTNode) -> set[str]:
    return {n.value for target in _targets(node) for n in (target, *nodes_of(target)) if isinstance(n, cst.Name)}


def _reads(node: cst.CSTNode, name: str) -> bool:
    kept = _assigned(node)
    return any(isinstance(n, cst.Name) and n.value == name and id(n) not in kept for n in nodes_of(node))


def _sets(statement: cst.BaseStatement, name: str, value: cst.BaseExpression | None) -> bool:
    return any(
        isinstance(n, cst.Assign) and code(n.targets[0].target) == name and n.value is value
        for n in nodes_of(statement)
    )


def _number(node: cst.BaseExpression) -> str:
    """Return a number as text in which 0 and 0.0 are alike."""
    words = code(node).replace(" ", "").replace("'", '"')
    try:
        return repr(float(words))
    except ValueError:
        return words
