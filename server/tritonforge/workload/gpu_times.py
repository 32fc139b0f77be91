"""What the processes of a traced program left of their kernels' device times → `GpuTimes`, all processes together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import CodecError, decode
from tritonforge.domain.program import GpuTimeNote, GpuTimes, KernelTime

_KILLED = "a process was killed, or replaced itself, before it could write its times"


def read_gpu_times(spool: Path) -> GpuTimes:
    """Read and add up everything in `spool`; what cannot be read counts as a process that wrote nothing."""
    kernels: dict[str, KernelTime] = {}
    reasons: list[str] = []
    gpus: list[str] = []
    processes = 0
    for path in sorted(spool.glob("*.gputime")):
        processes += 1
        note = _note(path)
        reason = note.reason if note is not None else "what a process left of its times cannot be read"
        if note is not None:
            gpus += [gpu for gpu in note.gpus if gpu not in gpus]
            if note.state == "running":
                reason = _KILLED
            elif note.state == "complete":
                own = read_hatchet(path.with_suffix(".hatchet"))
                if own is not None:
                    _add(kernels, own)
                    continue
                reason = "Proton wrote times that cannot be read"
        reasons += [reason] if reason not in reasons else []
    return GpuTimes(kernels, not reasons, tuple(reasons), tuple(gpus), processes)


def read_hatchet(path: Path) -> tuple[KernelTime, ...] | None:
    """Read Proton's tree of kernels; None when it is not there or not what Proton writes.

    Kernels are its leaves. They may stand below scopes, or below the graph that replayed them: the tree is flattened,
    and one name of several places added up.
    """
    try:
        trees = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(trees, list):
        return None
    found: dict[str, KernelTime] = {}
    for tree in trees:
        _add(found, tuple(_leaves(tree)))
    return tuple(found.values())


def _note(path: Path) -> GpuTimeNote | None:
    try:
        note: GpuTimeNote = decode(GpuTimeNote, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, CodecError):
        return None
    return note


def _add(kernels: dict[str, KernelTime], more: tuple[KernelTime, ...]) -> None:
    for one in more:
        before = kernels.get(one.name)
        kernels[one.name] = (
            KernelTime(one.name, before.count + one.count, before.time_us + one.time_us) if before else one
        )


def _leaves(root: Any) -> Iterator[KernelTime]:
    """Yield the kernels below `root`."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        children = node.get("children")
        waiting += reversed(children) if isinstance(children, list) else []
        frame, metrics = node.get("frame"), node.get("metrics")
        if not isinstance(frame, dict) or not isinstance(metrics, dict):
            continue
        name, count, ns = frame.get("name"), _number(metrics.get("count")), _number(metrics.get("time (ns)"))
        # A scope has no count of its own, or the sum over its children, which must not count twice.
        if not children and isinstance(name, str) and count and ns is not None:
            yield KernelTime(name, int(count), ns / 1e3)


def _number(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18
    return float(value) if usable else None
