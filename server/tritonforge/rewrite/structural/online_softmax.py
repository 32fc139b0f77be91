"""The maximum of a row and the sum of exponentials in one pass: what was summed is scaled whenever the maximum grows.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018): with `m` the maximum so far and `m'` the new
one, `s' = s · exp(m - m') + Σ exp(x - m')`. The row is read once less. Where each lane of a block has a maximum of its
own, each lane scales its own sum, and the lanes meet behind the loop.

Minus infinity is what the original makes of it: nothing is subtracted while all elements so far are -inf, and a row of
nothing else still has a sum that is not a number.

Preconditions: two loops over the same tiles, the first of which keeps a maximum alone and the second a sum of
`exp(x - maximum)` (or `exp2`) of the same `x`, alone; nothing is stored by them or between them; nothing that the
second loop sets is read behind it but the sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, value_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, nodes_of
from tritonforge.rewrite.structural.loops import (
    Span,
    Spelled,
    bare,
    begins_at_zero,
    changes_bounds,
    comments_of,
    has_effect,
    names_in,
    read_first,
    reads,
    sets,
    simple_statements,
    spans_of,
    step_of,
)

_INFINITY = 'float("-inf")'


@dataclass(frozen=True)
class _Maximum:
    """The first loop: `name` is the maximum, `of` what it is taken of, `lanes` whether every lane keeps its own.

    `axis` is what a tile's maximum is taken along, as text.
    """

    span: Span
    name: str
    of: cst.BaseExpression
    lanes: bool
    axis: str
    spelled: Spelled


@dataclass(frozen=True)
class _Sum:
    """The second loop: `name` sums up `function((x - centre) scale)`; `suffix` spreads the centre over columns."""

    span: Span
    name: str
    function: str
    centre: str
    suffix: str
    scale: str
    lanes: bool
    axis: str


class OnlineSoftmax:
    """One pass for maximum and sum of exponentials."""

    name = "online-softmax"
    treats = frozenset({"TF103"})
    classes: frozenset[BottleneckClass] = frozenset({"redundant-traffic", "dram-bandwidth", "l2-bandwidth", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        spans = spans_of(text)
        for first, second in itertools.pairwise(spans):
            maximum = _maximum(text, first)
            if maximum is None or first.header != second.header:
                continue
            total = _total(text, maximum, second)
            if total is not None:
                yield Change("maximum and sum in one pass", text.edits(_joined(text, maximum, total)))
                return
        raise Absent("no two loops take the maximum of a row and then the sum of its exponentials")


def _maximum(text: KernelText, span: Span) -> _Maximum | None:
    statements = simple_statements(span.node.body)
    if statements is None:
        return None
    steps = [(s, step) for s in statements if (step := step_of(s, text.tl))]
    if len(steps) != 1 or steps[0][1][1] != "max" or steps[0][0] is not statements[-1]:
        return None
    name, _, term = steps[0][1]
    spelled = Spelled(text.tl, span.variable)
    for statement in statements[:-1]:
        if not isinstance(statement, cst.Assign) or reads(statement.value, name):
            return None
        spelled.take(statement)
    lanes, axis = name_of(term, text.tl) != "max", ""
    of = term
    if not lanes:
        assert isinstance(term, cst.Call)
        given = value_of(term, "max", "axis")
        axis = code(given) if given is not None else ""
        if argument(term, "max", "return_indices") is not None:
            return None
        of = term.args[0].value
    return _Maximum(span, name, of, lanes, axis, spelled)


def _total(text: KernelText, maximum: _Maximum, span: Span) -> _Sum | None:
    """Return the sum of exponentials that the second loop keeps; None when it is something else.

    Raises:
        Refused: it is one, and a precondition does not hold.
    """
    statements = simple_statements(span.node.body)
    steps = [(s, step) for s in statements or () if (step := step_of(s, text.tl))]
    if not statements or len(steps) != 1 or steps[0][1][1] != "sum":
        return None
    name, _, term = steps[0][1]
    spelled = Spelled(text.tl, span.variable)
    for statement in statements:
        if statement is steps[0][0]:
            break
        spelled.take(statement)
    lanes, axis = name_of(term, text.tl) != "sum", ""
    if not lanes:
        assert isinstance(term, cst.Call)
        given = value_of(term, "sum", "axis")
        axis = code(given) if given is not None else ""
        term = term.args[0].value
    whole: cst.BaseExpression = spelled.expression(term)
    only = ""
    if isinstance(whole, cst.Call) and name_of(whole, text.tl) == "where" and len(whole.args) == 3:
        # Elements that are left out of the sum have to be left out of the maximum, too.
        if bare(code(whole.args[2].value)) not in {"0", "0.0"}:
            return None
        only, whole = bare(code(whole.args[0].value)), whole.args[1].value
    function, scale = name_of(whole, text.tl), ""
    if function not in {"exp", "exp2"} or not isinstance(whole, cst.Call):
        return None
    inner: cst.BaseExpression = whole.args[0].value
    if isinstance(inner, cst.BinaryOperation) and isinstance(inner.operator, cst.Multiply):
        factor = inner.right
        inner = inner.left
        if not isinstance(factor, cst.Float | cst.Integer):
            return None
        scale = f" * {code(factor)}"
    if not isinstance(inner, cst.BinaryOperation) or not isinstance(inner.operator, cst.Subtract):
        return None
    centre: cst.BaseExpression = inner.right
    suffix = ""
    if isinstance(centre, cst.Subscript):
        suffix = code(centre)[len(code(centre.value)) :]
        centre = centre.value
    between = text.function.body.body[maximum.span.place + 1 : span.place]
    if not isinstance(centre, cst.Name) or not _is_maximum(text, maximum, centre.value, between):
        return None
    others = [s for s in statements if s is not steps[0][0]]
    if any(not isinstance(s, cst.Assign) or name in sets(s) or has_effect(s, text.tl) for s in others):
        raise Refused("the loop that sums up exponentials does something else, too")
    if not begins_at_zero(text, name, span):
        raise Refused(f"{name} does not plainly begin at zero")
    if not lanes and not maximum.lanes and axis != maximum.axis:
        raise Refused("the maximum and the sum are taken along different axes")
    if changes_bounds(span, (maximum.span.node, *between)):
        raise Refused("the two loops end at different elements")
    if any(not isinstance(s, cst.SimpleStatementLine) or _has_effect(text, s) for s in between):
        raise Refused("something is stored or decided between the maximum and the sum")
    left = inner.left
    summed = left.with_changes(lpar=(), rpar=())
    taken = maximum.spelled.expression(maximum.of).with_changes(lpar=(), rpar=())
    plain = Spelled(text.tl)
    same = plain.unfilled(summed) == plain.unfilled(taken) and only == _kept(taken, text.tl)
    if not (same if only else plain.words(summed) == plain.words(taken)):
        raise Refused("the maximum is not taken of the very elements whose exponentials are summed up")
    set_between = {n for s in between for n in sets(s)} - {name}
    if maximum.name in set_between:
        raise Refused(f"{maximum.name} is set again between the maximum and the sum")
    if set_between & names_in(left):
        raise Refused("what is summed up depends on the maximum in another way, too")
    if maximum.lanes and not lanes:
        raise Refused("every lane keeps a maximum of its own, and the sum is one of all lanes")
    after = text.function.body.body[span.place + 1 :]
    late = read_first(after, sets(span.node) - {name})
    if late:
        raise Refused(f"{min(late)} of the last round is read behind the loop")
    return _Sum(span, name, code(whole.func), centre.value, suffix, scale, lanes, axis)


def _kept(node: cst.BaseExpression, tl: str) -> str:
    """Return the mask outside of which an expression is -inf, as text; empty when it has none."""
    if not isinstance(node, cst.Call):
        return ""
    called = name_of(node, tl)
    if called == "load":
        mask, other = value_of(node, "load", "mask"), value_of(node, "load", "other")
        return bare(code(mask)) if mask is not None and other is not None and _is_infinity(other) else ""
    if called == "where" and len(node.args) == 3 and _is_infinity(node.args[2].value):
        return bare(code(node.args[0].value))
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
        return _kept(node.func.value, tl)
    return ""


def _is_infinity(node: cst.BaseExpression) -> bool:
    return bare(code(node)) == _INFINITY


def _has_effect(text: KernelText, statement: cst.CSTNode) -> bool:
    return any((name_of(n, text.tl) or "").startswith(("store", "atomic_", "load")) for n in nodes_of(statement))


def _is_maximum(text: KernelText, maximum: _Maximum, centre: str, between: object) -> bool:
    """Tell whether a variable is the row's maximum: the one that the loop keeps, or what its lanes come to."""
    if not maximum.lanes:
        return centre == maximum.name
    assert isinstance(between, list | tuple)
    values = [
        n.value
        for s in between
        for n in nodes_of(s)
        if isinstance(n, cst.Assign) and code(n.targets[0].target) == centre
    ]
    return (
        len(values) == 1
        and isinstance(values[0], cst.Call)
        and name_of(values[0], text.tl) == "max"
        and code(values[0].args[0].value) == maximum.name
    )


def _joined(text: KernelText, maximum: _Maximum, total: _Sum) -> cst.FunctionDef:
    body = list(text.function.body.body)
    first, second = maximum.span.place, total.span.place
    between = body[first + 1 : second]
    start = next((s for s in between if total.name in sets(s)), None)
    between = [s for s in between if s is not start]
    loop = _loop(text, maximum, total)
    tl, m, s = text.tl, maximum.name, total.name
    if start is not None:
        before = [start.with_changes(leading_lines=loop.leading_lines)]
        loop = loop.with_changes(leading_lines=[x for x in start.leading_lines if x.comment])  # type: ignore[attr-defined]
    else:
        before = []
    lines: list[cst.BaseStatement] = []
    if maximum.lanes:
        exponent = f"{m} - {total.centre}{total.suffix}"
        exponent = f"({exponent}){total.scale}" if total.scale else exponent
        lines = [cst.parse_statement(f"{s} *= {total.function}({exponent})")]
        behind = [*between, *lines]
    else:
        alone = f"({m} == {_minus_infinity(text)}) & ({maximum.span.stop} > 0)"
        shape = _shape_of(text, m)
        spread = total.suffix if total.lanes and shape else ""
        alone = f"({alone}){spread}" if spread else alone
        guard = cst.parse_statement(f'{s} = {tl}.where({alone}, float("nan"), {s})')
        behind = [guard, *between]
    trailing = [x for x in total.span.node.leading_lines if x.comment]
    if trailing and behind:
        last = behind[0]
        behind[0] = last.with_changes(leading_lines=[*trailing, *last.leading_lines])  # type: ignore[attr-defined]
    body[first : second + 1] = [*before, loop, *behind]
    return text.with_body(body)


def _shape_of(text: KernelText, name: str) -> tuple[str, ...] | None:
    """Return the shape that a variable has where it is set last."""
    flow = flow_of(text.function, text.kernel, text.tl)
    shapes = [
        flow.of(n.value).shape
        for n in nodes_of(text.function)
        if isinstance(n, cst.Assign) and code(n.targets[0].target) == name
    ]
    return shapes[-1] if shapes else None


def _minus_infinity(text: KernelText) -> str:
    """Return minus infinity in the words of the kernel."""
    return '-float("inf")' if '-float("inf")' in text.text else _INFINITY


def _loop(text: KernelText, maximum: _Maximum, total: _Sum) -> cst.For:
    """Return the first loop with the second one's sum in it."""
    tl, m, s = text.tl, maximum.name, total.name
    node = maximum.span.node
    lines = list(node.body.body)
    fresh = Names(text, {total.name, *sets(total.span.node)})
    new, base = fresh(f"new_{m}", f"next_{m}"), fresh("base", "shift", f"{m}_base")
    steps = []
    x = code(maximum.of)
    if not isinstance(maximum.of, cst.Name):
        x = fresh("x", "value", "element")
        steps.append(f"{x} = {code(maximum.of.with_changes(lpar=(), rpar=()))}")
    last = lines[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    step = last.body[-1]
    assert isinstance(step, cst.Assign)
    replaced = step.value
    if not isinstance(maximum.of, cst.Name):
        swapped = step.value.deep_replace(maximum.of, cst.Name(x))
        assert isinstance(swapped, cst.BaseExpression)
        replaced = swapped
    steps.append(f"{new} = {code(replaced)}")
    steps.append(f"{base} = {tl}.where({new} == {_minus_infinity(text)}, 0.0, {new})")
    exponent = f"{x} - {base}{'' if maximum.lanes else total.suffix}"
    scaled = f"{m} - {base}"
    if total.scale:
        exponent, scaled = f"({exponent}){total.scale}", f"({scaled}){total.scale}"
    term = f"{total.function}({exponent})"
    factor = f"{total.function}({scaled})"
    if not total.lanes:
        axis = f", axis={total.axis}" if total.axis else ""
        term = f"{tl}.sum({term}{axis})"
    elif not maximum.lanes and total.suffix:
        factor += total.suffix
    steps.append(f"{s} = {s} * {factor} + {term}")
    steps.append(f"{m} = {new}")
    parsed = [cst.parse_statement(one) for one in steps]
    parsed[0] = parsed[0].with_changes(leading_lines=last.leading_lines)
    parsed[-4] = parsed[-4].with_changes(trailing_whitespace=last.trailing_whitespace)
    summed = next(x for x in total.span.node.body.body if s in sets(x))
    assert isinstance(summed, cst.SimpleStatementLine)
    gone = [x for x in total.span.node.body.body if x is not summed]
    comments = [*comments_of(gone, but=[node]), *(x for x in summed.leading_lines if x.comment)]
    parsed[-2] = parsed[-2].with_changes(leading_lines=comments, trailing_whitespace=summed.trailing_whitespace)
    body = node.body.with_changes(body=[*lines[:-1], *parsed])
    return node.with_changes(body=body)
