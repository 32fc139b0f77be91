"""`profile` for people, one screen a launch: time, roofline, bottleneck, the source with heat, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tritonforge.domain.compilation import Prediction
from tritonforge.domain.profile import Profile, Roofline
from tritonforge.domain.results import ProfileResult
from tritonforge.domain.rule_names import DOES_NOT_COMPILE
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, apart, bar, indent, line, shortened, table, wrap
from tritonforge.report.text_analyze import launch_text
from tritonforge.report.text_findings import bottleneck_spans, by_gravity, finding_brief, section
from tritonforge.report.text_source import WHOLE, source_with_heat

LABEL = 12
"""Columns of what stands before the lines of `labelled`."""
_HOT_ROWS = 10
_FINDINGS = 3
_LEAST_ROOM = 16
"""Columns below which what another launch computes is left out of its line."""
_REASONS, _EXPLAINED = 4, 2
_BAR, _LEAST_BAR = 30, 10


def profile_text(
    result: ProfileResult, sources: Mapping[str, str] | None = None, *, width: int = WIDTH, every: bool = False
) -> list[Line]:
    """Return the report of `profile`, at most `width` columns wide; `sources` maps files to their text.

    Of each kernel the launch that matters most has a screen, and every other one a line; `every`: all have a screen.
    """
    by_kernel: dict[tuple[str, int], list[Profile]] = {}
    for profile in result.profiles:
        kernel = profile.kernel
        by_kernel.setdefault((wording.kernel_path(kernel), kernel.range.start.line), []).append(profile)

    def weight(profile: Profile) -> float:
        return (_time_us(profile, result) or 0.0) * profile.launch.count

    kernels = [sorted(one, key=lambda p: (p.launch.rank, -weight(p))) for one in by_kernel.values()]
    kernels.sort(key=lambda one: -max(map(weight, one)))
    out: list[Line] = []
    for first, *others in kernels:
        for number, profile in enumerate([first, *others] if every else [first]):
            source = (sources or {}).get(profile.kernel.file)
            # The second launch of a kernel does not need its whole source again, only what is hot in it.
            rows = _HOT_ROWS if number else WHOLE
            prediction = result.predictions.get(profile.launch.id)
            out += [*([BLANK] if out else []), *_profile(profile, prediction, source, rows=rows, width=width)]
        if others and not every:
            out += _others(others, result, width)
    return out or [line("Nothing was profiled.")]


def _time_us(profile: Profile, result: ProfileResult) -> float | None:
    if profile.time_us is not None:
        return profile.time_us.median
    prediction = result.predictions.get(profile.launch.id)
    return prediction.time_us if prediction is not None else profile.launch.time_us


def _others(profiles: Sequence[Profile], result: ProfileResult, width: int) -> list[Line]:
    """Return a line for each of a kernel's further launches: its time, its class, and what it computes."""
    rows: list[list[Span | str]] = []
    for profile in profiles:
        time = _time_us(profile, result)
        row: list[Span | str] = [
            Span(profile.launch.id, "title"),
            Span(f"×{profile.launch.count:,}" if profile.launch.count > 1 else "", "muted"),
            Span(wording.time_us(time), "number"),
            Span("measured" if profile.time_us is not None else "predicted" if time is not None else "", "muted"),
            Span(profile.bottleneck.kind, "good" if profile.bottleneck.kind == "at-roofline" else "plain"),
        ]
        rows.append(row)
    column = max(len(one.text) for one in table([*rows], right=(1, 2))) + 2
    room = width - 2 - column
    for row, profile in zip(rows, profiles, strict=True):
        if room >= _LEAST_ROOM:
            row.append(
                Span(shortened(wording.problem(profile.launch).replace("\N{NO-BREAK SPACE}", " "), room), "muted")
            )
    listed = table(rows, right=(1, 2))
    title = line(Span(wording.plural(len(profiles), "other launch"), "title"))
    return [BLANK, title, *indent(listed), line(Span("--verbose shows each of them in full", "muted")).indented(2)]


def labelled(label: str, lines: list[Line]) -> list[Line]:
    """Return `lines` behind a label in a column of its own."""
    if not lines:
        return []
    first, *rest = lines
    return [Line((Span(label.ljust(LABEL), "muted"), *first.spans)), *indent(rest, LABEL)]


def next_steps(steps: list[tuple[str, str]], page: int = WIDTH) -> list[Line]:
    """Return what to type next, one command a line with what it is good for, on a page of so many columns."""
    width = max(len(command) for command, _ in steps) + 2
    if all(width + len(purpose) <= page - LABEL for _, purpose in steps):
        rows = [line(Span(command.ljust(width), "code"), Span(purpose, "muted")) for command, purpose in steps]
    else:
        # A command is there to be copied: better too wide than cut.
        rows = [
            one
            for command, purpose in steps
            for one in (
                *wrap([Span(f"{purpose}:", "muted")], width=page - LABEL),
                line(Span(command, "code")).indented(2),
            )
        ]
    return labelled("Next", rows)


def _profile(
    profile: Profile, prediction: Prediction | None, source: str | None, *, rows: int, width: int
) -> list[Line]:
    kernel = profile.kernel
    inner = width - LABEL
    out = [
        *wrap([Span(kernel.name, "title"), *apart(Span(wording.place(kernel), "muted"))], width=width),
        *labelled("Target", wrap([wording.target(profile.target)], width=inner)),
        *labelled("Launch", launch_text(profile.launch, inner)),
        BLANK,
        *labelled("Time", _time(profile, prediction, inner)),
    ]
    if profile.roofline is not None:
        out += labelled("Roofline", _roofline(profile.roofline, inner))
    out += labelled("Bottleneck", wrap(bottleneck_spans(profile.bottleneck), width=inner))
    if profile.stalls:
        out += labelled("Stalls", _stalls(profile, inner))
    if profile.missing:
        out += labelled("Missing", wrap([Span("; ".join(profile.missing), "muted")], width=inner))
    for note in profile.notes:
        out += labelled("Note", wrap([Span(note, "muted")], width=inner))
    if source is not None:
        out += _source(profile, source, rows=rows, width=width)
    findings = by_gravity(profile.findings)
    shown = [one for finding in findings[:_FINDINGS] for one in finding_brief(finding, width - 2)]
    more = len(findings) - _FINDINGS
    if more > 0:
        shown += wrap(
            [Span(f"and {more} more: tritonforge analyze {wording.kernel_path(kernel)}", "muted")], width=width - 2
        )
    out += section("Findings", shown)
    return [*out, BLANK, *_next(profile, width)]


def _time(profile: Profile, prediction: Prediction | None, width: int) -> list[Line]:
    if (time := profile.time_us) is not None:
        how = f"median of {time.samples} (95 % interval {wording.time_range_us(time.ci95)})"
        remark = f"measured, {how}" if time.samples > 1 else "measured once"
        return wrap(
            [Span(wording.time_us(time.median), "number"), *apart(Span(remark, "muted"))],
            width=width,
        )
    if prediction is not None:
        spread = wording.time_range_us(prediction.interval)
        remark = f"predicted, not measured ({spread}, mostly {prediction.dominant}, as on {prediction.gpu})"
        return wrap(
            [
                Span(wording.time_us(prediction.time_us), "number"),
                *apart(Span(remark, "muted")),
            ],
            width=width,
        )
    return [line(Span("not measured", "muted"))]


def _roofline(roofline: Roofline, width: int) -> list[Line]:
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
    said = f"  {wording.percent(roofline.fraction)} of the {roofline.bound} roof"
    listed = " · ".join(rate.replace(" ", "\N{NO-BREAK SPACE}") for rate in rates)
    return [
        line(Span(bar(roofline.fraction, max(_LEAST_BAR, min(_BAR, width - len(said)))), style), said),
        *wrap([Span(listed, "muted")], width=width),
    ]


def _stalls(profile: Profile, width: int) -> list[Line]:
    """The reasons for which warps waited most; the first two in plain words too."""
    waiting = sorted(profile.stalls.items(), key=lambda item: -item[1])[:_REASONS]
    said = [
        f"{wording.percent(share)} {wording.stall(name) if place < _EXPLAINED else name.replace('_', ' ')}"
        for place, (name, share) in enumerate(waiting)
    ]
    origin = profile.counters_source if profile.counters_source != "none" else "sampled"
    return wrap([", ".join(said), " ", Span(f"[{origin}]", "muted")], width=width)


def _source(profile: Profile, source: str, *, rows: int, width: int) -> list[Line]:
    """The heat column's heading says what the shares are: samples of the hardware, or a model's guess."""
    findings = [finding.range.start.line for finding in by_gravity(profile.findings)[:_FINDINGS]]
    at = [] if profile.bottleneck.line is None else [profile.bottleneck.line]
    lines = source_with_heat(profile.kernel, source, profile.lines, marked=[*at, *findings], rows=rows, width=width - 2)
    if not lines:
        return []
    if not profile.lines:
        heading, remark = "Source", ""
    elif profile.lines_provenance == "measured":
        heading, remark = "Where the time goes", f"share of stall samples ({profile.counters_source})"
    else:
        heading, remark = "Where the time goes", f"{profile.lines_provenance} from the compiled code, not measured"
    return [
        BLANK,
        *wrap([Span(heading, "title"), *(apart(Span(remark, "muted")) if remark else ())], width=width),
        *indent(lines, 2),
    ]


def _next(profile: Profile, width: int) -> list[Line]:
    path = wording.kernel_path(profile.kernel)
    if (refused := next((one for one in profile.findings if one.code == DOES_NOT_COMPILE), None)) is not None:
        return labelled(
            "Next",
            wrap([f"Mend line {refused.range.start.line}: what does not compile cannot be run."], width=width - LABEL),
        )
    if profile.bottleneck.kind == "at-roofline":
        return labelled(
            "Next", wrap(["Nothing: a faster kernel would have to move less or compute less."], width=width - LABEL)
        )
    if profile.bottleneck.kind == "launch-bound":
        advice = (
            "Fuse it with its neighbours, do more per launch, or capture a CUDA graph: no rewrite of it helps much."
        )
        return labelled("Next", wrap([advice], width=width - LABEL))
    return next_steps([(f"tritonforge optimize {path}", "look for a verified rewrite")], width)
