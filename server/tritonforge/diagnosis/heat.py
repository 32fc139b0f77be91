"""Where in the source the time goes: from stall samples where there are any, else spread by the time model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tritonforge.diagnosis.case import Case
from tritonforge.domain.compilation import Compilation, LineWork
from tritonforge.domain.counters import Counters
from tritonforge.domain.profile import LineHeat
from tritonforge.domain.provenance import Provenance
from tritonforge.prediction.load import executed_by_line
from tritonforge.prediction.model import OVERLAP

_MEMORY_KINDS = ("load_global", "store_global", "async_copy", "load_shared", "store_shared", "shuffle")
_LOCAL_KINDS = ("load_local", "store_local")
_SHARED_KINDS = ("load_shared", "store_shared", "wgmma")
_LEAST = 0.005
"""Predicted shares below half a percent are noise of the model."""


@dataclass(frozen=True)
class Heat:
    """Each line's share of the time, the stall reasons of the whole launch (0–1), and where both come from."""

    lines: Mapping[int, LineHeat] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    provenance: Provenance = "measured"


def heat_of(case: Case) -> Heat:
    """Return the heat of the launch's lines: `measured` with samples, else `predicted`; empty when neither is known."""
    if case.counters is not None:
        sampled = _sampled(case.counters)
        if sampled.lines or sampled.stalls:
            return sampled
    return Heat(_predicted(case), provenance="predicted")


def _sampled(counters: Counters) -> Heat:
    total = sum(line.samples for line in counters.lines.values())
    lines = {
        number: LineHeat(
            line.samples / total, {reason: count / line.samples for reason, count in line.stalls.items() if count}
        )
        for number, line in counters.lines.items()
        if line.samples > 0
    }
    return Heat(lines, counters.stalls)


def _predicted(case: Case) -> dict[int, LineHeat]:
    """Spread the predicted time over the lines that cause it.

    The model's time is a norm of its parts, so a part of p µs accounts for p^OVERLAP of it (Euler's theorem on a
    homogeneous function), and each line for its share of what the part counts: bytes, FLOPs, instructions, waits.
    """
    compiled, prediction = case.compiled, case.prediction
    if compiled is None or compiled.work is None or prediction is None:
        return {}
    parts = {name: us for name, us in prediction.parts.items() if name != "launch" and us > 0}
    largest = max(parts.values(), default=0.0)
    demands = _demands(compiled, compiled.work.lines)
    shares: dict[int, float] = {}
    for name, us in parts.items():
        of_part = {n: amount for n, amount in demands.get(name, {}).items() if amount > 0}
        total = sum(of_part.values())
        weight = (us / largest) ** OVERLAP
        for number, amount in of_part.items():
            shares[number] = shares.get(number, 0.0) + weight * amount / total
    whole = sum(shares.values())
    first, last = case.kernel.range.start.line, case.kernel.range.end.line
    return {
        number: LineHeat(share / whole)
        for number, share in sorted(shares.items())
        if share / whole >= _LEAST and first <= number <= last
    }


def _demands(compiled: Compilation, lines: Mapping[int, LineWork]) -> dict[str, dict[int, float]]:
    """What each part of the model counts, by line, for one program."""
    work = compiled.work
    executed = executed_by_line(compiled, work) if work is not None else {}
    moved = {n: w.moved_bytes or (w.load_bytes + w.store_bytes) * w.unmasked_fraction for n, w in lines.items()}
    issued = {n: sum(kinds.values()) + sum(kinds.get(k, 0.0) for k in _MEMORY_KINDS) for n, kinds in executed.items()}
    return {
        "dram": moved,
        "l2": moved,
        "shared": {n: sum(kinds.get(k, 0.0) for k in _SHARED_KINDS) for n, kinds in executed.items()},
        "tensor": {n: w.dot_flops for n, w in lines.items()},
        "alu": issued or {n: w.alu_ops for n, w in lines.items()},
        "special": {n: kinds.get("special", 0.0) + kinds.get("convert", 0.0) / 4 for n, kinds in executed.items()}
        or {n: w.special_ops for n, w in lines.items()},
        "spill": {n: sum(kinds.get(k, 0.0) for k in _LOCAL_KINDS) for n, kinds in executed.items()},
        "atomic": {n: w.atomic_ops for n, w in lines.items()},
        "latency": {n: w.executions for n, w in lines.items() if w.load_bytes or w.atomic_ops},
    }
