"""Examine a target by using it: start a worker, compile, interpret, look for a GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tritonforge.config import Settings, resolve_target
from tritonforge.diagnosis.doctor_measuring import measuring_checks, reading_check
from tritonforge.diagnosis.doctor_reaching import reaching_checks
from tritonforge.diagnosis.probe import LARGE, SMALL, probe_program
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, Compile, Limits, Program
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import DoctorCheck, DoctorResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.store import Store

OLDEST, NEWEST = (3, 2), (3, 9)
"""The Triton versions that this tool is written for (tested with 3.6 and 3.7)."""
_LIMITS = Limits(seconds=60.0)
_REINSTALL = "Install torch and triton anew in the target's interpreter, in versions that belong together."


async def examine(
    settings: Settings, name: str | None = None, store: Store | None = None, *, python: str | None = None
) -> DoctorResult:
    """Return what works on the target called `name` (default: the configured one).

    What it finds out about counters is remembered in `store`, in place of what an earlier try found. `python` is the
    interpreter to use where the target names none.

    Raises:
        UsageError: when no such target is configured.
    """
    target = resolve_target(settings, name)
    checks: list[DoctorCheck] = []
    info = TargetInfo(target.name, "unknown", None, None, None, None)
    if target.command:
        checks += await reaching_checks(target)
        if not all(check.ok or check.optional for check in checks):
            return DoctorResult(info, tuple(checks))
    try:
        async with open_session(settings, name, python=python) as session:
            info = session.info
            checks += _environment(session)
            with tempfile.TemporaryDirectory(prefix="tritonforge-doctor-") as folder:
                program = probe_program(Path(folder))
                checks += [await _compiles(session, program, SMALL), await _interprets(session, program, SMALL)]
                checks.append(_gpu(session))
                if session.measures:
                    checks += await measuring_checks(session, program, LARGE, store)
            checks.append(reading_check())
    except TritonForgeError as error:
        checks.append(DoctorCheck("worker", ok=False, detail=error.message, mend=error.mend))
    return DoctorResult(info, tuple(checks))


def _environment(session: Session) -> list[DoctorCheck]:
    described = session.described
    version = tuple(int(part[:6]) for part in (described.triton or "0.0").split(".")[:2] if part[:6].isdecimal())
    known = OLDEST <= version <= NEWEST
    return [
        DoctorCheck("worker", ok=True, detail=f"Python {described.python} at {described.executable}"),
        DoctorCheck("torch", ok=True, detail=str(described.torch)),
        DoctorCheck(
            "triton",
            ok=known,
            detail=str(described.triton),
            mend="" if known else f"Use a Triton from {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}.",
        ),
        *(
            DoctorCheck("problem", ok=False, detail=problem, mend="See whether other programs there can use it.")
            for problem in described.problems
        ),
    ]


async def _compiles(session: Session, program: Program, call: Call) -> DoctorCheck:
    name = f"compile for {session.arch}"
    try:
        result = await session.worker.run(Compile(program, call, session.arch), limits=_LIMITS)
    except JobError as error:
        return DoctorCheck(
            name, ok=False, detail=error.failure.message, mend="" if error.kind == "environment" else _REINSTALL
        )
    (launch,) = result.launches
    if launch.error:
        return DoctorCheck(name, ok=False, detail=launch.error, mend="Choose an arch that this Triton compiles for.")
    return DoctorCheck(name, ok=True, detail=f"{launch.compile_ms:.0f} ms")


async def _interprets(session: Session, program: Program, call: Call) -> DoctorCheck:
    try:
        result = await session.worker.run(Compare(program, program, (call,)), limits=_LIMITS)
    except JobError as error:
        return DoctorCheck("verify in the interpreter", ok=False, detail=error.failure.message, mend=_REINSTALL)
    (outcome,) = result.outcomes
    equal = outcome.status == "equal"
    return DoctorCheck(
        "verify in the interpreter",
        ok=equal,
        detail=outcome.detail or f"{outcome.seconds:.2f} s",
        mend="" if equal else _REINSTALL,
    )


def _gpu(session: Session) -> DoctorCheck:
    gpu = session.gpu
    if gpu is not None:
        return DoctorCheck("gpu", ok=True, detail=f"{gpu.name}, {gpu.arch}, driver {gpu.driver}")
    # A target that compiles for another machine's architecture is whole without a GPU.
    return DoctorCheck("gpu", ok=True, detail="none: times are predicted, not measured")
