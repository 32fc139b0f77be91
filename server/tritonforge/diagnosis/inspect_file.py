"""What can be said of the kernels of a file without running them on a GPU: `analyze`."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.config import Settings
from tritonforge.diagnosis.assessment import Assessed, assess, error_of, yardstick
from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.diagnose import diagnose_all, lapsed
from tritonforge.diagnosis.watching import watched
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.finding import Finding
from tritonforge.domain.ignoring import Ignored
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.results import AnalyzedKernel, Assessment
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of
from tritonforge.workload.gather import FileWorkload


def inspect_source(
    analysis: FileAnalysis, kernels: Sequence[Kernel], settings: Settings, *, note: str
) -> tuple[AnalyzedKernel, ...]:
    """Judge kernels by their source alone; `note` says why there is nothing more."""
    out = []
    for kernel in kernels:
        shown, ignored = sorted_out(kernel, (), analysis.file, settings)
        out.append(AnalyzedKernel(kernel, launch_note=note, findings=shown, ignored=ignored, lapsed=lapsed(kernel)))
    return tuple(out)


async def inspect_kernel(
    workload: FileWorkload,
    kernel: Kernel,
    session: Session,
    archs: Sequence[str],
    earlier: CompiledCalls | None = None,
) -> AnalyzedKernel:
    """Find a kernel's launches, compile them for every architecture, and judge what came out.

    What `earlier` holds is not compiled again. A call that fails for one architecture costs the others nothing.

    Raises:
        UsageError: for a spec that cannot be read.
    """
    found = await workload.calls_of(kernel, session)
    assessed: list[Assessed] = []
    failed: dict[str, str] = {}
    if found.calls:
        subject = workload.subject(kernel, found.calls)

        async def assess_for(arch: str) -> tuple[Assessed, ...]:
            try:
                return await assess(
                    session,
                    subject.program(),
                    kernel,
                    found.calls,
                    yardstick(session, arch),
                    arch=arch,
                    pinned=subject.pinned,
                    earlier=earlier,
                )
            except JobError as error:
                if error.kind == "environment":  # nothing of the kernel's, and no other one fares better
                    raise
                failed[arch] = error_of(error, kernel)
                return ()

        assessed = [one for many in await all_of(map(assess_for, archs)) for one in many]
        assessed = list(await watched(session, subject.program(), kernel, found.calls, assessed, earlier=earlier))
    note = next(iter(failed.values()), found.note)
    if found.calls and not assessed and not note:
        note = f"the known calls do not launch {kernel.name}"
    launches = {one.launch.id: one.launch for one in assessed}
    by_arch = {one.compilation.arch: one.compilation for one in assessed}
    assessments = [one.assessment for one in assessed]
    if by_arch:
        like = next(iter(by_arch.values()))
        assessments += [
            Assessment(Compilation(launch, kernel.name, arch, like.triton, error=why))
            for arch, why in failed.items()
            for launch in launches
        ]
    shown, ignored = sorted_out(kernel, [one.case for one in assessed], workload.analysis.file, workload.settings)
    return AnalyzedKernel(
        kernel,
        tuple(launches.values()),
        "" if launches else note,
        tuple(assessments),
        shown,
        ignored,
        lapsed(kernel),
    )


def sorted_out(
    kernel: Kernel, cases: Sequence[Case], file: str, settings: Settings
) -> tuple[tuple[Finding, ...], tuple[Ignored, ...]]:
    """Return the findings that are wanted, and those that are ignored on purpose: by a comment, or by the settings."""
    found, ignored = diagnose_all(kernel, cases)
    silenced = [
        Ignored(finding, *why) for finding in found if (why := settings.silences(finding.code, file)) is not None
    ]
    return wanted(found, file, settings), (*ignored, *silenced)


def wanted(findings: Sequence[Finding], file: str, settings: Settings) -> tuple[Finding, ...]:
    """Keep the findings that the settings select for `file`."""
    return tuple(finding for finding in findings if settings.selects(finding.code, file))
