"""Loops of a kernel's body over the tiles of something: what they carry, and what their bodies say once spelled out.

Two loops read the same when their bodies do after local variables are replaced by what they stand for, whatever the
variables are called. `Spelled` does that replacing; `step_of` recognises sums, maxima and minima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.structural.calls import argument, grouped, integer, name_of, value_of
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of

ROUND = "_round"
"""Stands for a loop's variable in what is spelled out."""

_FILLS = ("other", "cache_modifier", "eviction_policy")


@dataclass(frozen=True)
class Span:
    """A loop `for variable in range(0, stop, step)` at `place` in the kernel's body; `step` is `1` where none is given.

    `options` are keyword arguments of `tl.range`, as text.
    """

    node: cst.For
    place: int
    variable: str
    stop: str
    step: str
    function: str = "range"
    options: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, str]:
        """What two loops over the same tiles have in common."""
        return self.stop, self.step


def spans_of(text: KernelText) -> list[Span]:
    """Return the loops from 0 that stand in the kernel's body itself."""
    found = []
    for place, node in enumerate(text.function.body.body):
        if not isinstance(node, cst.For) or not isinstance(node.target, cst.Name) or node.orelse is not None:
            continue
        bounds = node.iter
        if not isinstance(bounds, cst.Call) or code(bounds.func) not in {"range", f"{text.tl}.range"}:
            continue
        parts = [a.value for a in bounds.args if a.keyword is None]
        if not 1 <= len(parts) <= 3 or (len(parts) > 1 and integer(parts[0]) != 0):
            continue
        stop = code(parts[0] if len(parts) == 1 else parts[1])
        step = code(parts[2]) if len(parts) == 3 else "1"
        options = tuple(code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in bounds.args if a.keyword)
        found.append(Span(node, place, node.target.value, stop, step, code(bounds.func), options))
    return found


def simple_statements(body: cst.BaseSuite) -> list[cst.BaseSmallStatement] | None:
    """Return the statements of a body without branches and loops; None when it has those."""
    out: list[cst.BaseSmallStatement] = []
    for line in body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        out += line.body
    return out


def step_of(node: cst.CSTNode, tl: str) -> tuple[str, str, cst.BaseExpression] | None:
    """Return name, kind (`sum`, `max`, `min`) and term of a statement that adds to a variable; None for others.

    `acc += x`, `acc = acc + x`, `acc = tl.dot(a, b, acc)` and `m = tl.maximum(m, x)` are such.
    """
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
        if isinstance(node.operator, cst.AddAssign) and not reads(node.value, node.target.value):
            return node.target.value, "sum", node.value
        return None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0].target, cst.Name):
        return None
    name, value = node.targets[0].target.value, node.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        for own, other in ((value.left, value.right), (value.right, value.left)):
            if code(own) == name and not reads(other, name):
                return name, "sum", other
    called = name_of(value, tl)
    if isinstance(value, cst.Call) and called in {"maximum", "minimum"} and len(value.args) == 2:
        first, second = (a.value for a in value.args)
        for own, other in ((first, second), (second, first)):
            if code(own) == name and not reads(other, name):
                return name, called.removesuffix("imum"), other
    if isinstance(value, cst.Call) and called == "dot":
        acc = argument(value, "dot", "acc")
        if acc is not None and code(acc.value) == name:
            rest = [a.value for a in value.args if a is not acc]
            if not any(reads(one, name) for one in rest):
                return name, "sum", value
    return None


def reads(node: cst.CSTNode, name: str) -> bool:
    """Tell whether an expression reads a variable."""
    return any(isinstance(n, cst.Name) and n.value == name for n in (node, *nodes_of(node)))


def names_in(node: cst.CSTNode) -> set[str]:
    """Return the variables that an expression reads."""
    return {n.value for n in (node, *nodes_of(node)) if isinstance(n, cst.Name)} - {"None", "True", "False"}


def sets(node: cst.CSTNode) -> set[str]:
    """Return the variables that a statement sets, in loops and branches of it too."""
    return set(times_set(node))


def times_set(node: cst.CSTNode) -> Counter[str]:
    """Return how often a statement sets each variable, in loops and branches of it too."""
    out: Counter[str] = Counter()
    for one in (node, *nodes_of(node)):
        targets: Iterable[cst.BaseExpression] = ()
        if isinstance(one, cst.Assign):
            targets = [t.target for t in one.targets]
        elif isinstance(one, cst.AugAssign | cst.AnnAssign | cst.For | cst.NamedExpr):
            targets = [one.target]
        out.update(n.value for t in targets for n in (t, *nodes_of(t)) if isinstance(n, cst.Name))
    return out


def begins_at_zero(text: KernelText, name: str, span: Span) -> bool:
    """Tell whether one plain statement in front of a loop sets a sum to zero, and nothing else touches it there.

    What the zeros are made of is not set in the kernel, so that they can be made further up.
    """
    touching = [s for s in text.function.body.body[: span.place] if name in names_in(s)]
    line = touching[0] if len(touching) == 1 else None
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    if not isinstance(small, cst.Assign) or code(small.targets[0].target) != name or len(small.targets) != 1:
        return False
    value: cst.BaseExpression | None = small.value
    if names_in(small.value) & sets(text.function.body):
        return False
    if name_of(small.value, text.tl) == "zeros":
        return True
    if isinstance(small.value, cst.Call) and name_of(small.value, text.tl) == "full":
        value = value_of(small.value, "full", "value")
    return isinstance(value, cst.Float | cst.Integer) and float(value.evaluated_value) == 0


def changes_bounds(span: Span, statements: Iterable[cst.CSTNode]) -> bool:
    """Tell whether statements set what the bounds of a loop are made of."""
    bounds = {n for words in span.header for n in names_in(cst.parse_expression(words))}
    return any(bounds & sets(one) for one in statements)


def has_effect(node: cst.CSTNode, tl: str) -> bool:
    """Tell whether a statement stores something, by atomics too."""
    return any((name_of(n, tl) or "").startswith(("store", "atomic_")) for n in nodes_of(node))


def comments_of(nodes: Iterable[cst.CSTNode], *, but: Iterable[cst.CSTNode] = ()) -> list[cst.EmptyLine]:
    """Return the comments in statements that go, as lines of their own; those that `but` has, too, are left out."""
    kept = {c.value for n in but for c in nodes_of(n) if isinstance(c, cst.Comment)}
    found = [c for n in nodes for c in nodes_of(n) if isinstance(c, cst.Comment) and c.value not in kept]
    return [cst.EmptyLine(comment=c) for c in found]


def read_first(statements: Sequence[cst.CSTNode], names: Iterable[str]) -> set[str]:
    """Return which of `names` are read by `statements` before these set them, as they stand in the text."""
    waiting, found = set(names), set()
    for one in _in_order(statements):
        if isinstance(one, cst.For):
            found |= waiting & names_in(one.iter)
            waiting -= sets(one.target) | names_in(one.target)
            continue
        if isinstance(one, cst.If | cst.While):
            found |= waiting & names_in(one.test)
            continue
        own = {id(n) for t in _targets(one) for n in (t, *nodes_of(t))} if not isinstance(one, cst.AugAssign) else set()
        found |= {n.value for n in nodes_of(one) if isinstance(n, cst.Name) and id(n) not in own} & waiting
        waiting -= sets(one)
    return found


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    return [t.target for t in node.targets] if isinstance(node, cst.Assign) else []


def _in_order(statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    for statement in statements:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
            continue
        yield statement
        body = getattr(statement, "body", None)
        if body is not None:
            yield from _in_order(body.body)
        orelse = getattr(statement, "orelse", None)
        if isinstance(orelse, cst.If):
            yield from _in_order([orelse])
        elif orelse is not None:
            yield from _in_order(orelse.body.body)


class Spelled:
    """Expressions with local variables replaced by what they stand for, statement by statement.

    `known` begins with what is known outside; `variable` is the loop's own, which becomes `ROUND`.
    """

    def __init__(self, tl: str, variable: str = "", known: Mapping[str, cst.BaseExpression] | None = None) -> None:
        self.tl = tl
        self.known: dict[str, cst.BaseExpression] = dict(known or {})
        if variable:
            self.known[variable] = cst.Name(ROUND)

    def take(self, node: cst.CSTNode) -> None:
        """Go past a statement."""
        if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
            name = node.targets[0].target.value
            value = self.expression(node.value)
            if not reads(value, name):
                self.known[name] = value
                return
        for name in sets(node):
            self.known.pop(name, None)

    def expression(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression with everything known put in."""
        new = node.visit(_Put(self.known))
        assert isinstance(new, cst.BaseExpression)
        return new

    def words(self, node: cst.BaseExpression) -> str:
        """Return an expression spelled out, without spaces."""
        return bare(code(self.expression(node)))

    def unfilled(self, node: cst.BaseExpression) -> str:
        """Return an expression spelled out, but for what fills masked elements of its loads and how they are cached."""
        new = self.expression(node).visit(_Unfilled(self.tl))
        assert isinstance(new, cst.BaseExpression)
        return bare(code(new))


def bare(words: str) -> str:
    """Return code without spaces, with one sort of quotes and one way of writing minus infinity."""
    words = "".join(words.split()).replace("'", '"')
    return words.replace('-float("inf")', 'float("-inf")')


def put(node: cst.CSTNode, known: Mapping[str, cst.BaseExpression]) -> cst.CSTNode:
    """Return a node with other expressions in the place of variables."""
    new = node.visit(_Put(known))
    assert isinstance(new, cst.CSTNode)
    return new


class _Put(cst.CSTTransformer):
    def __init__(self, known: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.known = known

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        value = self.known.get(updated_node.value)
        return updated_node if value is None else grouped(value)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        value = updated_node.value
        # A whole argument needs no brackets.
        if isinstance(original_node.value, cst.Name) and len(value.lpar) == 1:
            value = value.with_changes(lpar=(), rpar=())
        return updated_node.with_changes(keyword=original_node.keyword, value=value)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


class _Unfilled(cst.CSTTransformer):
    def __init__(self, tl: str) -> None:
        super().__init__()
        self.tl = tl

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if name_of(original_node, self.tl) != "load":
            return updated_node
        dropped = [argument(original_node, "load", p) for p in _FILLS]
        kept = [
            new
            for old, new in zip(original_node.args, updated_node.args, strict=True)
            if not any(old is one for one in dropped)
        ]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=kept)
