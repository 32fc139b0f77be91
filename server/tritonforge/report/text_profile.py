"""`profile` for people, one screen a launch: time, roofline, bottleneck, the source with heat, what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from tritonforge.domain.compilation import Prediction
from tritonforge.domain.profile import Profile, Roofline
from tritonforge.domain.results import ProfileResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, bar, indent, line, wrap
from tritonforge.report.text_analyze import launch_text
from tritonforge.report.text_findings import bottleneck_spans, by_gravity, finding_brief, section
from tritonforge.report.text_source import WHOLE, source_with_heat

_LABEL = 12
_HOT_ROWS = 10
_FINDINGS = 3
_REASONS, _EXPLAINED = 4, 2


def profile_text(result: ProfileResult, sources: Mapping[str, str] | None = None) -> list[Line]:
    """Return the report of `profile`; `sources` maps files to their text, to show the kernel's."""
    out: list[Line] = []
    seen: set[str] = set()
    for profile in result.profiles:
        if out:
            out.append(BLANK)
        source = (sources or {}).get(profile.kernel.file)
        path = wording.kernel_path(profile.kernel)
        # The second launch of a kernel does not need its whole source again, only what is hot in it.
        rows = WHOLE if path not in seen else _HOT_ROWS
        seen.add(path)
        out += _profile(profile, result.predictions.get(profile.launch.id), source, rows=rows)
    return out or [line("Nothing was profiled.")]


def labelled(label: str, lines: list[Line]) -> list[Line]:
    """Return `lines` behind a label in a column of its own."""
    if not lines:
        return []
    first, *rest = lines
    return [Line((Span(label.ljust(_LABEL), "muted"), *first.spans)), *indent(rest, _LABEL)]


def next_steps(steps: list[tuple[str, str]]) -> list[Line]:
    """Return what to type next, one command a line with what it is good for."""
    width = max(len(command) for command, _ in steps) + 2
    if all(width + len(purpose) <= WIDTH - _LABEL for _, purpose in steps):
        rows = [line(Span(command.ljust(width), "code"), Span(purpose, "muted")) for command, purpose in steps]
    else:
        # A command is there to be copied: better too wide than cut.
        rows = [
            one
            for command, purpose in steps
            for one in (line(Span(f"{purpose}:", "muted")), line(Span(command, "code")).indented(2))
        ]
    return labelled("Next", rows)


def _profile(profile: Profile, prediction: Prediction | None, source: str | None, *, rows: int) -> list[Line]:
    kernel = profile.kernel
    out = [
        line(Span(kernel.name, "title"), "  ", Span(wording.place(kernel), "muted")),
        *labelled("Target", wrap([wording.target(profile.target)], width=88)),
        *labelled("Launch", launch_text(profile.launch, 88)),
        BLANK,
        *labelled("Time", _time(profile, prediction)),
    ]
    if profile.roofline is not None:
        out += labelled("Roofline", _roofline(profile.roofline))
    out += labelled("Bottleneck", wrap(bottleneck_spans(profile.bottleneck), width=88))
    if profile.stalls:
        out += labelled("Stalls", _stalls(profile))
    if profile.missing:
        out += labelled("Missing", wrap([Span("; ".join(profile.missing), "muted")], width=88))
    for note in profile.notes:
        out += labelled("Note", wrap([Span(note, "muted")], width=88))
    if source is not None:
        out += _source(profile, source, rows=rows)
    findings = by_gravity(profile.findings)
    shown = [one for finding in findings[:_FINDINGS] for one in finding_brief(finding)]
    more = len(findings) - _FINDINGS
    if more > 0:
        shown.append(line(Span(f"and {more} more: tritonforge analyze {wording.kernel_path(kernel)}", "muted")))
    out += section("Findings", shown)
    return [*out, BLANK, *_next(profile)]


def _time(profile: Profile, prediction: Prediction | None) -> list[Line]:
    if (time := profile.time_us) is not None:
        how = f"median of {time.samples} (95 % interval {wording.time_range_us(time.ci95)})"
        remark = f"  measured, {how}" if time.samples > 1 else "  measured once"
        return [line(Span(wording.time_us(time.median), "number"), Span(remark, "muted"))]
    if prediction is not None:
        spread = wording.time_range_us(prediction.interval)
        remark = f"  predicted, not measured ({spread}, mostly {prediction.dominant}, as on {prediction.gpu})"
        return wrap([Span(wording.time_us(prediction.time_us), "number"), Span(remark, "muted")], width=88)
    return [line(Span("not measured", "muted"))]


def _roofline(roofline: Roofline) -> list[Line]:
    if roofline.fraction is None:
        return [line(Span(f"{roofline.bound}-bound; how near the ceiling is not known", "muted"))]
    style: Style = "good" if roofline.fraction >= 0.8 else "warn" if roofline.fraction < 0.4 else "plain"
    rates = [
        f"{wording.rate(achieved)} of {wording.rate(ceiling)} {unit}"
        for achieved, ceiling, unit in (
            (roofline.achieved_tflops, roofline.ceiling_tflops, "TFLOP/s"),
            (roofline.achieved_gbps, roofline.ceiling_gbps, "GB/s"),
        )
        if achieved is not None
    ]
    if roofline.bound == "memory":
        rates.reverse()
    return [
        line(
            Span(bar(roofline.fraction), style), f"  {wording.percent(roofline.fraction)} of the {roofline.bound} roof"
        ),
        line(Span(" · ".join(rates), "muted")),
    ]


def _stalls(profile: Profile) -> list[Line]:
    """The reasons for which warps waited most; the first two in plain words too."""
    waiting = sorted(profile.stalls.items(), key=lambda item: -item[1])[:_REASONS]
    said = [
        f"{wording.percent(share)} {wording.stall(name) if place < _EXPLAINED else name.replace('_', ' ')}"
        for place, (name, share) in enumerate(waiting)
    ]
    origin = profile.counters_source if profile.counters_source != "none" else "sampled"
    return wrap([", ".join(said), " ", Span(f"[{origin}]", "muted")], width=88)


def _source(profile: Profile, source: str, *, rows: int) -> list[Line]:
    """The heat column's heading says what the shares are: samples of the hardware, or a model's guess."""
    findings = [finding.range.start.line for finding in by_gravity(profile.findings)[:_FINDINGS]]
    at = [] if profile.bottleneck.line is None else [profile.bottleneck.line]
    lines = source_with_heat(profile.kernel, source, profile.lines, marked=[*at, *findings], rows=rows)
    if not lines:
        return []
    if not profile.lines:
        heading, remark = "Source", ""
    elif profile.lines_provenance == "measured":
        heading, remark = "Where the time goes", f"  share of stall samples ({profile.counters_source})"
    else:
        heading, remark = "Where the time goes", f"  {profile.lines_provenance} from the compiled code, not measured"
    return [BLANK, line(Span(heading, "title"), Span(remark, "muted")), *indent(lines, 2)]


def _next(profile: Profile) -> list[Line]:
    path = wording.kernel_path(profile.kernel)
    if profile.bottleneck.kind == "at-roofline":
        return labelled("Next", wrap(["Nothing: a faster kernel would have to move less or compute less."], width=88))
    if profile.bottleneck.kind == "launch-bound":
        advice = (
            "Fuse it with its neighbours, do more per launch, or capture a CUDA graph: no rewrite of it helps much."
        )
        return labelled("Next", wrap([advice], width=88))
    return next_steps([(f"tritonforge optimize {path}", "look for a verified rewrite")])
