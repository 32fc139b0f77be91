"""From calls to assessed launches: compile, predict, place under the roofline, name the bottleneck."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tritonforge.compilation import read, waves
from tritonforge.diagnosis.case import Case, Gpu
from tritonforge.diagnosis.classify import classify
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.heat import heat_of
from tritonforge.domain.compilation import Compilation, Prediction
from tritonforge.domain.counters import Counters
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Launch, RecordedLaunch
from tritonforge.domain.messages import Compile, CompileResult, Program
from tritonforge.domain.profile import Ceilings, Roofline, TimeDistribution
from tritonforge.domain.results import Assessment
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of
from tritonforge.prediction import GpuSpec, footprint_of, gpu_for, predict, unique_bytes
from tritonforge.profiling.roofline import roofline
from tritonforge.workload.launches import Weights, distinct, matches

T = TypeVar("T")


@dataclass(frozen=True)
class Assessed:
    """One distinct launch of a kernel with everything concluded about it without running it.

    `recorded` is the launch as the worker described it; `ordinal` its place among the kernel's launches in its call.
    """

    launch: Launch
    recorded: RecordedLaunch
    compilation: Compilation
    prediction: Prediction | None
    roofline: Roofline | None
    bottleneck: Bottleneck | None
    case: Case
    ordinal: int = 0

    @property
    def assessment(self) -> Assessment:
        """The parts that results carry."""
        predicted = dataclasses.replace(self.case, counters=None)
        gpu, occupancy = self.case.gpu, self.compilation.occupancy
        filled = waves(self.launch.programs, occupancy.programs_per_sm, gpu.sms) if gpu and occupancy else None
        return Assessment(self.compilation, self.prediction, self.bottleneck, heat_of(predicted).lines, filled)


@dataclass(frozen=True)
class Yardstick:
    """The GPU that predictions and ceilings speak of."""

    spec: GpuSpec
    ceilings: Ceilings

    @property
    def gpu(self) -> Gpu:
        """What rules must know of it."""
        return Gpu(self.spec.sms, self.ceilings)


def yardstick(session: Session, arch: str | None = None, ceilings: Ceilings | None = None) -> Yardstick | None:
    """Choose the GPU to judge by: the session's own, with measured ceilings where given, else public figures.

    None for an architecture of which no GPU's figures are known: it can be compiled for, but nothing is predicted.
    """
    spec = gpu_for(arch or session.arch, session.gpu.name if session.gpu else session.target.gpu)
    return Yardstick(spec, ceilings or spec.ceilings) if spec else None


async def assess(
    session: Session,
    program: Program,
    kernel: Kernel,
    calls: Sequence[Call],
    judge: Yardstick | None,
    *,
    arch: str | None = None,
    pinned: Sequence[str] = (),
    earlier: CompiledCalls | None = None,
    turn: int = 0,
) -> tuple[Assessed, ...]:
    """Compile every launch of `kernel` that `calls` make and conclude what can be concluded without a GPU.

    `pinned` names the launch that ranks first, as `distinct` takes it. What `earlier` holds is not compiled again.
    `turn`: which of its configurations an autotuner uses, as in `Compile`.

    Raises:
        JobError: when a call cannot be repeated (the user's code raises, a limit is passed).
    """
    weights = Weights(kernel, calls)
    compiler = _Compiler(session, program, kernel, arch or session.arch, weights, earlier, turn)
    compiled = await all_of(compiler.launches(call) for call in calls)
    recorded = [
        (weights.launch(launch, call), launch, compilation, ordinal)
        for call, launches in zip(calls, compiled, strict=True)
        for ordinal, (launch, compilation) in enumerate(launches)
    ]
    first = {launch.id: (made, found, ordinal) for launch, made, found, ordinal in reversed(recorded)}
    launches = distinct(launch for launch, *_ in recorded)
    return ranked(
        [_conclude(launch, *first[launch.id], kernel=kernel, judge=judge) for launch in launches], kernel, pinned
    )


@dataclass(frozen=True)
class _Compiler:
    """Compiles the launches of one kernel for one architecture, or finds them as they were compiled earlier."""

    session: Session
    program: Program
    kernel: Kernel
    arch: str
    weights: Weights
    earlier: CompiledCalls | None
    turn: int

    async def launches(self, call: Call) -> Sequence[tuple[RecordedLaunch, Compilation]]:
        """Return the launches of the kernel that `call` makes, each with what the compiler made of it.

        Raises:
            JobError: when the call cannot be repeated.
        """
        key = self.earlier.key(self.program, self.kernel, call, self.arch) if self.earlier is not None else ""
        key += f"-{self.turn}" if self.turn else ""
        if self.earlier is not None and (found := self.earlier.find(key, self.kernel)) is not None:
            return found
        # The qualified name, not the simple one: two classes may each have a kernel of one name.
        request = Compile(self.program, call, self.arch, (self.kernel.name,), turn=self.turn)
        result = await self.session.worker.run(request)
        # Beside the event loop: the answer to the next job is waiting there.
        launches = await asyncio.to_thread(self._read, result, call)
        # A failure may be a passing one: no room on the disk, no memory.
        if self.earlier is not None and all(compilation.error is None for _, compilation in launches):
            self.earlier.keep(key, self.kernel, result.sources, launches)
        return launches

    def _read(self, result: CompileResult, call: Call) -> list[tuple[RecordedLaunch, Compilation]]:
        path = str(Path(self.program.root) / self.program.file)
        return [
            (
                one.launch,
                read(
                    one,
                    launch_id=self.weights.launch(one.launch, call).id,
                    kernel_file_path=path,
                    source_range=self.kernel.range,
                ),
            )
            for one in result.launches
            if matches(self.kernel, one.launch)
        ]


def ranked(assessed: Sequence[Assessed], kernel: Kernel, pinned: Sequence[str] = ()) -> tuple[Assessed, ...]:
    """Return `assessed` with ranks by time × count, the pinned launch first; times as measured, else as predicted."""

    def timed(one: Assessed) -> Launch:
        measured = one.case.time.median if one.case.time else one.launch.time_us
        return dataclasses.replace(one.launch, time_us=measured or one.case.time_us)

    ranks = {launch.id: launch.rank for launch in distinct(map(timed, assessed), pinned=pinned, kernel=kernel)}

    def place(one: Assessed) -> Assessed:
        launch = dataclasses.replace(one.launch, rank=ranks[one.launch.id])
        return dataclasses.replace(one, launch=launch, case=dataclasses.replace(one.case, launch=launch))

    return tuple(map(place, assessed))


def _conclude(
    launch: Launch,
    recorded: RecordedLaunch,
    compilation: Compilation,
    ordinal: int,
    *,
    kernel: Kernel,
    judge: Yardstick | None,
) -> Assessed:
    prediction = place = bottleneck = None
    case = Case(kernel, launch, compilation, gpu=judge.gpu if judge else None)
    if compilation.error is None and judge is not None:
        useful = unique_bytes(launch)
        prediction = predict(compilation, footprint_of(launch), judge.spec, judge.ceilings)
        place = roofline(
            useful_bytes=useful,
            flops=compilation.work.total("dot_flops") * launch.programs if compilation.work else 0.0,
            dtype=compilation.work.dot_dtype if compilation.work else None,
            time_us=prediction.time_us if prediction else None,
            ceilings=judge.ceilings,
        )
        case = dataclasses.replace(case, prediction=prediction)
    if compilation.error is None:
        bottleneck = classify(case)
    return Assessed(launch, recorded, compilation, prediction, place, bottleneck, case, ordinal)


def with_time(assessed: Assessed, time: TimeDistribution, judge: Yardstick | None) -> Assessed:
    """Return `assessed` with a measured time, its place under the roofline, and the bottleneck judged anew."""
    place = assessed.roofline
    if place is not None and judge is not None:
        work = assessed.compilation.work
        place = roofline(
            useful_bytes=place.bytes,
            flops=place.flops,
            dtype=work.dot_dtype if work else None,
            time_us=time.median,
            ceilings=judge.ceilings,
        )
    launch = dataclasses.replace(assessed.launch, time_us=time.median)
    case = dataclasses.replace(assessed.case, launch=launch, time=time, roofline=place)
    return dataclasses.replace(assessed, launch=launch, roofline=place, case=case, bottleneck=classify(case))


def with_counters(assessed: Assessed, counters: Counters) -> Assessed:
    """Return `assessed` with what the hardware counted, and the bottleneck judged anew.

    Counters are of a launch under a profiler: its time never stands in for one that was measured without.
    """
    case = dataclasses.replace(assessed.case, counters=counters)
    return dataclasses.replace(assessed, case=case, bottleneck=classify(case))


def require_launches(assessed: Sequence[Assessed], kernel: Kernel, calls: Sequence[Call]) -> None:
    """Check that the calls launch the kernel.

    Raises:
        NoLaunchKnown: when none does.
    """
    if not assessed:
        names = ", ".join(sorted({call.function for call in calls}))
        raise NoLaunchKnown(
            f"The known calls ({names}) do not launch {kernel.name}.", "Give a launch spec whose arguments reach it."
        )


def error_of(error: JobError, kernel: Kernel) -> str:
    """Return a job's failure as one sentence about `kernel`."""
    place = f" ({error.failure.file}:{error.failure.line})" if error.failure.file else ""
    return f"{kernel.name}: {error.failure.message}{place}"
