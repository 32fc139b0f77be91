"""The arithmetic of timing: when a GPU is warm, how many launches make a sample, whether records are complete."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

SETTLED = 0.01
"""Medians of two successive windows of a warm GPU differ by less."""
_WINDOW = 5
_RELATIVE = 0.005
"""What the clock's granularity may contribute to a sample, as a share of its time."""
_LARGEST_BATCH = 16
FINEST_CLOCK_US = 0.032
"""The granularity of the timer on current NVIDIA GPUs."""


def is_settled(times: Sequence[float]) -> bool:
    """Tell whether the last times are as fast as those right before them, so that clocks no longer rise."""
    if len(times) < 2 * _WINDOW:
        return False
    before, last = statistics.median(times[-2 * _WINDOW : -_WINDOW]), statistics.median(times[-_WINDOW:])
    return abs(last / before - 1.0) < SETTLED if before > 0 else False


def batch_size(time_us: float, resolution_us: float) -> int:
    """Return how many launches, timed one by one and averaged, make a sample that the clock's steps cannot spoil."""
    if time_us <= 0:
        return _LARGEST_BATCH
    return max(1, min(_LARGEST_BATCH, math.ceil(resolution_us / (_RELATIVE * time_us))))


def resolution_us(readings: Sequence[float]) -> float:
    """Return the step of a clock from readings of one short interval: the smallest difference between two of them."""
    distinct = sorted(set(readings))
    steps = [b - a for a, b in itertools.pairwise(distinct) if b - a > 1e-3]
    return max(FINEST_CLOCK_US, min(steps)) if steps else FINEST_CLOCK_US


def drift(times: Sequence[float]) -> float:
    """Return the last third's median over the first third's; 1 when there are too few to say."""
    third = len(times) // 3
    if third < 3:
        return 1.0
    return statistics.median(times[-third:]) / statistics.median(times[:third])


def one_kernel_each(root: Any, prefix: str, names: Sequence[str]) -> list[float] | None:
    """Read the time of each launch from the tree that Triton's profiler writes, and check that it is complete.

    Args:
        root: the parsed file: nodes of `frame`, `metrics` and `children`. Launch `i` has scope `prefix` + i.
        prefix: of the scopes' names.
        names: the kernel that each launch ran.

    Returns:
        The duration in µs of each launch; None unless every scope has one record, of the right kernel.
    """
    found: dict[int, list[tuple[str, float, float]]] = {}
    todo: list[tuple[Any, int | None]] = [(node, None) for node in root] if isinstance(root, list) else []
    while todo:
        node, scope = todo.pop()
        if not isinstance(node, dict):
            continue
        name = str(node.get("frame", {}).get("name", ""))
        metrics = node.get("metrics", {})
        if name.startswith(prefix) and name[len(prefix) :].isdigit():
            scope = int(name[len(prefix) :])
        elif scope is not None and metrics.get("count", 0):
            found.setdefault(scope, []).append((name, float(metrics["count"]), float(metrics.get("time (ns)", 0))))
        todo += [(child, scope) for child in node.get("children", ())]
    rows = [found.get(i, []) for i in range(len(names))]
    if any(
        len(row) != 1 or row[0][0] != name or row[0][1] != 1 or row[0][2] <= 0
        for row, name in zip(rows, names, strict=True)
    ):
        return None
    return [row[0][2] / 1e3 for row in rows]
