"""How far the accesses of a launch go: programs at the corners of its grid are walked through with their own numbers.

In loops the first and the last iteration are walked; what a loop carries is followed where it changes by the same
amount each time. An access whose address, or whose happening, is not known for certain is left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tritonforge.compilation.locations import Locations, read_locations
from tritonforge.compilation.mlir import Operation
from tritonforge.compilation.spans import UNKNOWN, Span, Spans, span_of
from tritonforge.compilation.ttir import bind_arguments, read_functions
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.semantics import Extreme

_KINDS = {"tt.load": "load", "tt.store": "store", "tt.atomic_rmw": "atomic"}
_MASK_AT = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
_LOOP = re.compile(
    r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\)\s*->)?"
)
_MOST_OPERATIONS = 20_000
_DEEPEST_LOOP = 3


def read_extremes(ttir: str, launch: RecordedLaunch, file: str) -> tuple[Extreme, ...]:
    """Return for each line, pointer and kind of access how far it goes. `file` is the user's, as locations name it.

    Never raises; empty for a text without a function, and for one that is too long to walk through.
    """
    entry, functions = read_functions(ttir)
    if entry is None:
        return ()
    start: Spans = {}
    for name, value in bind_arguments(entry, launch).items():
        if value.pointer:
            start[name] = Span(0, 0, value.pointer)
        elif isinstance(value.base, int):
            start[name] = Span(value.base, value.base, step=1)
    locations = read_locations(ttir, file)
    found: dict[tuple[int, str, str, bool], Extreme] = {}
    x, y, z = ({0, extent - 1} for extent in launch.grid)
    for at in sorted(itertools.product(x, y, z)):
        walk = _Walk(functions, locations, at, launch.grid, found)
        walk.region(entry.regions[0], dict(start))
        if walk.left <= 0:
            return ()
    return tuple(found[key] for key in sorted(found))


@dataclass
class _Walk:
    functions: Mapping[str, Operation]
    locations: Locations
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    found: dict[tuple[int, str, str, bool], Extreme]
    left: int = _MOST_OPERATIONS
    silent: int = 0
    """Above 0 nothing is noted: an iteration is tried, or it is not known whether this happens."""
    depth: int = 0
    loops: int = 0
    lines: dict[str, int] = field(default_factory=dict)

    def region(self, operations: Sequence[Operation], env: Spans) -> list[Span]:
        """Walk through a region and return what it yields."""
        yielded: list[Span] = []
        for index, operation in enumerate(operations):
            self.left -= 1
            if self.left <= 0:
                return []
            name = operation.name
            if name == "cf.cond_br":
                # An early return: the block that returns comes first, and is taken where the condition holds.
                returns = index + 1 < len(operations) and operations[index + 1].name == "tt.return"
                condition = env.get(operation.operands[0], UNKNOWN).exact
                if condition is None or not returns:
                    self.silent += 1
                elif condition:
                    return []
            elif name in {"scf.yield", "tt.return", "scf.condition"}:
                yielded = [env.get(operand, UNKNOWN) for operand in operation.operands]
            elif name == "scf.for":
                self._for(operation, env)
            elif name == "scf.while":
                self._unsure(operation, env)
            elif name == "scf.if":
                self._if(operation, env)
            elif name == "tt.call":
                self._call(operation, env)
            else:
                self._plain(operation, env)
        return yielded

    def _plain(self, operation: Operation, env: Spans) -> None:
        if operation.name in _KINDS:
            self._note(operation, env)
        if operation.name in {"tt.get_program_id", "tt.get_num_programs"}:
            axis = next((i for i, letter in enumerate("xyz") if re.search(rf"\b{letter}\b", operation.text)), 0)
            value = (self.program if operation.name == "tt.get_program_id" else self.grid)[axis]
            span = Span(value, value, step=1)
        else:
            span = UNKNOWN if operation.regions else span_of(operation, env, self._line(operation))
        for index, result in enumerate(operation.results):
            env[result] = span if index == 0 else UNKNOWN

    def _line(self, operation: Operation) -> int:
        at = operation.location
        if at not in self.lines:
            self.lines[at] = self.locations.line(at) or 0
        return self.lines[at]

    def _note(self, operation: Operation, env: Spans) -> None:
        span = env.get(operation.operands[0], UNKNOWN) if operation.operands else UNKNOWN
        line = self._line(operation)
        if self.silent or not span.known or span.pointer is None or not line:
            return
        assert span.low is not None
        assert span.high is not None
        masked = len(operation.operands) > _MASK_AT[operation.name]
        if masked:
            mask = env.get(operation.operands[_MASK_AT[operation.name]], UNKNOWN)
            if mask.exact == 0:
                return
            masked = mask.exact != 1
        kind = _KINDS[operation.name]
        key = line, kind, span.pointer, masked
        known = self.found.get(key)
        here = Extreme(
            line, kind, span.pointer, masked, span.low, span.high, self.program,
            span.passed, span.passed_line, span.widest,
        )  # fmt: skip
        if known is not None:
            far = here if here.highest > known.highest else known
            over = here if here.passed > known.passed else known
            here = replace(
                far,
                lowest=min(known.lowest, here.lowest),
                passed=over.passed,
                passed_line=over.passed_line,
                widest=max(known.widest, here.widest),
            )
        self.found[key] = here

    def _for(self, operation: Operation, env: Spans) -> None:
        head = _LOOP.match(operation.text)
        if head is None or not operation.regions:
            self._unsure(operation, env)
            return
        low, high, step = (env.get(head[i], UNKNOWN).exact for i in (2, 3, 4))
        carried = re.findall(r"(%[\w.$-]+) = (%[\w.$#-]+)", head[5] or "")
        starts = [env.get(start, UNKNOWN) for _, start in carried]
        if low is None or high is None or not step or step < 0 or self.loops >= _DEEPEST_LOOP:
            self._unsure(operation, env)
            return
        trips = max(0, -(-(high - low) // step))

        def walk(value: int, values: Sequence[Span]) -> list[Span]:
            inner = {**env, head[1]: Span(value, value, step=1)}
            inner.update(zip((name for name, _ in carried), values, strict=False))
            return self.region(operation.regions[0], inner)

        values, after = starts, starts
        self.loops += 1
        if trips:
            first = walk(low, starts)
            values, after = first, first
            if trips > 1:
                self.silent += 1
                second = walk(low + step, first)
                self.silent -= 1
                values = [_ahead(a, b, c, trips - 1) for a, b, c in zip(starts, first, second, strict=False)]
                walk(low + step * (trips - 1), values)
                after = [_ahead(a, b, c, trips) for a, b, c in zip(starts, first, second, strict=False)]
        self.loops -= 1
        for result, value in zip(operation.results, after, strict=False):
            env[result] = value

    def _if(self, operation: Operation, env: Spans) -> None:
        condition = env.get(operation.operands[0], UNKNOWN).exact if operation.operands else None
        if condition is None:
            self._unsure(operation, env)
            return
        at = 0 if condition else 1
        yields = self.region(operation.regions[at], dict(env)) if at < len(operation.regions) else []
        for index, result in enumerate(operation.results):
            env[result] = yields[index] if index < len(yields) else UNKNOWN

    def _unsure(self, operation: Operation, env: Spans) -> None:
        """Leave out what may not happen, or not as often as one could tell."""
        for result in operation.results:
            env[result] = UNKNOWN

    def _call(self, operation: Operation, env: Spans) -> None:
        name = re.match(r"@([\w.$]+)", operation.text)
        callee = self.functions.get(name[1]) if name else None
        yields: list[Span] = []
        if callee is not None and self.depth < 16:
            parameters = re.findall(r"(%[\w.$-]+): ", callee.text)
            values = (env.get(operand, UNKNOWN) for operand in operation.operands)
            self.depth += 1
            yields = self.region(callee.regions[0], dict(zip(parameters, values, strict=False)))
            self.depth -= 1
        for index, result in enumerate(operation.results):
            env[result] = yields[index] if index < len(yields) else UNKNOWN


def _ahead(start: Span, first: Span, second: Span, times: int) -> Span:
    """Return a carried value after `times` iterations, where each adds the same; else nothing is known of it."""
    if start.low is None or first.low is None or second.low is None:
        return UNKNOWN
    if start.high is None or first.high is None or second.high is None or start.pointer != first.pointer:
        return UNKNOWN
    low, high = first.low - start.low, first.high - start.high
    if low != high or second.low - first.low != low or second.high - first.high != low:
        return UNKNOWN
    return replace(start, low=start.low + low * times, high=start.high + high * times)
