"""`analyze` over many files at once: in parallel, each result told when it is there, one broken file for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tritonforge.config import Settings
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.inspect_file import inspect_kernel, inspect_source
from tritonforge.domain.errors import TargetUnreachable, TritonForgeError
from tritonforge.domain.kernel import Kernel, SourceError
from tritonforge.domain.results import AnalyzedKernel
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.specs import SpecError


@dataclass(frozen=True)
class Part:
    """The kernels of one file that are to be judged.

    `named`: the user named the file. A wrong launch spec of such a file is raised; elsewhere it costs its kernels their
    launches, and is told.
    """

    workload: FileWorkload
    kernels: tuple[Kernel, ...]
    named: bool


OnKernel = Callable[[int, int, AnalyzedKernel], None]
"""Called with the part's number, the kernel's number in it, and what was found."""


async def inspect_many(
    parts: Sequence[Part],
    session: Session,
    archs: Sequence[str],
    *,
    earlier: CompiledCalls | None,
    on_kernel: OnKernel,
    on_error: Callable[[SourceError], None],
    on_start: Callable[[Kernel], None] = lambda _kernel: None,
) -> None:
    """Judge every kernel of `parts`, as many at once as the target has lanes for and some more to keep them busy.

    Results are told by `on_kernel` in the order in which they come, so that whoever is interrupted has what was found.

    Raises:
        SpecError: for a wrong spec of a file that the user named.
        TargetUnreachable: when the worker ends.
    """
    room = asyncio.Semaphore(session.worker.hello.lanes + 2)
    alone = sum(len(part.kernels) for part in parts) == 1

    async def one(number: int, place: int, part: Part, kernel: Kernel) -> None:
        async with room:
            on_start(kernel)
            try:
                found = await inspect_kernel(part.workload, kernel, session, archs, earlier)
            except TargetUnreachable:
                raise
            except SpecError as error:
                if part.named:
                    raise
                on_error(SourceError(error.file, error.position.line, f"{error.reason} {error.mend}".strip()))
                note = f"its launch spec is wrong: {error}"
                (found,) = inspect_source(part.workload.analysis, (kernel,), part.workload.settings, note=note)
            except Exception as error:
                if alone or (isinstance(error, JobError) and error.kind == "environment"):  # so it is for all of them
                    raise
                on_error(SourceError(kernel.file, kernel.range.start.line, _failure(kernel, error)))
                return
            on_kernel(number, place, found)

    await all_of(
        one(number, place, part, kernel)
        for number, part in enumerate(parts)
        for place, kernel in enumerate(part.kernels)
    )


def from_source(parts: Sequence[Part], settings: Settings, *, note: str, on_kernel: OnKernel) -> None:
    """Judge every kernel of `parts` by its source alone; `note` says why there is nothing more."""
    for number, part in enumerate(parts):
        found = inspect_source(part.workload.analysis, part.kernels, settings, note=note)
        for place, one in enumerate(found):
            on_kernel(number, place, one)


def _failure(kernel: Kernel, error: Exception) -> str:
    if isinstance(error, TritonForgeError):
        return f"{kernel.name}: {error}"
    what = f"{type(error).__name__}: {error}"
    return f"{kernel.name} could not be judged, which is a bug in tritonforge ({what}). Analyze it alone for more."
