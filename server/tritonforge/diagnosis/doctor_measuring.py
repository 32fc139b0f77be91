"""The levels of measuring, each tried on the target with a small kernel: times, counters, samples, reports."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from tritonforge.diagnosis.counting import target_key
from tritonforge.domain.counters import CounterAccess, CounterLevel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Limits, Program, Time
from tritonforge.domain.results import DoctorCheck
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.profiling.counting import Counted, count
from tritonforge.profiling.nsight.finding import MEND, find_ncu
from tritonforge.profiling.nsight.isolated import has_module
from tritonforge.profiling.statistics import summarise
from tritonforge.store import Store

_LIMITS = Limits(seconds=90.0, memory_bytes=64 << 30)
_COUNT_S = 90.0
_NCU, _COUNTERS, _SAMPLING = "Nsight Compute", "hardware counters", "stall sampling"
_REPORTS = "Nsight reports"


async def measuring_checks(
    session: Session, program: Program, call: Call, store: Store | None = None
) -> list[DoctorCheck]:
    """Return the checks of a target with a GPU: times are needed, counters and samples are upgrades."""
    checks = [await _times(session, program, call)]
    counted = await _try(session, program, call, "ncu")
    sampled = await _try(session, program, call, "pcsampling")
    checks += [*_counters(counted), _samples(sampled)]
    if store is not None:
        refusals = {
            level: why
            for level, outcome in (("ncu", counted), ("pcsampling", sampled))
            if (why := outcome if isinstance(outcome, str) else outcome.refused)
        }
        best: CounterLevel = (
            "ncu" if "ncu" not in refusals else "pcsampling" if "pcsampling" not in refusals else "none"
        )
        store.put_counter_access(target_key(session), CounterAccess(best, refusals, time.time()))
    return checks


def reading_check() -> DoctorCheck:
    """Return whether reports that somebody made can be read here, on the machine of the command itself."""
    if has_module():
        return DoctorCheck(_REPORTS, ok=True, detail=f"read with {_version()}", optional=True)
    ncu = find_ncu()
    if ncu is not None:
        return DoctorCheck(_REPORTS, ok=True, detail=f"read with {ncu}", optional=True)
    return DoctorCheck(
        _REPORTS, ok=False, detail="neither ncu_report nor ncu is there to read one", mend=MEND, optional=True
    )


def _version() -> str:
    try:
        return f"ncu_report {version('ncu-report')}"
    except PackageNotFoundError:
        return "the ncu_report of an installed Nsight Compute"


async def _times(session: Session, program: Program, call: Call) -> DoctorCheck:
    try:
        result = await session.worker.run(Time((program,), call, samples=10, budget_s=5.0), limits=_LIMITS)
    except JobError as error:
        return DoctorCheck("times", ok=False, detail=error.message, mend="See whether other programs can use the GPU.")
    (timed,) = result.programs
    if timed.error or not timed.launches or not timed.launches[0].samples:
        return DoctorCheck("times", ok=False, detail=timed.error or "nothing was timed", mend="Report this.")
    clock = {"cupti": "the device's own record (CUPTI)", "events": "events on the stream"}[result.clock]
    return DoctorCheck("times", ok=True, detail=f"{summarise(timed.launches[0].samples).median:.1f} µs by {clock}")


async def _try(session: Session, program: Program, call: Call, level: Literal["ncu", "pcsampling"]) -> Counted | str:
    try:
        return await count(session.worker, program, call, kernel="probe", level=level, budget_s=_COUNT_S)
    except JobError as error:
        return error.message


def _counters(outcome: Counted | str) -> list[DoctorCheck]:
    if isinstance(outcome, str):
        return [DoctorCheck(_COUNTERS, ok=False, detail=outcome, mend="Report this.", optional=True)]
    if not outcome.tool:
        return [_refused(_NCU, outcome.refused)]
    found = DoctorCheck(_NCU, ok=True, detail=outcome.tool.removeprefix("Nsight Compute ") or "there", optional=True)
    if outcome.refused:
        return [found, _refused(_COUNTERS, outcome.refused)]
    metrics = len(next(iter(outcome.reported.values())).metrics)
    return [found, DoctorCheck(_COUNTERS, ok=True, detail=f"permitted: {metrics} metrics read", optional=True)]


def _samples(outcome: Counted | str) -> DoctorCheck:
    if isinstance(outcome, str):
        return DoctorCheck(_SAMPLING, ok=False, detail=outcome, mend="Report this.", optional=True)
    if outcome.refused:
        return _refused(_SAMPLING, outcome.refused)
    reasons = len(next(iter(outcome.sampled.values())).stalls)
    return DoctorCheck(_SAMPLING, ok=True, detail=f"works, with Proton: {reasons} stall reasons seen", optional=True)


def _refused(name: str, sentence: str) -> DoctorCheck:
    detail, stop, mend = sentence.partition(". ")
    return DoctorCheck(name, ok=False, detail=detail + stop.strip(), mend=mend or "Run with --verbose.", optional=True)
