"""What a loop carries from round to round, and how what its parts come to is put together again.

Sums, maxima and minima are put together by what they are. The running maximum, sum and weighted sum of a softmax
(attention over blocks of keys) are scaled to the larger of two maxima first:
`m' = max(m, mₚ)`, `v' = v exp(m - m') + vₚ exp(mₚ - m')`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, Shape
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.loops import Span, bare, names_in, read_first, reads, sets, step_of
from tritonforge.rewrite.structural.weights import Weights

_DTYPES = {"float32": "float32", "int32": "int32"}


@dataclass(frozen=True)
class Carried:
    """A variable that a loop adds to: `kind` is `sum`, `max`, `min`, or what it is of a softmax (`highest`, `scaled`).

    `suffix` spreads the factor of a softmax over the variable (`[:, None]`). `dtype` is that of its elements.
    """

    name: str
    kind: str
    shape: Shape
    dtype: str
    suffix: str = ""


@dataclass(frozen=True)
class Advance:
    """A variable that every round moves on by `step`, which does not change: a pointer, most often."""

    name: str
    step: str


@dataclass(frozen=True)
class Carrying:
    """All that a loop carries; `function` is the exponential of its softmax, as the kernel writes it."""

    results: tuple[Carried, ...]
    advances: tuple[Advance, ...]
    function: str = ""


def carried_by(text: KernelText, flow: Flow, span: Span) -> Carrying:
    """Return what a loop carries.

    Raises:
        Refused: a round needs more of the one before than what can be put together from parts.
    """
    inside = set(sets(span.node.body))
    after = text.function.body.body[span.place + 1 :]
    meets = flow.meets.get(id(span.node), {})
    wanted = read_first(after, inside)
    unknown = wanted - set(meets)
    if unknown:
        raise Refused(f"{min(unknown)} of the last round is read behind the loop")
    if not wanted:
        raise Refused("nothing that the loop computes is read behind it")
    softmax = _softmax(text, span)
    results: list[Carried] = []
    for name in (n for n in meets if n in wanted or n in softmax):
        shape, dtype = _start(text, flow, span, name, softmax.get(name, ("", ""))[0])
        if name in softmax:
            kind, suffix = softmax[name]
            results.append(Carried(name, kind, shape, dtype, suffix))
            continue
        kinds = {step[1] if step else "" for step in _steps(text, span, name)}
        if len(kinds) != 1 or "" in kinds:
            raise Refused(f"each round needs the {name} of the one before")
        results.append(Carried(name, kinds.pop(), shape, dtype))
    own = {r.name for r in results}
    for result in results:
        _check_unread(span, result.name, softmax)
    advances = tuple(_advance(text, flow, span, name) for name in meets if name not in own and name != span.variable)
    function = softmax.get("", ("", ""))[0]
    return Carrying(tuple(sorted(results, key=lambda r: r.kind != "highest")), advances, function)


def _steps(text: KernelText, span: Span, name: str) -> list[tuple[str, str, cst.BaseExpression] | None]:
    return [
        step_of(node, text.tl)
        for node in nodes_of(span.node.body)
        if isinstance(node, cst.Assign | cst.AugAssign | cst.For) and name in _set_by(node)
    ]


def _set_by(node: cst.Assign | cst.AugAssign | cst.For) -> set[str]:
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return {n.value for t in targets for n in (t, *nodes_of(t)) if isinstance(n, cst.Name)}


def _check_unread(span: Span, name: str, softmax: dict[str, tuple[str, str]]) -> None:
    """Check that rounds do nothing with a result but add to it."""
    if name in softmax:
        return  # `_softmax` knows every statement that reads it
    steps = [n for n in nodes_of(span.node.body) if isinstance(n, cst.Assign | cst.AugAssign) and name in _set_by(n)]
    own = sum(isinstance(n, cst.Name) and n.value == name for s in steps for n in (s, *nodes_of(s)))
    every = sum(isinstance(n, cst.Name) and n.value == name for n in nodes_of(span.node.body))
    if own != every:
        raise Refused(f"each round needs the {name} of the one before")


def _start(text: KernelText, flow: Flow, span: Span, name: str, kind: str) -> tuple[Shape, str]:
    """Return shape and dtype of a result, from what it begins as.

    Raises:
        Refused: it begins as something that parts of the loop cannot all begin with, or is of another type.
    """
    definitions = flow.meets[id(span.node)][name][0].definitions
    values = [n.value for i in definitions if isinstance(n := flow.statements[i], cst.Assign)]
    if len(values) != 1 or len(definitions) != 1:
        raise Refused(f"what {name} begins as is not plain")
    (value,) = values
    words = bare(code(value))
    called = name_of(value, text.tl)
    shape = flow.of(value).shape
    dtype = "float32"
    if isinstance(value, cst.Call) and called in {"zeros", "full"}:
        given = value_of(value, called, "dtype")
        dtype = code(given).rpartition(".")[2] if given is not None else ""
        filled = value_of(value, "full", "value") if called == "full" else None
        words = bare(code(filled)) if filled is not None else "0.0"
    elif not isinstance(value, cst.Float) and words not in {'float("-inf")', 'float("inf")'}:
        raise Refused(f"{name} does not begin as a constant")
    if dtype not in _DTYPES or shape is None:
        raise Refused(f"{name} is not known to be of fp32 or int32")
    if len(shape) > 2:
        raise Refused(f"{name} has more than two axes")
    lowest = kind == "highest"
    steps = {step[1] for step in _steps(text, span, name) if step}
    wanted = {'float("-inf")'} if lowest else {"0", "0.0"}
    if (lowest or "sum" in steps or kind == "scaled") and words not in wanted:
        raise Refused(f"{name} does not begin at {'-inf' if lowest else 'zero'}")
    return shape, dtype


def _advance(text: KernelText, flow: Flow, span: Span, name: str) -> Advance:
    steps = _steps(text, span, name)
    top = [s for line in span.node.body.body if isinstance(line, cst.SimpleStatementLine) for s in line.body]
    plain = [step_of(s, text.tl) for s in top]
    if len(steps) != 1 or steps[0] is None or steps[0][1] != "sum" or steps[0] not in plain:
        # Set anew in every round before it is read, a variable of that name may stand in front of the loop, too.
        if name not in read_first(list(span.node.body.body), {name}):
            return Advance(name, "")
        raise Refused(f"each round needs the {name} of the one before")
    term = steps[0][2]
    if names_in(term) & (sets(span.node.body) | {span.variable}) or span.variable in flow.of(term).steps:
        raise Refused(f"{name} moves on by something else in every round")
    return Advance(name, code(term))


def _softmax(text: KernelText, span: Span) -> dict[str, tuple[str, str]]:
    """Return the variables of a running softmax: name → `highest` or `scaled`, and the suffix of its factor.

    The name of the exponential function is under the empty name. Nothing where the loop has no softmax.
    """
    lines = [s for line in span.node.body.body if isinstance(line, cst.SimpleStatementLine) for s in line.body]
    if any(not isinstance(line, cst.SimpleStatementLine) for line in span.node.body.body):
        return {}
    assigned: dict[str, list[cst.BaseExpression]] = {}
    for line in lines:
        if isinstance(line, cst.Assign) and len(line.targets) == 1:
            assigned.setdefault(code(line.targets[0].target), []).append(line.value)
    once = {name: values[0] for name, values in assigned.items() if len(values) == 1}
    for highest, value in once.items():
        new = code(value)
        taken = once.get(new)
        if not isinstance(taken, cst.Call) or name_of(taken, text.tl) != "maximum" or len(taken.args) != 2:
            continue
        sides = [a.value for a in taken.args]
        if not any(code(a) == highest and name_of(b, text.tl) == "max" for a, b in (sides, sides[::-1])):
            continue
        factor = re.compile(rf"({re.escape(text.tl)}(?:\.math)?\.exp2?)\({re.escape(highest)}-{re.escape(new)}\)")
        found: dict[str, tuple[str, str]] = {highest: ("highest", "")}
        functions: set[str] = set()
        for name in {n for line in lines for n in sets(line)} - {highest}:
            scaled = _scaled(text, lines, name, once, factor)
            if scaled is not None:
                functions.add(scaled[0])
                found[name] = ("scaled", scaled[1])
        if len(functions) != 1 or not _reads_no_more(lines, found, new, once, factor):
            continue
        (function,) = functions
        if Weights(text.tl, highest, new, function.rpartition(".")[2]).are_added(lines, found):
            return found | {"": (function, "")}
    return {}


def _scaled(
    text: KernelText,
    lines: Sequence[cst.BaseSmallStatement],
    name: str,
    once: dict[str, cst.BaseExpression],
    factor: re.Pattern[str],
) -> tuple[str, str] | None:
    """Return exponential and suffix of the factor, for a variable that is scaled and then added to."""
    factors: list[cst.BaseExpression] = []
    added = 0
    for line in lines:
        if name not in sets(line):
            continue
        if isinstance(line, cst.AugAssign) and isinstance(line.operator, cst.MultiplyAssign) and not added:
            factors.append(line.value)
            continue
        step = step_of(line, text.tl)
        if step is not None and step[1] == "sum":
            added += 1
            continue
        if not isinstance(line, cst.Assign) or added:
            return None
        product = line.value
        if isinstance(product, cst.BinaryOperation) and isinstance(product.operator, cst.Add):
            left, right = product.left, product.right
            product, rest = (left, right) if reads(left, name) else (right, left)
            if reads(rest, name):
                return None
            added += 1
        if not isinstance(product, cst.BinaryOperation) or not isinstance(product.operator, cst.Multiply):
            return None
        sides = (product.left, product.right)
        if not any(code(side) == name for side in sides):
            return None
        factors.append(sides[1] if code(sides[0]) == name else sides[0])
    if len(factors) != 1 or added != 1:
        return None
    (one,) = factors
    suffix = ""
    if isinstance(one, cst.Subscript):
        suffix = code(one)[len(code(one.value)) :]
        one = one.value
    if isinstance(one, cst.Name):
        one = once.get(one.value, one)
    match = factor.fullmatch(bare(code(one)))
    return (match.group(1), suffix) if match else None


def _reads_no_more(
    lines: Sequence[cst.BaseSmallStatement],
    found: dict[str, tuple[str, str]],
    new: str,
    once: dict[str, cst.BaseExpression],
    factor: re.Pattern[str],
) -> bool:
    """Tell whether the variables of a softmax are read by nothing but their own updates and the factor."""
    for line in lines:
        own = sets(line)
        value = getattr(line, "value", None)
        if value is None:
            return False
        for name, (kind, _) in found.items():
            if not reads(value, name) or name in own:
                continue
            is_factor = kind == "highest" and (own == {new} or bool(factor.search(bare(code(value)))))
            if not is_factor:
                return False
    return bool(once)
