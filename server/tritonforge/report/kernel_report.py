"""From results to the `KernelReport` that is shown: of a profile, of a search, or of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel_report import KernelReport, LaunchReport, Listing
from tritonforge.domain.profile import Profile, Roofline
from tritonforge.domain.results import OptimizeResult, ProfileResult
from tritonforge.report import wording

PROFILE_NEXT = "Optimize it to look for a faster version that computes the same."
SEARCH_NEXT = "Apply the best version, then profile it."
PREDICTED_GAIN_NEXT = "Apply the best version, and measure it on a target with a GPU: its gain is predicted."
PREDICTED_NEXT = "Nothing was measured: profile it on a target with a GPU before you rely on these times."
NOTHING_NEXT = "Read the findings: what is left needs another algorithm, or another launch."
NO_CODE = "The report holds no machine code: make it with --set full, or with --section SourceCounters."
REPORT_NEXT = "Look at its hot lines below, and optimize it."


def of_profiles(
    result: ProfileResult, texts: Mapping[str, str], codes: Sequence[Listing] = ()
) -> tuple[KernelReport, ...]:
    """Return one report for each kernel of `result`, in its order, its launches by rank.

    `texts` holds the files by name; `codes` is the machine code of each profile, in their order, where it is known.
    """
    by_kernel: dict[tuple[str, str, int], list[tuple[Profile, Listing | None]]] = {}
    for profile, code in zip_longest(result.profiles, codes):
        kernel = profile.kernel
        by_kernel.setdefault((kernel.file, kernel.name, kernel.range.start.line), []).append((profile, code))
    return tuple(_of_kernel(pairs, result, texts) for pairs in by_kernel.values())


def _of_kernel(
    pairs: Sequence[tuple[Profile, Listing | None]], result: ProfileResult, texts: Mapping[str, str]
) -> KernelReport:
    first = pairs[0][0]
    measured = any(one.time_us is not None for one, _ in pairs)
    reported = first.target.kind == "report"
    findings: dict[tuple[str, object], Finding] = {}
    for profile, _ in pairs:
        findings |= {(f.code, f.range): f for f in profile.findings if (f.code, f.range) not in findings}
    return KernelReport(
        kernel=first.kernel,
        text=texts.get(first.kernel.file, ""),
        target=wording.target(first.target),
        launches=tuple(_launch(*pair, result) for pair in sorted(pairs, key=lambda pair: pair[0].launch.rank)),
        findings=tuple(findings.values()),
        next_step=REPORT_NEXT if reported else PROFILE_NEXT if measured else PREDICTED_NEXT,
    )


def _launch(profile: Profile, code: Listing | None, result: ProfileResult) -> LaunchReport:
    time, prediction = profile.time_us, result.predictions.get(profile.launch.id)
    return LaunchReport(
        launch=profile.launch,
        time_us=time.median if time else prediction.time_us if prediction else None,
        provenance="measured" if time else "predicted",
        interval=time.ci95 if time else prediction.interval if prediction else None,
        samples=time.samples if time else 0,
        roofline=profile.roofline,
        bottleneck=profile.bottleneck,
        stalls=profile.stalls,
        lines=profile.lines,
        lines_provenance=profile.lines_provenance,
        counters_source=profile.counters_source,
        parts=prediction.parts if prediction else {},
        listings=(code,) if code is not None and code.rows else (),
        listings_note=NO_CODE if code is not None else "",
        missing=profile.missing,
        notes=profile.notes,
    )


def of_search(result: OptimizeResult, text: str) -> KernelReport:
    """Return the report of a search; `text` is the file's as the search read it."""
    assessed = {one.compilation.launch: one for one in result.assessments}
    measured = result.provenance == "measured"
    launches = []
    for launch in sorted(result.launches, key=lambda one: one.rank):
        one = assessed.get(launch.id)
        prediction = one.prediction if one else None
        launches.append(
            LaunchReport(
                launch=launch,
                time_us=result.baseline_us.get(launch.id),
                provenance=result.provenance,
                interval=prediction.interval if prediction and not measured else None,
                roofline=result.rooflines.get(launch.id),
                bottleneck=one.bottleneck if one else None,
                resources=one.compilation.resources if one else None,
                occupancy=one.compilation.occupancy if one else None,
                lines=one.heat if one else {},
                lines_provenance="predicted",
                parts=prediction.parts if prediction else {},
            )
        )
    report = KernelReport(
        result.kernel, text, wording.target(result.target), tuple(launches), result.findings, next_step=PROFILE_NEXT
    )
    return with_search(report, result)


def with_search(report: KernelReport, result: OptimizeResult) -> KernelReport:
    """Return the report with the trials of a search and, for each launch, what its best version takes."""
    after = result.best.trial.time_us if result.best and result.best.trial.time_us else {}
    launches = tuple(
        replace(one, after_us=us, after=after_of(result.rooflines.get(one.launch.id) or one.roofline, us))
        if (us := after.get(one.launch.id)) is not None
        else one
        for one in report.launches
    )
    if result.best is None:
        step = NOTHING_NEXT
    else:
        step = SEARCH_NEXT if result.best.provenance == "measured" else PREDICTED_GAIN_NEXT
    return replace(report, launches=launches, search=result, next_step=step)


def after_of(before: Roofline | None, time_us: float) -> Roofline | None:
    """Return where a version stands that takes `time_us` for the same bytes and FLOPs: the problem has not changed."""
    if before is None or time_us <= 0:
        return None
    shortest = max(before.bytes / before.ceiling_gbps * 1e-3, before.flops / before.ceiling_tflops * 1e-6)
    return replace(
        before,
        achieved_gbps=before.bytes / time_us * 1e-3,
        achieved_tflops=before.flops / time_us * 1e-6,
        fraction=min(1.0, shortest / time_us),
    )


def with_listings(report: KernelReport, listings: Mapping[str, Sequence[Listing]], note: str = "") -> KernelReport:
    """Return the report with the compiler's listings of its launches, by launch id; `note` is why others have none."""
    return replace(
        report,
        launches=tuple(
            replace(one, listings=tuple(found))
            if (found := listings.get(one.launch.id))
            else replace(one, listings_note=note)
            for one in report.launches
        ),
    )
