"""Loops in loops around a dot as one loop: an implicit-GEMM convolution's filter rows, filter columns and channels.

The compiler overlaps the loads of a loop's rounds with its dots, and begins anew with every run of the inner loop: with
few rounds in it, the multiplications wait. One loop over all of them is filled once. On an H200 a 3×3 convolution over
128 channels took 80 µs with three loops, with `flatten=True` or with the filter's loops unrolled, and 67 µs with one.
Rounds keep their order, so the sums are the same to the last bit.

Preconditions: each loop around the innermost holds assignments that load nothing, then the next loop, and nothing
behind it; bounds do not change in the nest and begin at 0; what those assignments set is not read after the nest, and
they read nothing that the innermost loop changes; at most 8 rounds of the innermost loop in the recorded launch, if
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import grouped, integer, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import comments_of, names_in, read_first, sets

_MOST_ROUNDS = 8
_PURE = frozenset({"cdiv", "minimum", "maximum"})
"""What may stand in a bound that is asked for again in every round."""


@dataclass(frozen=True)
class _Level:
    """A loop of the nest: its variable, where it ends, what a round steps by (None: 1), what stands before the next."""

    node: cst.For
    variable: str
    stop: cst.BaseExpression
    step: cst.BaseExpression | None
    before: tuple[cst.SimpleStatementLine, ...]


class LoopNest:
    """One loop instead of loops in loops."""

    name = "loop-nest"
    treats = frozenset({"TF206", "TF303"})
    classes: frozenset[BottleneckClass] = frozenset({"tensor-core", "latency", "shared-memory"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        body = list(text.function.body.body)
        reason = ""
        for place, node in enumerate(body):
            if not isinstance(node, cst.For) or not _has_loop(node.body) or not _has_dot(node, text.tl):
                continue
            try:
                levels = _levels(text, node)
                _check(text, levels, body[place + 1 :])
            except Refused as refused:
                reason = reason or str(refused)
                continue
            body[place : place + 1] = _as_one(text, levels)
            yield Change("the nest of loops as one", text.edits(text.with_body(body)))
            return
        raise Refused(reason) if reason else Absent("no loop with a dot stands in another loop")


def _has_loop(node: cst.CSTNode) -> bool:
    return any(isinstance(n, cst.For | cst.While) for n in nodes_of(node))


def _has_dot(node: cst.CSTNode, tl: str) -> bool:
    return any(name_of(n, tl) == "dot" for n in nodes_of(node))


def _levels(text: KernelText, outermost: cst.For) -> list[_Level]:
    """Return the loops of a nest, the outermost first.

    Raises:
        Refused: it is no nest of the kind.
    """
    levels: list[_Level] = []
    node = outermost
    while True:
        plain = isinstance(node.iter, cst.Call) and code(node.iter.func) in {"range", f"{text.tl}.range"}
        if not plain or node.orelse is not None or not isinstance(node.target, cst.Name):
            raise Refused("a loop of the nest is no plain range")
        assert isinstance(node.iter, cst.Call)
        args = [a.value for a in node.iter.args if a.keyword is None and not a.star]
        if len(args) != len(node.iter.args) or not 1 <= len(args) <= 3:
            raise Refused("a loop of the nest has options of its own")
        if len(args) > 1 and integer(args[0]) != 0:
            raise Refused("a loop of the nest does not begin at 0")
        *before, last = node.body.body
        inner = _has_loop(node.body)
        lines = tuple(s for s in before if isinstance(s, cst.SimpleStatementLine)) if inner else ()
        if inner and (not isinstance(last, cst.For) or len(lines) != len(before)):
            raise Refused("a loop of the nest holds more than assignments and the next loop")
        stop, step = args[0] if len(args) == 1 else args[1], args[2] if len(args) == 3 else None
        if step is not None and not (isinstance(step, cst.Name) or (integer(step) or 0) > 0):
            raise Refused("how far a loop of the nest steps is neither a name nor a number")
        if any(name_of(n, text.tl) not in _PURE for n in (stop, *nodes_of(stop)) if isinstance(n, cst.Call)):
            raise Refused("where a loop of the nest ends is not known before it")
        levels.append(_Level(node, node.target.value, stop, step, lines))
        if not inner:
            return levels
        assert isinstance(last, cst.For)
        node = last


def _check(text: KernelText, levels: Sequence[_Level], behind: Sequence[cst.CSTNode]) -> None:
    """Check that every round of one loop can compute what the outer loops computed once.

    Raises:
        Refused: it cannot.
    """
    outer, innermost = levels[:-1], levels[-1]
    lines = [line for level in outer for line in level.before]
    for line in lines:
        for small in line.body:
            if not isinstance(small, cst.Assign) or any(not isinstance(t.target, cst.Name) for t in small.targets):
                raise Refused("a loop of the nest holds more than assignments and the next loop")
        called = {name_of(n, text.tl) or "" for n in nodes_of(line)}
        if any(one in {"load", "store"} or one.startswith("atomic_") for one in called):
            raise Refused("an outer loop loads what every round would have to load again")
    changed = sets(levels[0].node)
    if any(names_in(bound) & changed for level in levels for bound in (level.stop, *_given(level.step))):
        raise Refused("where a loop of the nest ends changes in the nest")
    own = {name for line in lines for name in sets(line)} | {level.variable for level in levels}
    inside = sets(innermost.node.body) - {innermost.variable}
    if own & inside or any(names_in(line) & inside for line in lines):
        raise Refused("an outer loop works with what the innermost one changes")
    for place, level in enumerate(outer):
        deeper = {one.variable for one in levels[place + 1 :]}
        if any(names_in(line) & deeper for line in level.before):
            raise Refused("an outer loop works with what the innermost one changes")
    if read_first(lines, {name for line in lines for name in sets(line)}):
        raise Refused("an outer loop carries something from one round to the next")
    if read_first(behind, own):
        raise Refused("what an outer loop sets is read after the nest")
    rounds = _known_rounds(text, innermost)
    if rounds is not None and rounds > _MOST_ROUNDS:
        raise Refused(f"the innermost loop has {rounds} rounds, enough to keep loads and dots apart")


def _given(step: cst.BaseExpression | None) -> tuple[cst.BaseExpression, ...]:
    return () if step is None else (step,)


def _known_rounds(text: KernelText, level: _Level) -> int | None:
    stop = text.size(code(level.stop))
    step = 1 if level.step is None else text.size(code(level.step))
    return -(-stop // step) if stop is not None and step else None


def _as_one(text: KernelText, levels: Sequence[_Level]) -> list[cst.BaseStatement]:
    """Return the statements that stand in the nest's place: how often loops run, and the one loop."""
    made: list[cst.BaseStatement] = []
    counts: list[str] = []
    taken: list[str] = []
    for level in levels:
        if level.step is None:
            counts.append(code(grouped(level.stop)))
            continue
        wishes = [f"blocks_{code(level.stop).lower()}"] if isinstance(level.stop, cst.Name) else []
        counts.append(text.fresh(*wishes, f"blocks_{level.variable}", but=taken))
        taken.append(counts[-1])
        made.append(line_of(f"{counts[-1]} = {text.tl}.cdiv({code(level.stop)}, {code(level.step)})"))
    step = text.fresh("step", "round_of_all", but=taken)
    body: list[cst.BaseStatement] = []
    for place, level in enumerate(levels):
        inner = counts[place + 1 :]
        words = step if not inner else f"{step} // {inner[0] if len(inner) == 1 else '(' + ' * '.join(inner) + ')'}"
        if place:
            words = f"{words} % {counts[place]}"
        if level.step is not None:
            words = f"{words if place else '(' + words + ')'} * {code(grouped(level.step))}"
        head = [] if level is levels[-1] else _behind_colon(level.node.body)
        said = [*(level.node.leading_lines if place else ()), *head]
        body += [line_of(f"{level.variable} = {words}").with_changes(leading_lines=said), *level.before]
    last = levels[-1].node
    loop: cst.BaseStatement = last.with_changes(
        target=cst.Name(step),
        iter=cst.parse_expression(f"range({' * '.join(counts)})"),
        body=last.body.with_changes(body=[*body, *last.body.body]),
        leading_lines=(),
    )
    made.append(loop)
    made[0] = made[0].with_changes(leading_lines=levels[0].node.leading_lines)
    return made


def _behind_colon(body: cst.BaseSuite) -> list[cst.EmptyLine]:
    """Return the comment that stands behind a loop's colon, as a line of its own."""
    return comments_of([body.header]) if isinstance(body, cst.IndentedBlock) else []
