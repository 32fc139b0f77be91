"""A whole program's Triton kernels by share of GPU time, each with its bottleneck and its headroom."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.analysis.definitions import definitions_only
from tritonforge.analysis.states import MAIN, MODULE
from tritonforge.analysis.text import decode_source
from tritonforge.diagnosis.assessment import Assessed, Yardstick, assess, with_time
from tritonforge.diagnosis.program_shares import Shares, Taken
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.messages import Program
from tritonforge.domain.profile import TimeDistribution
from tritonforge.domain.program import ProgramResult, RankedKernel
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.workload.launches import distinct, to_launch
from tritonforge.workload.program_launches import SeenLaunch, direct_call
from tritonforge.workload.tracing_program import TracedProgram

LEAST_SHARE = 0.01
"""Kernels below this share of the time are listed, but not judged: nothing is to be gained there."""
MOST_JUDGED = 16
_LAUNCHES_JUDGED = 4
_LAUNCHES_PREDICTED = 8
_ENOUGH = 0.95
"""Of a kernel's launches those are compiled that make up this share of its time."""
_TRIALS = 1.2
"""A kernel that ran that much more often than it was launched ran in trials or replays as well."""
_BEYOND = 1.15
"""A floor that much above the measured time is wrong: the kernel reads only a part of its tensors."""
_SMALLEST_US = 1.0
"""About what an empty kernel takes on the device."""

_WHOLE_PROGRAMS = (MAIN, MODULE)
"""Calls that run a program again from its start: a run of training is not repeated to see one launch of it."""

_JIT = re.compile(r"(?:\w+\.)*jit\b")
_TUNING = re.compile(r"(?:\w+\.)*(?:autotune|heuristics)\b")


@dataclass(frozen=True)
class _Judged:
    """One launch with the share of its kernel's time that it stands for, in µs."""

    time_us: float
    assessed: Assessed


async def rank(
    shares: Shares,
    root: str,
    session: Session | None,
    judge: Yardstick | None,
    *,
    on_kernel: Callable[[str], None] | None = None,
) -> tuple[tuple[RankedKernel, ...], tuple[str, ...]]:
    """Judge the kernels that took the time, and rank all of them by share.

    Args:
        shares: who took how much.
        root: the workspace root.
        session: where kernels are compiled; None leaves classes and headroom out.
        judge: the GPU whose ceilings give each kernel's floor.
        on_kernel: told the name of each kernel that has been judged.

    Returns:
        The kernels, the largest share first, and sentences about what is missing. With no measured time the shares are
        of predicted time, of all kernels that could be compiled.
    """
    predicted = shares.clock == "predicted"

    async def row_of(place: int, taken: Taken) -> RankedKernel:
        share = taken.time_us / shares.total_us if shares.total_us else 0.0
        row = _row(taken, share)
        worth = predicted or (share >= LEAST_SHARE and place < MOST_JUDGED)
        if not worth or session is None or row.kernel is None:
            return row
        judged, reason = await _judge(taken, row.kernel, root, session, judge, predicted=predicted)
        if on_kernel:
            on_kernel(taken.name)
        return _with_judgement(row, judged, reason, predicted=predicted)

    # All at once: the worker has a lane for each core, and a queue.
    ranked = list(await asyncio.gather(*(row_of(place, taken) for place, taken in enumerate(shares.triton))))
    missing: list[str] = []
    if predicted:
        ranked, unknown = _shared_out(ranked)
        missing += [f"times of {_listed(unknown)}: could not be compiled, so not predicted either"] if unknown else []
    missing += _unjudged(ranked)
    return tuple(_with_gain(row) for row in ranked), tuple(missing)


def _unjudged(ranked: Sequence[RankedKernel]) -> list[str]:
    """Say why classes are missing: each reason once, with the largest of the kernels that it holds for."""
    names: dict[str, list[str]] = {}
    for row in ranked:
        if row.headroom_note and row.bottleneck is None and row.share >= LEAST_SHARE:
            names.setdefault(row.headroom_note, []).append(row.name)
    return [f"class of {_listed(of)}: {reason}" for reason, of in names.items()]


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _row(taken: Taken, share: float) -> RankedKernel:
    seen = taken.seen
    kernel = seen.kernel if seen is not None else None
    place = taken.place or (f"{seen.file}:{seen.line}" if seen is not None else "")
    launches: tuple[Launch, ...] = ()
    if kernel is not None and seen is not None:
        launches = distinct(
            dataclasses.replace(to_launch(kernel, one.launch, count=one.count), time_us=one.typical_us)
            for one in seen.launches
        )
    return RankedKernel(
        name=taken.name,
        share=share,
        time_us=taken.time_us,
        count=taken.count,
        kernel=kernel,
        place=place,
        launches=launches,
        headroom_note="" if kernel is not None else taken.place or (seen.why if seen is not None else ""),
        in_workspace=seen is not None and _is_own(seen.file),
    )


def _is_own(file: str) -> bool:
    return not Path(file).is_absolute() and not {"site-packages", "dist-packages"} & set(Path(file).parts)


async def _judge(
    taken: Taken, kernel: Kernel, root: str, session: Session, judge: Yardstick | None, *, predicted: bool
) -> tuple[list[_Judged], str]:
    """Compile the launches that matter; a reason when none of them could be."""
    assert taken.seen is not None
    chosen = _commonest(taken.seen.launches) if predicted else _largest(taken.seen.launches)
    outcomes = await asyncio.gather(*(_assess(one, kernel, root, session, judge) for one in chosen))
    reason = next((said for _, said in outcomes if said), "")
    pairs = [(one, assessed) for one, (assessed, _) in zip(chosen, outcomes, strict=True) if assessed is not None]
    if predicted:
        usable = [(one, assessed, assessed.prediction) for one, assessed in pairs if assessed.prediction]
        stands_for = taken.seen.count / (sum(one.count for one, _, _ in usable) or 1)
        return [
            _Judged(prediction.time_us * one.count * stands_for, assessed) for one, assessed, prediction in usable
        ], reason
    weights = [_weight(one, assessed) for one, assessed in pairs]
    whole = (
        sum(_weight(one, None) for one in taken.seen.launches) if _all_sampled(taken.seen.launches) else sum(weights)
    )
    # An autotuner's trials count among a kernel's runs, but their times say nothing about the launches that it chose.
    trials = taken.count > _TRIALS * max(taken.seen.count, 1) and _all_sampled(taken.seen.launches)
    judged: list[_Judged] = []
    for (one, assessed), weight in zip(pairs, weights, strict=True):
        time_us = taken.time_us * weight / whole if whole else 0.0
        runs = max(1.0, taken.count * one.count / max(taken.seen.count, 1))
        mean = one.typical_us if trials and one.typical_us else time_us / runs
        timed = with_time(assessed, TimeDistribution(mean, (mean, mean), round(runs)), judge) if mean else assessed
        judged.append(_Judged(time_us, timed))
    return judged, reason


def _commonest(launches: Sequence[SeenLaunch]) -> list[SeenLaunch]:
    return sorted(launches, key=lambda one: -one.count)[:_LAUNCHES_PREDICTED]


def _all_sampled(launches: Sequence[SeenLaunch]) -> bool:
    return all(one.typical_us for one in launches)


def _weight(one: SeenLaunch, assessed: Assessed | None) -> float:
    """How a launch counts among its kernel's: sampled time, else predicted time, times its count."""
    if one.sampled_us:
        return one.sampled_us
    predicted = assessed.prediction.time_us if assessed is not None and assessed.prediction else 1.0
    return predicted * one.count


def _largest(launches: Sequence[SeenLaunch]) -> list[SeenLaunch]:
    """The launches that together make up most of the time, the largest first."""
    ordered = sorted(launches, key=lambda one: -_weight(one, None))
    whole = sum(_weight(one, None) for one in ordered)
    chosen: list[SeenLaunch] = []
    reached = 0.0
    for one in ordered[:_LAUNCHES_JUDGED]:
        if chosen and reached >= _ENOUGH * whole:
            break
        chosen.append(one)
        reached += _weight(one, None)
    return chosen


async def _assess(
    seen: SeenLaunch, kernel: Kernel, root: str, session: Session, judge: Yardstick | None
) -> tuple[Assessed | None, str]:
    """Compile one launch: the kernel by itself, which is quick, else through the host function that was recorded."""
    direct = direct_call(seen.launch, layers=_layers(kernel))
    attempts = [] if direct is None else [(_loadable(root, kernel), direct)]
    if seen.call is not None and seen.call.function not in _WHOLE_PROGRAMS:
        attempts.append((Program(root, seen.call.file), seen.call))
    reason = "an argument of its launch cannot be rebuilt"
    wanted = to_launch(kernel, seen.launch).id
    for program, call in attempts:
        try:
            found = await assess(session, program, kernel, (call,), judge)
        except JobError as error:
            reason = error.failure.message.rstrip(".")
            continue
        if found:
            one = next((one for one in found if one.launch.id == wanted), found[0])
            return one, one.compilation.error or ""
        reason = "it cannot be launched by itself"
    return None, reason


def _loadable(root: str, kernel: Kernel) -> Program:
    """Return the kernel's file as it can be loaded: a script that launches at module level must not run again."""
    try:
        data = (Path(root) / kernel.file).read_bytes()
    except OSError:
        return Program(root, kernel.file)
    runs = any(entry.kind == "module" for entry in analyze(data, kernel.file).entries)
    quiet = definitions_only(decode_source(data)[0]) if runs else None
    return Program(root, kernel.file, ((kernel.file, quiet),) if quiet is not None else ())


def _layers(kernel: Kernel) -> int:
    """How many decorators stand above the one that makes it a kernel; each keeps what it wraps as its `fn`."""
    for above, decorator in enumerate(kernel.decorators):
        if _JIT.match(decorator):
            return above
    return sum(bool(_TUNING.match(decorator)) for decorator in kernel.decorators)


def _with_judgement(row: RankedKernel, judged: list[_Judged], reason: str, *, predicted: bool) -> RankedKernel:
    if not judged:
        return dataclasses.replace(row, headroom_note=reason or "none of its launches could be compiled")
    largest = max(judged, key=lambda one: one.time_us)
    time_us = sum(one.time_us for one in judged)
    headroom, note = _headroom(judged)
    return dataclasses.replace(
        row,
        time_us=time_us if predicted else row.time_us,
        bottleneck=largest.assessed.bottleneck,
        headroom=headroom,
        headroom_note=note,
    )


def _headroom(judged: Sequence[_Judged]) -> tuple[float | None, str]:
    """Return time / floor over the launches that were judged: how much faster the kernel could be at most.

    The floor of a launch is what its bytes and FLOPs take at the ceilings (Williams, Waterman and Patterson, 2009), but
    no less than an empty kernel takes.
    """
    time_us = floor_us = 0.0
    for one in judged:
        place = one.assessed.roofline
        if place is None or place.fraction is None:
            return None, "no ceilings are known"
        time_us += one.time_us
        mean_us = (one.assessed.launch.time_us or 0.0) or _predicted_us(one.assessed)
        least = _SMALLEST_US / mean_us if mean_us > _SMALLEST_US else 1.0
        floor_us += one.time_us * max(place.fraction, least)
    if floor_us <= 0 or time_us <= 0:
        return None, "its launches move no bytes that are known"
    if floor_us > _BEYOND * time_us:
        return None, "it runs above its roofline, so it uses only a part of its tensors or a cache"
    return max(1.0, time_us / floor_us), ""


def _predicted_us(assessed: Assessed) -> float:
    return assessed.prediction.time_us if assessed.prediction is not None else 0.0


def _shared_out(rows: Sequence[RankedKernel]) -> tuple[list[RankedKernel], list[str]]:
    """Give predicted times their shares of each other."""
    whole = sum(row.time_us for row in rows)
    shared = [dataclasses.replace(row, share=row.time_us / whole if whole else 0.0) for row in rows]
    return sorted(shared, key=lambda row: (-row.time_us, row.name)), [row.name for row in rows if not row.time_us]


def _with_gain(row: RankedKernel) -> RankedKernel:
    """Amdahl's law: the whole against the whole without what this kernel takes above its floor."""
    if row.headroom is None:
        return row
    return dataclasses.replace(row, program_gain=1.0 / (1.0 - row.share * (1.0 - 1.0 / row.headroom)))


def conclude(
    command: Sequence[str],
    program: TracedProgram,
    shares: Shares,
    ranked: tuple[tuple[RankedKernel, ...], Sequence[str]],
    *,
    judge: Yardstick | None = None,
) -> ProgramResult:
    """Put the ranking together with what is known of the whole run."""
    kernels, missing = ranked
    counted = shares.clock == "cupti"
    gpus = program.times.gpus or tuple(dict.fromkeys(p.gpu for p in program.traced.trace.processes if p.gpu))
    said = [*shares.missing, *missing, *program.failures]
    if shares.clock == "predicted" and shares.triton:
        pretended = "the program ran on no GPU, where CUDA is pretended and no kernel computes anything"
        why = "nothing was timed before the program ended" if gpus else pretended
        said.insert(0, f"times: {why}, so they are predicted")
    elif judge is not None and gpus and judge.ceilings.gpu != gpus[0]:
        said.append(f"headroom: by the ceilings of {judge.ceilings.gpu}, but the program ran on {gpus[0]}")
    return ProgramResult(
        command=tuple(command),
        exit_code=program.traced.exit_code,
        wall_s=program.wall_s,
        clock=shares.clock,
        gpu=gpus[0] if gpus else None,
        gpu_time_us=shares.total_us,
        triton_share=shares.triton_us / shares.total_us if counted and shares.total_us else None,
        other_share=1 - shares.triton_us / shares.total_us if counted and shares.total_us else None,
        kernels=kernels,
        other=shares.other,
        missing=tuple(dict.fromkeys(said)),
        processes=program.times.processes,
        predicted_for=judge.spec.name if judge is not None and shares.clock == "predicted" else None,
    )
