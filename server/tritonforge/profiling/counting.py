"""Counting a call's launches on a worker: the job, and what its answer says in our names."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tritonforge.domain.counters import Counters
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Count, CountResult, Limits, Program
from tritonforge.jobs import Worker
from tritonforge.profiling.nsight import ReportedLaunch, ReportError, read_report
from tritonforge.profiling.nsight.isolated import has_module
from tritonforge.profiling.nsight.pages import parse_pages
from tritonforge.profiling.sampling import counters_by_launch

_SLACK_S = 60.0


@dataclass(frozen=True)
class Counted:
    """The launches of one call that were counted: with `reported` under Nsight Compute, with `sampled` by Proton.

    `refused` is a sentence with its mend where nothing was counted; `lasting` says that another try will end alike.
    """

    launches: tuple[RecordedLaunch, ...] = ()
    reported: Mapping[int, ReportedLaunch] = field(default_factory=dict)
    sampled: Mapping[int, Counters] = field(default_factory=dict)
    tool: str = ""
    refused: str = ""
    lasting: bool = False


async def count(
    worker: Worker,
    program: Program,
    call: Call,
    *,
    kernel: str,
    level: Literal["ncu", "pcsampling"],
    budget_s: float = 120.0,
) -> Counted:
    """Have the worker repeat the launches of `kernel` that `call` makes under a profiler, and read what it brings.

    Raises:
        JobError: when the program itself fails.
    """
    pages = level == "ncu" and not await asyncio.to_thread(has_module)
    request = Count(program, call, (kernel,), level, pages=pages, budget_s=budget_s)
    limits = Limits(seconds=budget_s + _SLACK_S, memory_bytes=64 << 30)
    result = await worker.run(request, limits=limits)
    if result.report and not result.pages and not result.refused:
        counted = await asyncio.to_thread(_read, result, level)
        if not counted.refused:
            return counted
        # The module here does not get along with the target's reports: its own pages hold the same numbers.
        result = await worker.run(replace(request, pages=True), limits=limits)
    if result.refused:
        return Counted(tool=result.tool, refused=f"{result.refused} {result.mend}".strip(), lasting=result.lasting)
    return await asyncio.to_thread(_read, result, level)


def _read(result: CountResult, level: str) -> Counted:
    if level == "pcsampling":
        names = [launch.kernel.rpartition(".")[2] for launch in result.launches]
        files = [launch.kernel_file for launch in result.launches]
        found = counters_by_launch(result.samples, names, file_of=files)
        sampled = {index: one for index, one in enumerate(found) if one is not None}
        refused = "" if sampled else "Proton brought no samples of the launches."
        return Counted(result.launches, sampled=sampled, tool=result.tool, refused=refused)
    try:
        launches = _launches(result)
    except ReportError as error:
        return Counted(result.launches, tool=result.tool, refused=str(error))
    reported = _paired(result.launches, launches)
    refused = "" if reported else "The report holds none of the launches that were profiled."
    return Counted(result.launches, reported, tool=result.tool, refused=refused)


def _launches(result: CountResult) -> tuple[ReportedLaunch, ...]:
    if result.pages:
        return parse_pages(*(result.pages.get(page, "") for page in ("raw", "sass", "lines")))
    with tempfile.TemporaryDirectory(prefix="tritonforge-report-") as folder:
        path = Path(folder) / "counted.ncu-rep"
        path.write_bytes(result.report)
        return read_report(path)


def _paired(recorded: tuple[RecordedLaunch, ...], reported: tuple[ReportedLaunch, ...]) -> dict[int, ReportedLaunch]:
    """Match launches by their order; where something else was profiled between them, by grid and name besides."""
    if len(recorded) == len(reported) and all(a.grid == b.grid for a, b in zip(recorded, reported, strict=True)):
        return dict(enumerate(reported))
    out: dict[int, ReportedLaunch] = {}
    rest = list(reported)
    for index, launch in enumerate(recorded):
        name = launch.kernel.rpartition(".")[2]
        for place, one in enumerate(rest):
            if one.grid == launch.grid and one.name.startswith(name):
                out[index] = one
                del rest[: place + 1]
                break
    return out
