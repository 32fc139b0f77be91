"""What processes left → `Trace`: launches merged by id, with their kernels, and calls that can be repeated."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tritonforge.domain.launch import Call, Launch, RecordedLaunch
from tritonforge.domain.trace import HostCall, Spool, Trace, TracedFailure, TracedLaunchOf
from tritonforge.store.keys import content_key
from tritonforge.workload.launches import distinct, to_launch, weight
from tritonforge.workload.program_launches import direct_call
from tritonforge.workload.tracing_kernels import Resolved, Sources
from tritonforge.workload.tracing_spools import by_names, described, told

MAX_CALLS = 32
"""Calls kept in the store for one kernel: those whose launches took most of the time."""

Repeatable = tuple[tuple[Resolved, tuple[Call, ...]], ...]
"""Kernels with the calls that repeat their launches."""


@dataclass
class _Seen:
    """One distinct launch, over all processes."""

    resolved: Resolved
    recorded: RecordedLaunch
    count: int
    samples: list[float] = field(default_factory=list)

    @property
    def time_us(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    def noun(self) -> Launch:
        return replace(to_launch(self.resolved.kernel, self.recorded, count=self.count), time_us=self.time_us)


def read_trace(command: tuple[str, ...], sources: Sources, spools: Sequence[Spool]) -> tuple[Trace, Repeatable]:
    """Put together what the processes of `command` left; the second value is for the store."""
    seen: dict[str, _Seen] = {}
    for one in told(spools):
        resolved = sources.resolve(one.traced.launch)
        ident = to_launch(resolved.kernel, one.traced.launch).id
        known = seen.setdefault(ident, _Seen(resolved, one.traced.launch, 0))
        known.count += one.count
        known.samples += one.samples
    launches = distinct(one.noun() for one in seen.values())
    calls = _calls(spools, sources, seen)
    failures = [failure for spool in spools for failure in spool.failures]
    again = [one for one in calls if sources.has(one.call.file)]
    kept = _repeatable(seen.values(), again, failures)
    beyond = sum(spool.beyond for spool in spools)
    if beyond:
        failures.append(TracedFailure("", f"{beyond} more launches were made than are told apart here"))
    trace = Trace(
        command,
        tuple(TracedLaunchOf(seen[launch.id].resolved.kernel, launch) for launch in launches),
        calls,
        tuple(dict.fromkeys(failures)),
        tuple(spool.process for spool in spools if spool.process is not None),
        beyond=beyond,
    )
    return trace, kept


def _calls(spools: Sequence[Spool], sources: Sources, seen: dict[str, _Seen]) -> tuple[HostCall, ...]:
    """Return the host calls, equal ones of several processes once, with counts and times of their launches."""
    found: dict[str, HostCall] = {}
    names = by_names(spools)
    slots = {spool.name: described(spool, names) for spool in spools}
    made = sorted(((call, spool.name) for spool in spools for call in spool.calls), key=lambda one: one[0].at)
    for traced, name in made:
        launches: list[RecordedLaunch] = []
        ids: list[str] = []
        counts: list[int] = []
        for launch, slot in zip(traced.launches, traced.slots, strict=False):
            # Where a seed or a step is left out of the count, the launch that it is counted with stands for it.
            counted = slots[name][slot].launch if slot in slots[name] else launch
            ident = to_launch(sources.resolve(counted).kernel, counted).id
            known = seen.get(ident)
            ids.append(ident)
            launches.append(launch if known is None else replace(launch, time_us=known.time_us))
            counts.append(1 if known is None else max(1, known.count // max(1, launch.count)))
        key = content_key("call", traced.file, traced.function, ids)[:12]
        if key not in found:
            # How often a call was made is not counted, its launches are: the rarest of them bounds it.
            call = Call(
                key, traced.file, traced.function, traced.arguments, traced.keywords, 0, tuple(launches), None,
                min(counts, default=1),
            )  # fmt: skip
            found[key] = HostCall(call, tuple(ids))
    return tuple(found.values())


def _repeatable(seen: Iterable[_Seen], calls: Sequence[HostCall], failures: list[TracedFailure]) -> Repeatable:
    """Return the calls to keep for each kernel; launches that no host call makes are repeated directly if possible.

    `calls` are those of functions that are in a file still: not of a notebook's cell.
    """
    by_kernel: dict[tuple[str, str, int], list[_Seen]] = {}
    for one in seen:
        kernel = one.resolved.kernel
        by_kernel.setdefault((kernel.file, kernel.name, kernel.range.start.line), []).append(one)
    kept: list[tuple[Resolved, tuple[Call, ...]]] = []
    for launches in by_kernel.values():
        resolved = launches[0].resolved
        kernel = resolved.kernel
        if resolved.unrepeatable:
            failures.append(TracedFailure(kernel.name, resolved.unrepeatable))
            continue
        hosts = [c.call for c in calls if any(_of(launch, resolved) for launch in c.call.launches)]
        covered = {ident for c in calls for ident in c.launches}
        direct = [_direct(one, resolved) for one in launches if one.noun().id not in covered]
        candidates = [*hosts, *(call for call in direct if call is not None)]
        if not candidates:
            failures.append(TracedFailure(kernel.name, _why_not(resolved)))
            continue
        best = sorted(candidates, key=lambda call: weight(call, kernel), reverse=True)[:MAX_CALLS]
        kept.append((resolved, tuple(call for call in candidates if call in best)))
    return tuple(kept)


def _of(launch: RecordedLaunch, resolved: Resolved) -> bool:
    kernel = resolved.kernel
    return launch.kernel_file == kernel.file and launch.kernel == kernel.name


def _direct(one: _Seen, resolved: Resolved) -> Call | None:
    if resolved.unreachable:
        return None
    kernel = resolved.kernel
    layers = (kernel.autotune is not None) + bool(kernel.heuristics)
    call = direct_call(one.recorded, layers=layers)
    if call is None:
        return None
    launch = replace(one.recorded, count=1, time_us=one.time_us)
    return replace(call, id=one.noun().id, launches=(launch,), count=one.count)


def _why_not(resolved: Resolved) -> str:
    if resolved.unreachable:
        return (
            "its launches are recorded but cannot be repeated: it is made inside a function, and no host function was "
            "seen that can be called again with the same arguments"
        )
    return "its launches are recorded but cannot be repeated: an argument of each cannot be described"
