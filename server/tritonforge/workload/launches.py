"""Recorded launches → `Launch`: constexprs split into meaning and tuning, an id, an order."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tritonforge.domain.codec import encode
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, Items, Launch, Problem, RecordedLaunch, Tensor, Value


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


def to_launch(kernel: Kernel, recorded: RecordedLaunch, *, call: str | None = None, count: int = 1) -> Launch:
    """Build the launch noun.

    Its id hashes kernel, arguments, constexprs, options and grid. Of a tensor only what a compiler sees counts (shape,
    strides, dtype, whether 16 bytes divide its address), so that a launch has one id whether it was recorded on a CPU,
    compiled for another machine or timed on a GPU with other values.
    """
    problem, config = split(kernel, recorded)
    arguments = [(name, _seen_by_compiler(value)) for name, value in problem.arguments]
    body = json.dumps(encode((kernel.file, kernel.name, arguments, problem.constexprs, config)), sort_keys=True)
    return Launch(
        id=hashlib.sha256(body.encode()).hexdigest()[:12],
        kernel_file=kernel.file,
        kernel=kernel.name,
        problem=problem,
        config=config,
        call_site=recorded.call_site,
        count=count,
        call=call,
    )


def _seen_by_compiler(value: Value) -> Any:
    if isinstance(value, Tensor):
        return (value.shape, value.strides, value.dtype, value.alignment >= 16)
    if isinstance(value, Items):
        return [_seen_by_compiler(item) for item in value.items]
    return value


def distinct(launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """Merge equal launches (adding their counts), keep the order of first execution, and rank by count."""
    merged: dict[str, Launch] = {}
    for launch in launches:
        seen = merged.get(launch.id)
        merged[launch.id] = launch if seen is None else dataclasses.replace(seen, count=seen.count + launch.count)
    by_weight = sorted(merged.values(), key=lambda one: -one.count * (one.time_us or 1.0))
    ranks = {launch.id: rank for rank, launch in enumerate(by_weight, 1)}
    return tuple(dataclasses.replace(launch, rank=ranks[launch.id]) for launch in merged.values())
