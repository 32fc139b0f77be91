"""Counters for assessed launches: from the best level that the target allows, and why not from a better one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tritonforge.compilation.sass import instruction_lines
from tritonforge.compilation.ttir import inlined_callers
from tritonforge.diagnosis import assessment
from tritonforge.diagnosis.assessment import Assessed
from tritonforge.domain.counters import CounterAccess, CounterChoice, Counters
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compile
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.profiling.counting import Counted, count
from tritonforge.profiling.nsight import ReportedLaunch, counters_of
from tritonforge.profiling.nsight.opcodes import INSTRUCTION_BYTES, split
from tritonforge.store import Store
from tritonforge.workload.launches import matches, to_launch
from tritonforge.workload.subject import Subject

_KNOWN_FOR_S = 7 * 86400.0
"""How long a refusal is believed: somebody may give the rights meanwhile (and `doctor` always tries)."""
_MOST_CALLS = 3
_BETTER: tuple[Literal["ncu", "pcsampling"], ...] = ("ncu", "pcsampling")
_LOST = {
    "ncu": "hardware counters (throughputs, hit rates, occupancy reached, excess sectors, samples per line)",
    "pcsampling": "stall reasons",
}


class CountersRefused(TritonForgeError):
    """Counters were asked for by name, and the target does not give them."""

    exit_code = 2


def require_gpu(session: Session, choice: CounterChoice) -> None:
    """Check that counters which were asked for by name can be had at all, before anything is compiled or measured.

    Raises:
        CountersRefused: when the target has no GPU.
    """
    if choice in _LOST and not session.measures:
        raise CountersRefused(
            f"{_LOST[choice]} cannot be had on target {session.target.name!r}: they need a GPU.",
            "Name one with --target, or leave --counters out.",
        )


@dataclass(frozen=True)
class WithCounters:
    """The launches with what was counted, where it came from, what is missing because of it, and how it was done."""

    assessed: tuple[Assessed, ...]
    source: str = "none"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Findings:
    counters: dict[str, Counters] = field(default_factory=dict)
    refused: str = ""
    lasting: bool = False
    notes: list[str] = field(default_factory=list)


async def with_counters(
    subject: Subject,
    session: Session,
    assessed: Sequence[Assessed],
    choice: CounterChoice,
    store: Store | None = None,
    *,
    budget_s: float = 120.0,
) -> WithCounters:
    """Count the launches, from the best level that works (or the one that was chosen), and judge them anew.

    Raises:
        CountersRefused: when a level was asked for by name and the target refuses it.
    """
    require_gpu(session, choice)
    everything = tuple(assessed)
    if choice == "none":
        return WithCounters(everything, missing=("hardware counters and stall reasons: not asked for",))
    if not session.measures:
        return WithCounters(everything, missing=("hardware counters and stall reasons: they need a GPU",))
    key = target_key(session)
    known = store.counter_access(key) if store is not None and choice == "auto" else None
    if known is not None and time.time() - known.seen_at > _KNOWN_FOR_S:
        known = None
    refusals: dict[str, str] = dict(known.refusals) if known is not None else {}
    lasting = True
    for level in _BETTER if choice == "auto" else (choice,):
        if level in refusals:
            continue
        found = await _counted(subject, session, everything, level, budget_s)
        if found.counters:
            if store is not None and choice == "auto" and lasting:
                store.put_counter_access(key, CounterAccess(level, refusals, time.time()))
            return _judged(everything, found, level, refusals)
        refusals[level] = found.refused
        lasting = lasting and found.lasting
        if choice != "auto":
            raise CountersRefused(f"{_LOST[level]} cannot be had on target {session.target.name!r}: {found.refused}")
    if store is not None and lasting:
        store.put_counter_access(key, CounterAccess("none", refusals, time.time()))
    missing = (f"{_LOST[level]}: {why}" for level, why in refusals.items())
    return WithCounters(everything, missing=tuple(missing))


def target_key(session: Session) -> tuple[str | None, ...]:
    """Return what tells apart the targets that may give different counters."""
    gpu = session.gpu
    described = session.described
    hardware = (gpu.name, gpu.driver) if gpu is not None else (None, None)
    return (session.target.name, described.executable, *hardware, described.triton)


def _judged(assessed: Sequence[Assessed], found: _Findings, level: str, refusals: dict[str, str]) -> WithCounters:
    out = [
        assessment.with_counters(one, counters) if (counters := found.counters.get(one.launch.id)) is not None else one
        for one in assessed
    ]
    without = sum(one.launch.id not in found.counters for one in assessed)
    missing = [f"{_LOST[better]}: {why}" for better, why in refusals.items()]
    if without:
        missing.append(f"counters of {without} of {len(assessed)} launches: only the first ones are counted")
    for counters in found.counters.values():
        missing += [sentence for sentence in counters.missing if sentence not in missing]
    if "ncu" in refusals:  # said already, with the reason
        missing = [sentence for sentence in missing if not sentence.startswith("throughputs")]
    return WithCounters(tuple(out), level, tuple(missing), tuple(found.notes))


async def _counted(
    subject: Subject,
    session: Session,
    assessed: Sequence[Assessed],
    level: Literal["ncu", "pcsampling"],
    budget_s: float,
) -> _Findings:
    findings = _Findings()
    began = time.monotonic()
    for call in _calls(subject, assessed):
        left = budget_s - (time.monotonic() - began)
        if left < budget_s / 4:
            break
        try:
            counted = await count(
                session.worker, subject.program(), call, kernel=subject.kernel.name, level=level, budget_s=left
            )
        except JobError as error:
            # What was timed is worth showing, even when the same call fails beside a profiler (short of memory, say).
            counted = Counted(refused=error.message)
        if counted.refused:
            findings.refused = findings.refused or counted.refused
            findings.lasting = counted.lasting
            break
        findings.counters |= await _by_launch(subject, session, call, counted)
        note = f"counters: {counted.tool}, caches flushed, clocks left alone; times are never taken under it"
        if note not in findings.notes:
            findings.notes.append(note)
    if not findings.counters and not findings.refused:
        findings.refused = "The counted launches are not those that were compiled."
    return findings


def _calls(subject: Subject, assessed: Sequence[Assessed]) -> list[Call]:
    """Return the calls that make the launches which matter most, each once."""
    ranked = sorted(assessed, key=lambda one: one.launch.rank)
    wanted = list(dict.fromkeys(one.launch.call for one in ranked))
    by_id = {call.id: call for call in subject.calls}
    chosen = [by_id[one] for one in wanted if one in by_id] or list(subject.calls)
    return chosen[:_MOST_CALLS]


async def _by_launch(subject: Subject, session: Session, call: Call, counted: Counted) -> dict[str, Counters]:
    kernel = subject.kernel
    own = {
        index: to_launch(kernel, recorded, call=call.id).id
        for index, recorded in enumerate(counted.launches)
        if matches(kernel, recorded)
    }
    placed = await _places(subject, session, call) if counted.reported else {}
    found = {own[index]: one for index, one in counted.sampled.items() if index in own}
    path = str(Path(subject.root) / subject.file)
    for index, reported in counted.reported.items():
        if index in own:
            lines = _aligned(reported, placed.get(own[index], []))
            found[own[index]] = (
                counters_of(reported, placed=lines) if lines else counters_of(reported, file=_file(reported, path))
            )
    return found


async def _places(subject: Subject, session: Session, call: Call) -> dict[str, list[tuple[str, int | None]]]:
    """Return, by launch id, mnemonic and line of every instruction, with inlining chains that a report lacks."""
    kernel = subject.kernel
    try:
        result = await session.worker.run(
            Compile(subject.program(), call, session.arch, (kernel.name,), ("ttir", "sass"))
        )
    except JobError:
        return {}
    path = str(Path(subject.root) / subject.file)
    return {
        to_launch(kernel, one.launch, call=call.id).id: instruction_lines(
            one.artefacts.get("sass", ""),
            path,
            callers=inlined_callers(one.artefacts.get("ttir", ""), path),
            default_line=kernel.range.start.line,
        )
        for one in result.launches
        if one.error is None
    }


def _aligned(reported: ReportedLaunch, placed: Sequence[tuple[str, int | None]]) -> list[int | None] | None:
    """Return the line of each reported instruction; None when the compilation is of other code than what ran."""
    lines: list[int | None] = []
    for one in reported.instructions:
        index = one.address // INSTRUCTION_BYTES
        if index >= len(placed) or split(one.sass)[0] != placed[index][0]:
            return None
        lines.append(placed[index][1])
    return lines


def _file(reported: ReportedLaunch, path: str) -> str | None:
    """Return the user's file as the report names it, where the target has the files in the same place."""
    return path if any(one.file == path for one in reported.instructions) else None
