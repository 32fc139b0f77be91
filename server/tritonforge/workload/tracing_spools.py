"""What processes left → their launches with counts and times, forks and graph replays accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.domain.trace import Spool, TracedLaunch


@dataclass(frozen=True)
class Told:
    """A launch as one process told of it: how often it made it, and its sampled times in µs."""

    traced: TracedLaunch
    count: int
    samples: tuple[float, ...] = ()


def told(spools: Sequence[Spool]) -> tuple[Told, ...]:
    """Return the launches of all processes in the order of their first sight; a launch comes once for each process."""
    by_name = by_names(spools)
    found: list[Told] = []
    for spool in spools:
        counts = _counts(spool)
        for slot, traced in described(spool, by_name).items():
            count = counts.get(slot, 0)
            if count:
                kept = spool.kept.get(slot)
                found.append(Told(traced, count, kept.samples if kept else ()))
    return tuple(sorted(found, key=lambda one: one.traced.at))


def by_names(spools: Sequence[Spool]) -> dict[str, Spool]:
    """Return the spools by name, as `described` needs them."""
    return {spool.name: spool for spool in spools}


def _counts(spool: Spool) -> dict[int, int]:
    counts = {slot: kept.count for slot, kept in spool.kept.items()}
    for graph in spool.graphs:
        replays = counts.pop(graph.slot, 0)
        for slot, times in graph.launches:
            counts[slot] = counts.get(slot, 0) + replays * times
    return counts


def described(spool: Spool, others: dict[str, Spool]) -> dict[int, TracedLaunch]:
    """Return the launches behind a process's slots; a forked one goes on with those of the process it came from."""
    described = {traced.slot: traced for traced in spool.launches}
    names = {spool.name}
    while spool.process is not None and spool.process.parent in others and spool.process.parent not in names:
        spool = others[spool.process.parent]
        names.add(spool.name)
        described = {traced.slot: traced for traced in spool.launches} | described
    return described
