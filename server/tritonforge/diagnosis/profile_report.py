"""The profile of kernels from a Nsight Compute report that somebody has made: no GPU, no worker, nothing is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.classify import classify
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.diagnosis.heat import heat_of
from tritonforge.diagnosis.reported import (
    code_of,
    compilation_of,
    launch_of,
    library_callers,
    roofline_of,
    time_of,
    yardstick_of,
)
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.launch import Launch
from tritonforge.domain.profile import Profile, TargetInfo
from tritonforge.domain.results import ProfileResult
from tritonforge.profiling.nsight import ReportedLaunch, counters_of, read_report
from tritonforge.profiling.nsight.placing import agreement, first_line, kernel_file, user_lines

TIME_NOTE = "the time is that of one run under Nsight Compute: caches flushed, clocks as they were recorded"
NO_ARGUMENTS = "arguments and constexprs of the launches: a report does not hold them"
_SHOWN_NAMES = 6


@dataclass(frozen=True)
class Source:
    """A file whose kernels a report may be about: its path, its text, and those kernels."""

    path: str
    text: str
    kernels: tuple[Kernel, ...]


def profile_report(
    report: Path, sources: Sequence[Source], on_code: Callable[[Launch, Listing], object] = lambda *_: None
) -> ProfileResult:
    """Profile every launch of `report` whose kernel is among `sources`, in the order of the report.

    `on_code` is given the machine code of each launch that is profiled, with its stall samples.

    Raises:
        ReportError: when the report cannot be read.
        UsageError: when none of its launches is of a kernel in `sources`.
    """
    names = {kernel.simple_name for source in sources for kernel in source.kernels}
    launches = read_report(report, names)
    found = [(launch, _match(launch, sources)) for launch in launches]
    strangers = [launch.name for launch, match in found if match is None]
    if len(strangers) == len(launches):
        known = ", ".join(sorted({kernel.name for source in sources for kernel in source.kernels})) or "none"
        raise UsageError(
            f"No launch in {report} is of a kernel that was named: it holds {_names(strangers)}.",
            f"Name the file that defines one of them (kernels here: {known}).",
        )
    missing = [f"launches of other kernels in the report: {_names(strangers)}"] if strangers else []
    target = f"report {report.name}"
    profiles: list[Profile] = []
    for launch, match in found:
        if match is not None:
            profile, code = _profile(launch, *match, target=target, missing=() if profiles else tuple(missing))
            profiles.append(profile)
            on_code(profile.launch, code)
    return ProfileResult(tuple(profiles))


def _match(launch: ReportedLaunch, sources: Sequence[Source]) -> tuple[Source, Kernel] | None:
    """Find the kernel of a launch: by its function's name, of several by the file and line that the report gives."""
    file = kernel_file(launch.instructions)
    line = first_line(launch.instructions, file) if file else None
    best: tuple[tuple[int, ...], Source, Kernel] | None = None
    for source in sources:
        for kernel in source.kernels:
            closeness = _names_alike(launch.name, kernel.simple_name)
            if not closeness:
                continue
            inside = line is not None and kernel.range.start.line <= line <= kernel.range.end.line
            score = (closeness, agreement(file, source.path) if file else 0, int(inside), kernel.range.start.line)
            if best is None or score > best[0]:
                best = (score, source, kernel)
    return best[1:] if best is not None else None


def _names_alike(function: str, kernel: str) -> int:
    """Return how well a function's name fits a kernel's: 2 the same, 1 with a specialisation behind it, 0 not.

    Triton before 3 appends what it specialised on (`_0d1d2de`), and a kernel with a `repr` its configuration.
    """
    if function == kernel:
        return 2
    return int(function.startswith(f"{kernel}_") and any(c.isdigit() for c in function[len(kernel) + 1 :]))


def _profile(
    reported: ReportedLaunch, source: Source, kernel: Kernel, *, target: str, missing: tuple[str, ...]
) -> tuple[Profile, Listing]:
    file = kernel_file(reported.instructions)
    callers = library_callers(kernel, source.text)
    placed = user_lines(reported.instructions, file, callers) if file else [None] * len(reported.instructions)
    reasons = [*missing, NO_ARGUMENTS]
    if any(line is not None for line in placed) and not _fits(placed, kernel):
        # Lines of another version of the file would point at code that has nothing to do with them.
        placed = [None] * len(placed)
        reasons.append(
            f"counters per line: the report speaks of other lines of {kernel.file} than those of the kernel now"
        )
    counters = counters_of(reported, placed=placed)
    judge, ceilings_note = yardstick_of(reported.device)
    launch = launch_of(reported, kernel)
    case = Case(
        kernel,
        launch,
        compilation_of(reported, counters, launch, kernel, placed),
        time=time_of(reported),
        roofline=roofline_of(counters, judge.ceilings) if judge else None,
        gpu=judge.gpu if judge else None,
        counters=counters,
    )
    heat = heat_of(case)
    profile = Profile(
        kernel=kernel,
        target=TargetInfo(target, "report", reported.device.name, None, None, None),
        launch=launch,
        time_us=case.time,
        roofline=case.roofline,
        bottleneck=classify(case),
        findings=diagnose(kernel, [case]),
        stalls=heat.stalls,
        lines=heat.lines,
        lines_provenance=heat.provenance,
        counters_source="ncu",
        missing=(*reasons, *(one for one in counters.missing if _adds(one, reasons))),
        notes=(TIME_NOTE, ceilings_note) if case.time else (ceilings_note,),
    )
    return profile, code_of(reported, placed, file)


def _fits(placed: Sequence[int | None], kernel: Kernel) -> bool:
    """Tell whether most instructions lie on lines of the kernel or its helpers."""
    ranges = [kernel.range, *(helper.range for helper in kernel.helpers if helper.range is not None)]
    known = [line for line in placed if line is not None]
    inside = sum(any(place.start.line <= line <= place.end.line for place in ranges) for line in known)
    return 2 * inside >= len(known)


def _adds(reason: str, reasons: Sequence[str]) -> bool:
    topic = reason.partition(":")[0]
    return all(one.partition(":")[0] != topic for one in reasons)


def _names(names: Sequence[str]) -> str:
    counted = Counter(names).most_common()
    shown = [f"{name} ({count} times)" if count > 1 else name for name, count in counted[:_SHOWN_NAMES]]
    more = len(counted) - _SHOWN_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
