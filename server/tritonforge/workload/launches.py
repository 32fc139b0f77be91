"""Recorded launches → `Launch`: constexprs split into meaning and tuning, an id, a weight, an order."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any

from tritonforge.domain.codec import encode
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import (
    Call,
    Config,
    Items,
    Launch,
    Problem,
    RecordedLaunch,
    Tensor,
    Value,
    tensors_of,
)


def matches(kernel: Kernel, recorded: RecordedLaunch) -> bool:
    """Tell whether `recorded` is a launch of `kernel`: same name and, where two share it, a line inside the kernel."""
    if recorded.kernel != kernel.name:
        return False
    return kernel.range.start.line <= recorded.kernel_line <= kernel.range.end.line


def split(kernel: Kernel, recorded: RecordedLaunch) -> tuple[Problem, Config]:
    """Split a recorded launch into what it computes and how.

    Constexprs of role `tile` or `option` are tuning; all others carry meaning.
    """
    tuning: list[tuple[str, Value]] = []
    meaning: list[tuple[str, Value]] = []
    for name, value in recorded.constexprs:
        parameter = kernel.parameter(name)
        (tuning if parameter and parameter.role in ("tile", "option") else meaning).append((name, value))
    return (
        Problem(recorded.arguments, tuple(meaning)),
        Config(tuple(tuning), recorded.options, recorded.grid),
    )


def to_launch(
    kernel: Kernel,
    recorded: RecordedLaunch,
    *,
    call: str | None = None,
    count: int = 1,
    time_us: float | None = None,
) -> Launch:
    """Build the launch noun.

    Its id hashes kernel, arguments, constexprs, options and grid. Of a tensor only what a compiler sees counts (shape,
    strides, dtype, whether 16 bytes divide its address), so that a launch has one id whether it was recorded on a CPU,
    compiled for another machine or timed on a GPU with other values.
    """
    problem, config = split(kernel, recorded)
    return Launch(
        id=_digest(kernel, _seen_arguments(problem), problem.constexprs, config),
        kernel_file=kernel.file,
        kernel=kernel.name,
        problem=problem,
        config=config,
        call_site=recorded.call_site,
        count=count,
        time_us=time_us,
        call=call,
    )


def problem_id(kernel: Kernel, problem: Problem) -> str:
    """Return what a launch's id is without its config: it outlives a change of tiles, warps and grid."""
    return _digest(kernel, _seen_arguments(problem), problem.constexprs)


def _digest(kernel: Kernel, *parts: Any) -> str:
    body = json.dumps(encode((kernel.file, kernel.name, *parts)), sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def _seen_arguments(problem: Problem) -> list[Any]:
    return [(name, _seen_by_compiler(value)) for name, value in problem.arguments]


def _seen_by_compiler(value: Value) -> Any:
    if isinstance(value, Tensor):
        return (value.shape, value.strides, value.dtype, value.alignment >= 16)
    if isinstance(value, Items):
        return [_seen_by_compiler(item) for item in value.items]
    return value


class Weights:
    """How often the launches of recorded calls were seen, and how long they took where that was measured.

    A launch that a changed program makes is known by its problem where its config is another one.
    """

    def __init__(self, kernel: Kernel, calls: Iterable[Call]) -> None:
        """Count what `calls` were recorded with."""
        self._kernel = kernel
        self._exact: dict[tuple[str, str], tuple[int, float | None]] = {}
        self._problem: dict[tuple[str, str], tuple[int, float | None]] = {}
        for call in calls:
            for recorded in call.launches:
                if recorded.kernel == kernel.name:
                    launch = to_launch(kernel, recorded)
                    count = max(call.count, 1) * max(recorded.count, 1)
                    problem = problem_id(kernel, launch.problem)
                    for known, key in ((self._exact, launch.id), (self._problem, problem)):
                        before, time_us = known.get((call.id, key), (0, None))
                        known[call.id, key] = before + count, time_us or recorded.time_us

    def launch(self, recorded: RecordedLaunch, call: Call) -> Launch:
        """Return the launch that repeating `call` made, with its count and time."""
        launch = to_launch(self._kernel, recorded, call=call.id)
        count, time_us = (
            self._exact.get((call.id, launch.id))
            or self._problem.get((call.id, problem_id(self._kernel, launch.problem)))
            or (max(call.count, 1) * max(recorded.count, 1), None)
        )
        return dataclasses.replace(launch, count=count, time_us=time_us)


def weight(call: Call, kernel: Kernel) -> tuple[float, int]:
    """Return how much a call matters: time × count of its launches of `kernel`, then how many elements they work on."""
    own = [recorded for recorded in call.launches if recorded.kernel == kernel.name]
    spent = sum(max(call.count, 1) * max(one.count, 1) * (one.time_us or 1.0) for one in own)
    elements = (t.elements for one in own for _, value in one.arguments for t in tensors_of(value))
    return spent, max(elements, default=0)


def distinct(
    launches: Iterable[Launch], *, pinned: Collection[str] = (), kernel: Kernel | None = None
) -> tuple[Launch, ...]:
    """Merge equal launches (adding their counts), keep the order of first execution, and rank by time × count.

    A launch without a time counts as the mean of those with one. `pinned` names the launch that ranks first: its id,
    or, for `kernel`, the id of its problem.
    """
    merged: dict[str, Launch] = {}
    counted: set[tuple[str, str | None]] = set()
    for launch in launches:
        seen = merged.get(launch.id)
        if seen is None:
            merged[launch.id] = launch
        elif launch.call is None or (launch.id, launch.call) not in counted:  # one call's count is there already
            merged[launch.id] = dataclasses.replace(seen, count=seen.count + launch.count)
        counted.add((launch.id, launch.call))
    times = [launch.time_us for launch in merged.values() if launch.time_us]
    usual = sum(times) / len(times) if times else 1.0
    first = pinned_among(merged.values(), pinned, kernel)

    def order(one: Launch) -> tuple[bool, float]:
        return one is not first, -one.count * (one.time_us or usual)

    ranks = {launch.id: rank for rank, launch in enumerate(sorted(merged.values(), key=order), 1)}
    return tuple(dataclasses.replace(launch, rank=ranks[launch.id]) for launch in merged.values())


def pinned_among(launches: Collection[Launch], pinned: Collection[str], kernel: Kernel | None = None) -> Launch | None:
    """Return the launch that `pinned` names: by its id, else by its problem; None when it is not among them."""
    exact = next((launch for launch in launches if launch.id in pinned), None)
    if exact is not None or kernel is None or not pinned:
        return exact
    return next((launch for launch in launches if problem_id(kernel, launch.problem) in pinned), None)
