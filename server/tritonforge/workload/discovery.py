"""Where calls and launches of a kernel come from: a spec, an earlier recording, something in the file that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.kernel import FileAnalysis, Kernel, RunnableEntry
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Program, Record
from tritonforge.jobs import JobError, Worker
from tritonforge.workload.drafting import first_spec
from tritonforge.workload.index import Way
from tritonforge.workload.launches import pinned_among, to_launch, weight

MAX_CALLS = 4
"""Calls that one kernel is judged on."""


@dataclass(frozen=True)
class Recording:
    """What running one file showed: the calls that each entry made, and what went wrong."""

    calls: Mapping[RunnableEntry, tuple[Call, ...]] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Calls that launch a kernel, where they come from (`spec`, `recorded`, an entry's name), or why there are none.

    `stale` says what has changed since they were recorded, and is empty when nothing has that could matter. `ways` are
    what could be run to see launches, where none are known.
    """

    calls: tuple[Call, ...]
    source: str = ""
    note: str = ""
    stale: str = ""
    ways: tuple[Way, ...] = ()


async def record(
    worker: Worker,
    program: Program,
    entries: Sequence[RunnableEntry],
    enough: Callable[[Sequence[Call]], bool],
    *,
    on_entry: Callable[[RunnableEntry], None] | None = None,
) -> Recording:
    """Run entries of one file, in order, and keep the calls; `enough` sees those of each, and may end it."""
    calls: dict[RunnableEntry, tuple[Call, ...]] = {}
    failures: list[str] = []
    for entry in entries:
        if on_entry:
            on_entry(entry)
        name = entry.name or entry.kind
        try:
            request = Record(program, entry.kind, entry.name)
            result = await worker.run(request)
        except JobError as error:
            failures.append(f"{name}: {error.failure.message}")
            continue
        failures += [f"{kernel}: {reason}" for kernel, reason in result.failures]
        calls[entry] = result.calls
        if enough(result.calls):
            break
    return Recording(calls, tuple(failures))


def select(kernel: Kernel, calls: Iterable[Call], pinned: Sequence[str] = ()) -> tuple[Call, ...]:
    """Return the recorded calls that launch `kernel`, one for each set of launches, at most `MAX_CALLS`.

    Where there are more, those with the largest weight stay, and the one that makes the pinned launch. They keep the
    order in which they were first made.
    """
    chosen: dict[tuple[RecordedLaunch, ...], Call] = {}
    for call in calls:
        own = tuple(launch for launch in call.launches if launch.kernel == kernel.name)
        if own:
            chosen.setdefault(own, call)

    def matters(call: Call) -> tuple[bool, tuple[float, int]]:
        made = [to_launch(kernel, one) for one in call.launches if one.kernel == kernel.name] if pinned else []
        return pinned_among(made, pinned, kernel) is not None, weight(call, kernel)

    first = sorted(chosen.values(), key=matters, reverse=True)[:MAX_CALLS]
    return tuple(call for call in chosen.values() if call in first)


def explain_nothing(
    kernel: Kernel, analysis: FileAnalysis, recordings: Sequence[Recording], ways: Sequence[Way]
) -> str:
    """Return one sentence that says why no launch of `kernel` is known, and what to do."""
    draft = first_spec(kernel, analysis)
    mend = f"write a launch spec above {draft.function}: # tritonforge: launch {draft.text}"
    elsewhere = [way for way in ways if way.file != analysis.file]
    if elsewhere:
        way = elsewhere[0]
        mend = f"{way.name} does ({way.reason}): record it with {way.command}, or {mend}"
    failures = [failure for recording in recordings for failure in recording.failures]
    ran = [entry.name for recording in recordings for entry in recording.calls]
    if not recordings and analysis.entries:
        names = ", ".join(entry.name or f"the {entry.kind} block" for entry in analysis.entries[:3])
        return (
            f"no launch of {kernel.name} is known: {names} of this file may launch it, but only files that you name "
            f"are run, and none with --no-run; name the file, or {mend}"
        )
    if failures:
        return f"no launch of {kernel.name} was seen: {failures[0].rstrip('.')}; mend that, or {mend}"
    if ran:
        return f"no launch of {kernel.name} was seen when running {', '.join(ran)}; {mend}"
    return f"nothing in this file runs {kernel.name}; {mend}"
