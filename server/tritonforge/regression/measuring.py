"""Repeated runs of many kernels, round about, so that what drifts on a machine is in the spread of every kernel."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.baseline import GpuState, Runs
from tritonforge.domain.messages import LookAtGpu
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.profiling.measuring import measure
from tritonforge.regression.machine import busy
from tritonforge.regression.subjects import Checked, RecordedVersion
from tritonforge.workload.launches import problem_id, to_launch

BASELINE_RUNS = 5
RUNS = 3
SAMPLES = 30
_BUDGET_S = 6.0
_PATIENCE = 3
_WAIT_S = 4.0


@dataclass
class Times:
    """What was measured of some kernels: runs by scope and problem; errors by scope; the GPU's state afterwards."""

    runs: dict[tuple[tuple[str, str], str], list[float]] = field(default_factory=dict)
    samples: dict[tuple[tuple[str, str], str], int] = field(default_factory=dict)
    errors: dict[tuple[str, str], str] = field(default_factory=dict)
    state: GpuState | None = None
    busy: str = ""

    def of(self, one: Checked, problem: str) -> Runs | None:
        """Return the runs of one kernel on one problem; None when there are none."""
        key = one.scope, problem
        return Runs(tuple(self.runs[key]), self.samples[key]) if self.runs.get(key) else None

    def add(self, scope: tuple[str, str], problem: str, samples: Sequence[float]) -> None:
        """Take over one run."""
        self.runs.setdefault((scope, problem), []).append(statistics.median(samples))
        self.samples[scope, problem] = len(samples)


async def look(session: Session, *, idle: bool = False) -> GpuState | None:
    """Return how the GPU is; None where the target cannot tell."""
    with contextlib.suppress(JobError):
        return await session.worker.run(LookAtGpu(idle))
    return None


async def wait_until_idle(session: Session) -> str:
    """Wait a while for others to leave the GPU; returns who still uses it, empty when nobody does."""
    who = ""
    for _ in range(_PATIENCE):
        state = await look(session, idle=True)
        who = busy(state) if state is not None else ""
        if not who:
            return ""
        await asyncio.sleep(_WAIT_S)
    return who


async def measure_all(
    kernels: Sequence[Checked], session: Session, *, runs: int, on_step: Callable[[str], object] = lambda _: None
) -> Times:
    """Measure every kernel `runs` times, one round of all kernels after the other."""
    times = Times(busy=await wait_until_idle(session))
    for number in range(runs):
        for one in kernels:
            if one.scope in times.errors:
                continue
            on_step(f"measuring {one.kernel.name}, run {number + 1} of {runs} …")
            try:
                (samples,), _ = await measure(
                    session.worker,
                    [one.subject.program()],
                    one.subject.calls,
                    kernel=one.kernel.name,
                    identify=one.problem_of,
                    samples=SAMPLES,
                    budget_s=_BUDGET_S,
                )
            except JobError as error:
                times.errors[one.scope] = error.failure.message
                continue
            if samples.error:
                times.errors[one.scope] = samples.error
                continue
            for problem, row in samples.by_launch.items():
                times.add(one.scope, problem, row)
        times.state = await look(session)
    return times


@dataclass(frozen=True)
class Pair:
    """Runs of the recorded version and of the present one, made side by side, by problem; or why there are none."""

    before: dict[str, Runs] = field(default_factory=dict)
    after: dict[str, Runs] = field(default_factory=dict)
    error: str = ""


async def measure_pair(one: Checked, recorded: RecordedVersion, session: Session, *, runs: int) -> Pair:
    """Measure the recorded version and the present one in the same rounds, `runs` times.

    Whatever the machine does, it does to both: a difference is the code's.
    """
    old = recorded.kernel
    before, after = Times(), Times()
    for _ in range(runs):
        try:
            (first, second), _ = await measure(
                session.worker,
                [recorded.program, one.subject.program()],
                one.subject.calls,
                kernel=old.name,
                identify=lambda launch: problem_id(old, to_launch(old, launch).problem),
                samples=SAMPLES,
                budget_s=_BUDGET_S,
            )
        except JobError as error:
            return Pair(error=error.failure.message)
        if first.error or second.error:
            return Pair(error=first.error or second.error or "")
        for problem in first.by_launch.keys() & second.by_launch.keys():
            before.add(one.scope, problem, first.by_launch[problem])
            after.add(one.scope, problem, second.by_launch[problem])
    problems = [problem for _, problem in before.runs]
    return Pair(
        {each: found for each in problems if (found := before.of(one, each)) is not None},
        {each: found for each in problems if (found := after.of(one, each)) is not None},
    )
