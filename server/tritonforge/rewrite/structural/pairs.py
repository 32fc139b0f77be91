"""Interleaved pairs loaded once: two loads (or stores) of every other element become one of both, split in registers.

`x[2·i]` and `x[2·i + 1]` each touch all sectors of the same stretch, so that everything is fetched twice and in narrow
pieces. One load of `2·BLOCK` neighbours and `tl.split` move each byte once, in full width.

Preconditions: two accesses of one kind whose addresses are alike but for a 1 that one of them adds, in one block of
statements, with the same mask and `other`; the address holds `2 * i` (or `i * 2`) once, where `i` is a vector of its
own, along the last axis where the block has two; the mask is made of `i < n` and of conditions that are the same for
all lanes of that axis. Between two loads nothing is stored, and between two stores nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import grouped, integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced, replaced_in

_SPREAD = "[None, :]"
"""What puts a vector along the last axis of a block of two."""


@dataclass(frozen=True)
class _Access:
    """One access of every other element: `index` is the `i` of `2 * i`, `base` the address with the pair's start."""

    call: cst.Call
    statement: cst.SimpleStatementLine
    target: str
    index: str
    doubled: cst.BinaryOperation
    odd: bool
    plain: str
    cast: str


class Pairs:
    """Pairs of neighbours moved together."""

    name = "pairs"
    treats = frozenset({"TF101", "TF102", "TF103"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"uncoalesced-access", "dram-bandwidth", "l2-bandwidth", "redundant-traffic", "latency"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield all pairs together."""
        flow = flow_of(text.function, text.kernel, text.tl)
        changed = _Changed(text, flow)
        for block in _blocks(text.function):
            changed.block(block)
        if not changed.made:
            raise changed.why or Absent("no two accesses take every other element of one stretch")
        yield Change("interleaved pairs moved once", text.edits(replaced(text.function, changed.made)))


def _blocks(function: cst.FunctionDef) -> Iterator[Sequence[cst.BaseStatement]]:
    for node in (function, *nodes_of(function)):
        if isinstance(node, cst.IndentedBlock):
            yield node.body


class _Changed:
    def __init__(self, text: KernelText, flow: Flow) -> None:
        self.text, self.flow, self.tl = text, flow, text.tl
        self.made: list[tuple[cst.CSTNode, Replacement]] = []
        self.why: Refused | None = None
        self.wide: dict[tuple[int, str], str] = {}

    def block(self, statements: Sequence[cst.BaseStatement]) -> None:
        found = [(i, a) for i, s in enumerate(statements) if (a := self.access(s)) is not None]
        used: set[int] = set()
        for place, (i, one) in enumerate(found):
            for j, two in found[place + 1 :]:
                alike = (one.plain, one.index, one.cast, name_of(one.call, self.tl)) == (
                    two.plain,
                    two.index,
                    two.cast,
                    name_of(two.call, self.tl),
                )
                if not alike or one.odd == two.odd or {i, j} & used:
                    continue
                try:
                    self.pair(statements, i, j, one, two)
                    used |= {i, j}
                except Refused as refused:
                    self.why = refused

    def access(self, statement: cst.BaseStatement) -> _Access | None:
        """Return the access of every other element that a statement is."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        (small,) = statement.body
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            load, cast = _load(small.value, self.tl)
            target = small.targets[0].target.value
            return self.described(statement, load, target, cast) if load is not None else None
        stored = small.value if isinstance(small, cst.Expr) else None
        if isinstance(stored, cst.Call) and name_of(stored, self.tl) == "store":
            return self.described(statement, stored, "", "")
        return None

    def described(self, statement: cst.SimpleStatementLine, call: cst.Call, target: str, cast: str) -> _Access | None:
        shape = self.flow.of(call.args[0].value).shape
        if shape is None or len(shape) not in {1, 2}:
            return None
        address = call.args[0].value
        terms = list(_terms(address))
        odd = [t for t in terms if integer(t) == 1]
        # In a block of two axes the lanes are those of the last one.
        across = {shape, shape[-1:], ("1", *shape[-1:])}
        doubled = [d for t in terms for d in [_doubled(t)] if d is not None and self.flow.of(d[0]).shape in across]
        # `2 * i + 1` may stand in brackets of its own, or behind a pointer.
        if len(odd) > 1 or len(doubled) != 1:
            return None
        node, index = doubled[0]
        rest = [code(t).replace(" ", "") for t in terms if t not in odd]
        arguments = [
            code(a.value).replace(" ", "")
            for a in call.args[1:]
            if not (name_of(call, self.tl) == "store" and a is call.args[1])
        ]
        plain = "|".join([*sorted(rest), *arguments])
        return _Access(call, statement, target, index, node, bool(odd), plain, cast)

    def pair(self, statements: Sequence[cst.BaseStatement], i: int, j: int, one: _Access, two: _Access) -> None:
        kind = name_of(one.call, self.tl)
        between = statements[i + 1 : j]
        calls = {name_of(n, self.tl) for s in between for n in nodes_of(s)}
        if kind == "load" and any(c == "store" or (c or "").startswith("atomic") for c in calls):
            raise Refused("between the two loads of a pair something is stored")
        if kind == "store" and any(c == "load" or (c or "").startswith("atomic") for c in calls):
            raise Refused("between the two stores of a pair something is loaded")
        even, odd = (one, two) if two.odd else (two, one)
        # A pair of loads stands where the first stood, a pair of stores where the second did.
        place, other = (one, two) if kind == "load" else (two, one)
        names = {n.value for n in nodes_of(one.call) if isinstance(n, cst.Name)}
        if any(_sets(s, names) for s in statements[i : j + 1]):
            raise Refused("what a pair's address is made of is set between its accesses")
        extent = self.flow.of(even.call.args[0].value).shape
        assert extent is not None
        width = f"2 * {extent[-1]}"
        vector = one.index.removesuffix(_SPREAD)
        spread = _SPREAD if vector != one.index else ""
        lanes = self.lanes(vector)
        known = (id(statements), vector)
        wishes = ("pair", *(f"pair_{n}" for n in range(2, 9)))
        wide = self.wide.get(known) or self.text.fresh(*wishes, but=self.wide.values())
        mask = value_of(even.call, kind or "", "mask")
        call = even.call
        replacements: list[tuple[cst.CSTNode, Replacement]] = [(even.doubled, cst.parse_expression(wide + spread))]
        if mask is not None:
            replacements.append((mask, self.wide_mask(mask, vector, wide)))
        if kind == "load":
            loaded = _visited(call, replacements)
            both = f"{self.tl}.reshape({code(loaded)}{even.cast}, ({', '.join(extent)}, 2))"
            line = _statement(f"{even.target}, {odd.target} = {self.tl}.split({both})")
        else:
            values = [value_of(a.call, "store", "value") for a in (even, odd)]
            assert values[0] is not None
            assert values[1] is not None
            for value in values:
                if value is not None and self.flow.of(value).shape != extent:
                    raise Refused("what a pair stores is not of the shape of its address")
            joined = cst.parse_expression(f"{self.tl}.interleave({code(values[0])}, {code(values[1])})")
            replacements.append((values[0], joined))
            line = _statement(code(_visited(call, replacements)))
        lines: list[cst.BaseStatement] = []
        if known not in self.wide:
            self.wide[known] = wide
            lines.append(_statement(f"{wide} = {lanes.format(width=width)}"))
        lines.append(line.with_changes(trailing_whitespace=place.statement.trailing_whitespace))
        first, *rest = lines
        first = first.with_changes(leading_lines=place.statement.leading_lines)
        self.made.append((place.statement, cst.FlattenSentinel([first, *rest])))
        self.made.append((other.statement, cst.RemoveFromParent()))

    def lanes(self, index: str) -> str:
        """Return the places of both elements of all pairs as text, with `{width}` for their number.

        `index` is `arange` itself, or something that is the same for all lanes plus an `arange`.
        """
        node: cst.BaseExpression = cst.parse_expression(index)
        if isinstance(node, cst.Name):
            values = [
                n.value
                for n in nodes_of(self.text.function)
                if isinstance(n, cst.Assign) and code(n.targets[0].target) == index
            ]
            if len(values) != 1:
                raise Refused(f"{index} is set in several places")
            node = values[0]
        whole = f"{self.tl}.arange(0, {{width}})"
        if name_of(node, self.tl) == "arange":
            return whole
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            for base, lanes in ((node.left, node.right), (node.right, node.left)):
                if name_of(lanes, self.tl) == "arange" and not any(
                    name_of(n, self.tl) == "arange" for n in (base, *nodes_of(base))
                ):
                    return f"2 * {code(grouped(base))} + {whole}"
        raise Refused(f"{index} is no run of neighbours")

    def wide_mask(self, mask: cst.BaseExpression, index: str, wide: str) -> cst.BaseExpression:
        """Return the mask for both elements of each pair."""
        shape = self.flow.of(mask).shape
        if shape is not None and (not shape or shape[-1] == "1"):
            return mask
        if isinstance(mask, cst.Subscript) and code(mask).endswith(_SPREAD):
            return mask.with_changes(value=grouped(self.wide_mask(mask.value, index, wide)))
        if isinstance(mask, cst.Name):
            values = [
                n.value
                for n in nodes_of(self.text.function)
                if isinstance(n, cst.Assign) and code(n.targets[0].target) == mask.value
            ]
            if len(values) != 1:
                raise Refused(f"the mask {mask.value} is set in several places")
            return self.wide_mask(values[0], index, wide)
        if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
            left = grouped(self.wide_mask(mask.left, index, wide))
            return mask.with_changes(left=left, right=grouped(self.wide_mask(mask.right, index, wide)))
        if isinstance(mask, cst.Comparison) and len(mask.comparisons) == 1:
            (comparison,) = mask.comparisons
            spread = {index: "", f"{index}{_SPREAD}": _SPREAD}.get(code(mask.left))
            if spread is not None and isinstance(comparison.operator, cst.LessThan):
                bound = cst.parse_expression(f"2 * {code(grouped(comparison.comparator))}")
                left = cst.parse_expression(wide + spread)
                return mask.with_changes(left=left, comparisons=[comparison.with_changes(comparator=bound)])
        raise Refused(f"the mask {code(mask)} is more than a bound of {index}")


def _load(node: cst.BaseExpression, tl: str) -> tuple[cst.Call | None, str]:
    """Return the load that a value is, with the cast behind it as text."""
    if isinstance(node, cst.Call) and name_of(node, tl) == "load":
        return node, ""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
        load, cast = _load(node.func.value, tl)
        if load is not None:
            return load, cast + code(node)[len(code(node.func.value)) :]
    return None, ""


def _terms(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _doubled(node: cst.BaseExpression) -> tuple[cst.BinaryOperation, str] | None:
    """Return `2 * i` and the text of `i`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            if integer(factor) == 2:
                return node, code(other.with_changes(lpar=(), rpar=()))
    return None


def _visited(call: cst.Call, pairs: Sequence[tuple[cst.CSTNode, Replacement]]) -> cst.Call:
    new = replaced_in(call, pairs)
    assert isinstance(new, cst.Call)
    return new


def _statement(words: str) -> cst.SimpleStatementLine:
    line = cst.parse_statement(words)
    assert isinstance(line, cst.SimpleStatementLine)
    return line


def _sets(statement: cst.BaseStatement, names: set[str]) -> bool:
    for node in nodes_of(statement):
        if isinstance(node, cst.Assign) and any(code(t.target) in names for t in node.targets):
            return True
        if isinstance(node, cst.AugAssign | cst.For) and code(node.target) in names:
            return True
    return False
