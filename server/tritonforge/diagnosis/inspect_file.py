"""What can be said of the kernels of a file without running them on a GPU: `analyze`."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.config import Settings
from tritonforge.diagnosis.assessment import Assessed, assess, error_of, yardstick
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.results import AnalyzedKernel
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.workload.gather import FileWorkload


def inspect_source(
    analysis: FileAnalysis, kernels: Sequence[Kernel], settings: Settings, *, note: str
) -> tuple[AnalyzedKernel, ...]:
    """Judge kernels by their source alone; `note` says why there is nothing more."""
    return tuple(
        AnalyzedKernel(kernel, launch_note=note, findings=wanted(diagnose(kernel), analysis.file, settings))
        for kernel in kernels
    )


async def inspect_compiled(
    workload: FileWorkload,
    kernels: Sequence[Kernel],
    session: Session,
    archs: Sequence[str],
) -> tuple[AnalyzedKernel, ...]:
    """Find each kernel's launches, compile them for every architecture, and judge what came out.

    Raises:
        UsageError: for a spec that cannot be read.
    """
    results = []
    for kernel in kernels:
        found = await workload.calls_of(kernel, session)
        assessed: list[Assessed] = []
        note = found.note
        try:
            for arch in archs if found.calls else ():
                subject = workload.subject(kernel, found.calls)
                assessed += await assess(
                    session,
                    subject.program(),
                    kernel,
                    found.calls,
                    yardstick(session, arch),
                    arch=arch,
                    pinned=subject.pinned,
                )
        except JobError as error:
            note = error_of(error, kernel)
        if found.calls and not assessed and not note:
            note = f"the known calls do not launch {kernel.name}"
        launches = {one.launch.id: one.launch for one in assessed}
        findings = diagnose(kernel, [one.case for one in assessed])
        results.append(
            AnalyzedKernel(
                kernel,
                tuple(launches.values()),
                "" if launches else note,
                tuple(one.assessment for one in assessed),
                wanted(findings, workload.analysis.file, workload.settings),
            )
        )
    return tuple(results)


def wanted(findings: Sequence[Finding], file: str, settings: Settings) -> tuple[Finding, ...]:
    """Keep the findings that the settings select for `file`."""
    return tuple(finding for finding in findings if settings.selects(finding.code, file))
