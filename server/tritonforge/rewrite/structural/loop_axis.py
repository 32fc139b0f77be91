"""A loop whose rounds are independent as one more axis of programs: every round is a program of its own.

A kernel that does all tiles of a row, or all heads of a batch, one after the other leaves most of the device idle where
there are few rows. Its rounds become programs along a new axis, with what stands in front of the loop done by each.

Preconditions: the loop is the last statement of the kernel's body, begins at 0 and is not left early; no variable is
carried from round to round; stores of a round lie at addresses that differ with the round, each pointer once, and
nothing is loaded that another round may have stored; no atomics; one launch with a grid of less than three axes that
leaves multiprocessors idle; the host function shows the loop's end and its step, and there are far fewer rounds than
the 65,535 programs that fit along an axis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.plausibility import MOST_PROGRAMS
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, line_of, nodes_of
from tritonforge.rewrite.structural.loops import Span, has_effect, spans_of
from tritonforge.rewrite.structural.stepping import check_stores, origin
from tritonforge.rewrite.structural.walking import program_ids
from tritonforge.rewrite.structural.workspace import new_axis, stages

_MARGIN = 16
"""How many times more programs than were recorded must still fit along the new axis."""


class LoopAxis:
    """Rounds of a loop as programs."""

    name = "loop-axis"
    treats = frozenset({"TF302"})
    classes: frozenset[BottleneckClass] = frozenset({"grid-too-small", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        span = _last(text)
        flow = flow_of(text.function, text.kernel, text.tl)
        if set(flow.meets.get(id(span.node), {})) - {span.variable}:
            raise Absent("rounds of the last loop go on from each other")
        spec = gpu_for(text.task.arch)
        programs = math.prod(text.launch.config.grid)
        if programs >= (spec.sms if spec else 100):
            raise Absent(f"{programs} programs fill the device")
        within = list(nodes_of(span.node.body))
        if any(isinstance(n, cst.Break | cst.Continue | cst.Return) for n in within):
            raise Refused("the loop is left early")
        if any((name_of(n, text.tl) or "").startswith("atomic_") for n in within):
            raise Refused("rounds add to memory by atomics")
        if any(has_effect(s, text.tl) for s in text.function.body.body[: span.place]):
            raise Refused("the kernel stores in front of the loop, which every round would do")
        program_ids(text, set())  # neither the kernel nor a helper may ask how many programs there are
        check_stores(text, flow, span)
        _check_loads_before(text, span)
        host = Host(text)
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        axis = new_axis(text, host)
        rounds, count = _rounds(text, host, span)
        if count is not None and count < 2:
            raise Refused("the loop has one round")
        if (count or 1) * _MARGIN > MOST_PROGRAMS:
            raise Refused(f"{count} programs along {'xyz'[axis]} leave little room below {MOST_PROGRAMS}")
        edits: tuple[Edit, ...] = (*text.edits(self._function(text, span, axis)), *stages(text, host, rounds))
        grid = [*text.launch.config.grid]
        grid[axis] = count or 1
        yield Change("rounds of the loop as programs", edits, (), {}, (grid[0], grid[1], grid[2]))

    def _function(self, text: KernelText, span: Span, axis: int) -> cst.FunctionDef:
        program = f"{text.tl}.program_id({axis})"
        words = program if span.step == "1" else f"{program} * {span.step}"
        first = line_of(f"{span.variable} = {words}").with_changes(leading_lines=span.node.leading_lines)
        before = text.function.body.body[: span.place]
        return text.with_body([*before, first, *span.node.body.body])


def _last(text: KernelText) -> Span:
    statements = text.function.body.body
    found = [span for span in spans_of(text) if span.place == len(statements) - 1]
    if not found:
        raise Absent("the kernel does not end in a loop from 0")
    return found[0]


def _check_loads_before(text: KernelText, span: Span) -> None:
    """Check that no program loads in front of the loop what another one may have stored by then.

    Raises:
        Refused: one may.
    """
    pointers = {p.name for p in text.kernel.parameters if p.role == "pointer"}
    before, inside = text.function.body.body[: span.place], [span.node.body]
    loaded = _reached(text, before, "load") & pointers
    for pointer in sorted(_reached(text, inside, "store") & pointers):
        if pointer in loaded:
            raise Refused(f"the kernel loads from {pointer} in front of the loop, which rounds store to")
        other = next((one for one in sorted(loaded) if text.share_memory(pointer, one)), "")
        if other:
            raise Refused(f"{other} and {pointer} are the same memory")


def _reached(text: KernelText, statements: Sequence[cst.CSTNode], function: str) -> set[str]:
    """Return the names that the addresses of loads or stores come from."""
    calls = [n for s in statements for n in nodes_of(s) if isinstance(n, cst.Call) and name_of(n, text.tl) == function]
    return set[str]().union(*(origin(text, call.args[0].value) for call in calls))


def _rounds(text: KernelText, host: Host, span: Span) -> tuple[str, int | None]:
    """Return how many rounds there are, as the host function says it at the launch, and in the recorded launch.

    Raises:
        Refused: it does not show that.
    """
    stop, step = (_said(text, host, words) for words in (span.stop, span.step))
    sizes = text.size(span.stop), text.size(span.step)
    count = -(-sizes[0] // sizes[1]) if sizes[0] is not None and sizes[1] else None
    if step == "1":
        return stop, count
    if not text.triton:
        raise Refused("triton is not imported under a name of its own, so that rounds cannot be counted with it")
    return f"{text.triton}.cdiv({stop}, {step})", count


def _said(text: KernelText, host: Host, words: str) -> str:
    if words.isdecimal():
        return words
    given = host.argument(0, words) if re.fullmatch(r"\w+", words) else None
    if given is None or host.grids[0].meta or not host.says_at_launch(0, given):
        raise Refused(f"the launch does not show {words} where its grid is made")
    return text.source.segment(given)
