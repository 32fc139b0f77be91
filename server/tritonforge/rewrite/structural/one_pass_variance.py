"""Mean and squared differences of a row in one pass, from running sums, where the original reads the row twice.

With `T` the sum of the `k` elements before and `x` the next one, the squared differences from the mean grow by
`((k + 1) x - T')² / (k (k + 1))`, `T' = T + x` (Youngs and Cramer, 1971; Chan, Golub and LeVeque, 1983). Every lane of
a block keeps its own; behind the loop lanes with `n` elements are moved to the row's mean `c` with `(T - n c)² / n`. No
large squares are subtracted from each other, as in `E[x²] - E[x]²`, so no digits are lost where the mean is far from
zero; and the sum, and with it the mean, is added up as before.

Preconditions: two loops over the same tiles `range(0, N, BLOCK)`, the first of which keeps a sum of `x` alone and the
second one of `(x - c)²` alone, where `c` is computed from the first sum; elements beyond N are zero in the first and
left out of the second; nothing is stored by the loops, and nothing that the second one sets is read behind it but the
sum.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of, value_of
from tritonforge.rewrite.structural.flow import Shape, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import (
    ROUND,
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


@dataclass(frozen=True)
class _Sum:
    """A loop that keeps a sum `name` of `term`; `axis` is what is summed up within a tile, None where lanes are."""

    span: Span
    name: str
    term: cst.BaseExpression
    axis: str | None
    line: cst.BaseSmallStatement
    whole: cst.BaseExpression


@dataclass(frozen=True)
class _Pair:
    """The two loops: `squares` are of `of - centre`, counted where `mask` (as text) says; `between` stands between."""

    total: _Sum
    squares: _Sum
    between: tuple[cst.CSTNode, ...]
    centre: cst.BaseExpression
    mask: str
    of: cst.BaseExpression


class OnePassVariance:
    """One pass for mean and squared differences."""

    name = "one-pass-variance"
    treats = frozenset({"TF103"})
    classes: frozenset[BottleneckClass] = frozenset({"redundant-traffic", "dram-bandwidth", "l2-bandwidth", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        spans = spans_of(text)
        for first, second in itertools.pairwise(spans):
            total, squares = _sum(text, first), _sum(text, second)
            if total is None or squares is None or first.header != second.header:
                continue
            pair = _pair(text, total, squares)
            if pair is not None:
                shape = _check(text, pair)
                yield Change("mean and variance in one pass", text.edits(_joined(text, pair, shape)))
                return
        raise Absent("no two loops take the mean of a row and then its squared differences from it")


def _sum(text: KernelText, span: Span) -> _Sum | None:
    statements = simple_statements(span.node.body)
    steps = [(s, step) for s in statements or () if (step := step_of(s, text.tl))]
    if not statements or len(steps) != 1 or steps[0][1][1] != "sum" or steps[0][0] is not statements[-1]:
        return None
    line, (name, _, term) = steps[0]
    spelled = Spelled(text.tl, span.variable)
    for statement in statements[:-1]:
        if not isinstance(statement, cst.Assign) or reads(statement.value, name):
            return None
        spelled.take(statement)
    axis = None
    if isinstance(term, cst.Call) and name_of(term, text.tl) == "sum":
        given = value_of(term, "sum", "axis")
        axis = code(given) if given is not None else ""
        term = term.args[0].value
    return _Sum(span, name, term, axis, line, spelled.expression(term))


def _pair(text: KernelText, total: _Sum, squares: _Sum) -> _Pair | None:
    """Return both loops, if the second one's is a sum of `(x - c)²` whose `c` comes from the first one's sum."""
    between = tuple(text.function.body.body[total.span.place + 1 : squares.span.place])
    whole, mask = squares.whole, ""
    inner = _left_out(whole, text.tl)
    if inner is not None:
        mask, whole = inner
    if not isinstance(whole, cst.BinaryOperation) or not isinstance(whole.operator, cst.Multiply):
        return None
    if bare(code(whole.left)) != bare(code(whole.right)):
        return None
    apart = whole.left
    inner = _left_out(apart, text.tl)
    if inner is not None:
        mask, apart = inner
    if not isinstance(apart, cst.BinaryOperation) or not isinstance(apart.operator, cst.Subtract):
        return None
    centre = apart.right
    known = {total.name}
    for statement in between:
        for node in nodes_of(statement):
            if isinstance(node, cst.Assign) and known & names_in(node.value):
                known |= sets(node)
    if not (known - {total.name}) & names_in(centre) or names_in(centre) & names_in(apart.left):
        return None
    return _Pair(total, squares, between, centre, mask, apart.left)


def _left_out(node: cst.BaseExpression, tl: str) -> tuple[str, cst.BaseExpression] | None:
    """Return mask and value of `tl.where(mask, value, 0)`."""
    if not isinstance(node, cst.Call) or name_of(node, tl) != "where" or len(node.args) != 3:
        return None
    zero = bare(code(node.args[2].value)) in {"0", "0.0"}
    return (bare(code(node.args[0].value)), node.args[1].value) if zero else None


def _check(text: KernelText, pair: _Pair) -> Shape:
    """Check what the loops have to have in common; returns the shape of a tile.

    Raises:
        Refused: they have not.
    """
    plain = Spelled(text.tl)
    total, squares, between, mask, of = pair.total, pair.squares, pair.between, pair.mask, pair.of
    stop, step = total.span.header
    flow = flow_of(text.function, text.kernel, text.tl)
    if plain.unfilled(of) != plain.unfilled(total.whole):
        raise Refused("the mean is not taken of the very elements whose differences from it are squared")
    shape = flow.of(total.term).shape
    if shape is None or not shape or shape[-1] != step:
        raise Refused(f"the columns of a tile are not known to be {step}")
    if any(bound != step and not bound.isidentifier() for bound in shape):
        raise Refused("the extents of a tile are not plain")
    if total.axis is not None and squares.axis is None:
        raise Refused("the first loop sums up tiles, and the second one keeps lanes apart")
    masks = _masks(of, text.tl) | _masks(total.whole, text.tl)
    if masks - {mask}:
        raise Refused(f"elements beyond {stop} are summed up, too")
    if mask:
        if not _is_zero_outside(total.whole, mask, text.tl):
            raise Refused(f"elements beyond {stop} are not zero in the sum that the mean is taken of")
        _check_columns(text, total.span, mask)
    for statement in between:
        if not isinstance(statement, cst.SimpleStatementLine):
            raise Refused("something is decided between the mean and the variance")
        if has_effect(statement, text.tl):
            raise Refused("something is stored between the mean and the variance")
    for one in (total, squares):
        if not begins_at_zero(text, one.name, one.span):
            raise Refused(f"{one.name} does not plainly begin at zero")
    if changes_bounds(total.span, (total.span.node, *between)):
        raise Refused("the two loops end at different elements")
    if has_effect(squares.span.node.body, text.tl):
        raise Refused("the loop that sums up squares stores something, too")
    late = read_first(text.function.body.body[squares.span.place + 1 :], sets(squares.span.node) - {squares.name})
    if late:
        raise Refused(f"{min(late)} of the last round is read behind the loop")
    return shape


def _masks(node: cst.BaseExpression, tl: str) -> set[str]:
    found = set()
    for one in (node, *nodes_of(node)):
        if isinstance(one, cst.Call) and name_of(one, tl) == "load":
            mask = value_of(one, "load", "mask")
            if mask is not None:
                found.add(bare(code(mask)))
    return found


def _is_zero_outside(node: cst.BaseExpression, mask: str, tl: str) -> bool:
    if not isinstance(node, cst.Call):
        return False
    if name_of(node, tl) == "load":
        given, other = value_of(node, "load", "mask"), value_of(node, "load", "other")
        zero = other is not None and bare(code(other)) in {"0", "0.0"}
        return given is not None and bare(code(given)) == mask and zero
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
        return _is_zero_outside(node.func.value, mask, tl)
    left_out = _left_out(node, tl)
    return left_out is not None and left_out[0] == mask


def _check_columns(text: KernelText, span: Span, mask: str) -> None:
    """Check that lane `i` of round `r` holds element `r BLOCK + i` of N, which the counts of elements rest on."""
    outside = Spelled(text.tl)
    for line in text.function.body.body[: span.place]:
        if isinstance(line, cst.SimpleStatementLine):
            for small in line.body:
                outside.take(small)
    words = outside.words(cst.parse_expression(mask)).replace("(", "").replace(")", "")
    lanes = re.escape(f"{text.tl}.arange0,{span.step}")
    place = rf"(?:{ROUND}\+{lanes}|{lanes}\+{ROUND})(?:\[None,:\])?<{re.escape(span.stop)}(?:&|$)"
    # Another term may leave out rows, but no columns: every lane is counted up to N.
    found = re.search(place, words)
    rest = words[: found.start()] + words[found.end() :] if found is not None else words
    if found is None or ROUND in rest or re.search(lanes, rest):
        raise Refused(f"the mask {mask.replace(ROUND, span.variable)} is not that of columns below {span.stop}")


def _joined(text: KernelText, pair: _Pair, shape: Shape) -> cst.FunctionDef:
    total, squares, centre = pair.total, pair.squares, pair.centre
    tl, span = text.tl, total.span
    stop, step = span.header
    body = list(text.function.body.body)
    first, second = span.place, squares.span.place
    between = body[first + 1 : second]
    start_of_squares = next((s for s in between if squares.name in sets(s)), None)
    between = [s for s in between if s is not start_of_squares]
    fresh = Names(text, sets(squares.span.node))
    lanes = total.name if total.axis is None else fresh(f"{total.name}_lanes", f"lane_{total.name}")
    apart_lanes = squares.name if squares.axis is None else fresh(f"{squares.name}_lanes", f"lane_{squares.name}")
    zeros = f"{tl}.zeros(({', '.join(shape)}{',' if len(shape) == 1 else ''}), dtype={tl}.float32)"

    # The starting values: both in front of the loop, as blocks.
    head: list[cst.BaseStatement] = []
    if squares.axis is not None or start_of_squares is None:
        if apart_lanes != squares.name:
            head += _parsed(f"{apart_lanes} = {zeros}", [s for s in body if _only_sets(s, squares.name)])
    else:
        head.append(start_of_squares)  # type: ignore[arg-type]
    if lanes != total.name:
        head = [*_parsed(f"{lanes} = {zeros}", [s for s in body[:first] if _only_sets(s, total.name)]), *head]
        body[:first] = [s for s in body[:first] if not _only_sets(s, total.name)]
    if apart_lanes != squares.name:
        body[:] = [s for s in body if not _only_sets(s, squares.name)]
        between = [s for s in between if not _only_sets(s, squares.name)]

    loop = _loop(text, pair, fresh, (lanes, apart_lanes))
    behind: list[cst.BaseStatement] = []
    if lanes != total.name:
        behind.append(cst.parse_statement(f"{total.name} = {tl}.sum({lanes}{_axis(total.axis)})"))
    behind += between  # type: ignore[arg-type]
    counts = fresh("counts", "elements", "lane_counts")
    apart = fresh("apart", "difference", f"{squares.name}_apart")
    behind += [
        cst.parse_statement(f"{counts} = ({stop} + {step} - 1 - {tl}.arange(0, {step})) // {step}"),
        cst.parse_statement(f"{apart} = {lanes} - {_counts_in(counts, shape)} * {code(centre)}"),
        cst.parse_statement(
            f"{apart_lanes} += {tl}.where({_counts_in(counts, shape)} > 0,"
            f" {apart} * {apart} / {tl}.maximum({_counts_in(counts, shape)}, 1), 0.0)"
        ),
    ]
    trailing = [x for x in squares.span.node.leading_lines if x.comment]
    place = len(behind) - 3
    behind[place] = behind[place].with_changes(leading_lines=trailing)
    if apart_lanes != squares.name:
        behind.append(cst.parse_statement(f"{squares.name} = {tl}.sum({apart_lanes}{_axis(squares.axis)})"))
    front = next(i for i, s in enumerate(body) if s is span.node)
    back = next(i for i, s in enumerate(body) if s is squares.span.node)
    if head:
        head[0] = head[0].with_changes(leading_lines=[*span.node.leading_lines, *head[0].leading_lines])  # type: ignore[attr-defined]
        loop = loop.with_changes(leading_lines=())
    body[front : back + 1] = [*head, loop, *behind]
    return text.with_body(body)


def _parsed(words: str, instead: Sequence[cst.CSTNode]) -> list[cst.BaseStatement]:
    """Return a statement with the comments of those in whose place it stands."""
    return [line_of(words).with_changes(leading_lines=comments_of(instead))]


def _counts_in(counts: str, shape: Shape) -> str:
    """Return the counts of lanes as they meet a tile: along its last axis."""
    return counts if len(shape) == 1 else f"{counts}[{'None, ' * (len(shape) - 1)}:]"


def _axis(axis: str | None) -> str:
    return f", axis={axis}" if axis else ""


def _only_sets(statement: cst.CSTNode, name: str) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 and sets(statement) == {name}


def _loop(text: KernelText, pair: _Pair, fresh: Names, sums: tuple[str, str]) -> cst.For:
    """Return the first loop with the second one's sum in it; `sums` is what the lanes' two sums are called."""
    total, squares = pair.total, pair.squares
    lanes, apart_lanes = sums
    tl, span = text.tl, total.span
    lines = list(span.node.body.body)
    last = lines[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    steps: list[str] = []
    x = code(total.term)
    if not isinstance(total.term, cst.Name):
        x = fresh("x", "value", "element")
        steps.append(f"{x} = {code(total.term.with_changes(lpar=(), rpar=()))}")
    steps.append(f"{lanes} += {x}")
    seen, apart = fresh("seen", "rounds", "before"), fresh("apart", "difference", f"{squares.name}_apart")
    fresh.taken.discard(apart)  # behind the loop it has the same meaning
    steps.append(f"{seen} = {span.variable} // {span.step}" if span.step != "1" else f"{seen} = {span.variable}")
    wide = f"{x}.to({tl}.float32)" if _is_half(text, total.whole) else x
    steps.append(f"{apart} = ({seen} + 1) * {wide} - {lanes}")
    share = f"{apart} * {apart} / {tl}.maximum({seen} * ({seen} + 1.0), 1.0)"
    mask = _mask_of(text, total)
    steps.append(f"{apart_lanes} += {tl}.where({mask}, {share}, 0.0)" if mask else f"{apart_lanes} += {share}")
    parsed = [cst.parse_statement(one) for one in steps]
    parsed[0] = parsed[0].with_changes(leading_lines=last.leading_lines)
    place = 1 if len(steps) == 5 else 0
    parsed[place] = parsed[place].with_changes(trailing_whitespace=last.trailing_whitespace)
    comments = comments_of(squares.span.node.body.body, but=[span.node])
    parsed[-2] = parsed[-2].with_changes(leading_lines=comments)
    return span.node.with_changes(body=span.node.body.with_changes(body=[*lines[:-1], *parsed]))


def _is_half(text: KernelText, whole: cst.BaseExpression) -> bool:
    """Tell whether elements are added up in half precision, in which products with counts leave its range."""
    tensors = {n: v for n, v in text.launch.problem.arguments if isinstance(v, Tensor)}
    named = {*names_in(whole)}
    for node in nodes_of(text.function):
        if isinstance(node, cst.Assign) and named & sets(node):
            named |= names_in(node.value)
    half = any(n in tensors and tensors[n].dtype in {"float16", "bfloat16"} for n in named)
    return half and "float32" not in code(whole)


def _mask_of(text: KernelText, total: _Sum) -> str:
    """Return the mask of the first loop's elements as the loop writes it."""
    for node in nodes_of(total.span.node.body):
        if isinstance(node, cst.Call) and name_of(node, text.tl) in {"load", "where"}:
            mask = value_of(node, "load", "mask") if name_of(node, text.tl) == "load" else node.args[0].value
            if mask is not None:
                return code(mask)
    return ""
