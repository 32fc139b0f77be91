"""`optimize` for people: the bottleneck with its line, what was tried, the verified rewrite, and what to type next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tritonforge.domain.candidate import Suggestion, Verdict
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.results import OptimizeResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, apart, indent, line, shortened, table, wrap
from tritonforge.report.text_analyze import launch_text
from tritonforge.report.text_findings import bottleneck_spans, by_gravity, evidence_text, source_excerpt
from tritonforge.report.text_profile import LABEL, labelled, next_steps

_ROWS = 8
_ONE_LINE, _REASON = 90, 120
"""Columns from which on a trial may have one line; why it was dropped, that long, goes below where it does not fit."""
_IN_COLUMNS = {"not faster than the best", "not faster than the original"}
"""Reasons that the columns show."""
_TITLE = 88
_TIMES = 30
"""Columns of a trial's row beside its title: time, speedup, what marks the best, and the gaps."""
_NOTES = 5
_ORIGINS = {"rule": "rules", "llm": "a language model", "both": "a language model and rules"}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def optimize_text(
    results: Iterable[OptimizeResult],
    sources: Mapping[str, str] | None = None,
    *,
    applied: bool = False,
    width: int = WIDTH,
) -> list[Line]:
    """Return the report of `optimize`, but for diffs at most `width` columns wide.

    `sources` maps files to their text as it was read; `applied` says that the edits have been written already.
    """
    out: list[Line] = []
    for result in results:
        if out:
            out += [BLANK, BLANK]
        out += _result(result, (sources or {}).get(result.kernel.file), applied=applied, width=width)
    return out or [line("No kernel to optimize.")]


def diff_text(diff: str) -> list[Line]:
    """Return a unified diff with each line in its style, unindented and uncut so that it can be copied."""
    out: list[Line] = []
    old = new = 0  # lines of the hunk that are still to come: only outside a hunk is "---" a header
    for text in diff.splitlines():
        style: Style = "plain"
        if old > 0 or new > 0:
            style = "add" if text.startswith("+") else "remove" if text.startswith("-") else "plain"
            old -= not text.startswith(("+", "\\"))
            new -= not text.startswith(("-", "\\"))
        elif found := _HUNK.match(text):
            old, new = int(found[1] or 1), int(found[2] or 1)
            style = "hunk"
        elif text.startswith(("--- ", "+++ ", "diff ")):
            style = "hunk"
        out.append(line(Span(text, style)))
    return out


def verdict_text(verdict: Verdict, width: int = WIDTH - LABEL) -> list[Line]:
    """Return a verdict in a few lines: how many inputs, the worst error, what was checked."""
    worst = f"worst error {wording.error(verdict.worst_error)}"
    if verdict.baseline_error is not None:
        worst += f" (the original's own: {wording.error(verdict.baseline_error)})"
    lines = wrap(
        [
            f"{wording.plural(len(verdict.tried), 'input')} against {verdict.oracle or 'the original'}, {worst}; ",
            Span(f"tolerance {verdict.tolerance}", "muted"),
        ],
        width=width,
    )
    passed = [name for name, outcome in verdict.checks.items() if outcome == "passed"]
    if passed:
        lines += wrap([Span("passed ", "good"), Span(", ".join(passed), "muted")], width=width, hanging=7)
    for name, outcome in verdict.checks.items():
        if outcome != "passed":
            style: Style = "muted" if outcome.startswith("skipped") else "bad"
            lines += wrap([Span(f"{name} {outcome}", style)], width=width, hanging=7)
    return lines


def _result(result: OptimizeResult, source: str | None, *, applied: bool, width: int) -> list[Line]:
    kernel = result.kernel
    inner = width - LABEL
    out = [
        *wrap([Span(kernel.name, "title"), *apart(Span(wording.place(kernel), "muted"))], width=width),
        *labelled("Target", wrap([wording.target(result.target)], width=inner)),
    ]
    for number, launch in enumerate(result.launches[:2]):
        out += labelled("Launch" if number == 0 else "", launch_text(launch, inner))
    if len(result.launches) > 2:
        out += labelled("", [line(Span(f"and {wording.plural(len(result.launches) - 2, 'more launch')}", "muted"))])
    if result.bottlenecks:
        out += [BLANK, *labelled("Bottleneck", _bottleneck(result.bottlenecks[0], result, source, inner))]
    out += _tried(result, width)
    out += _suggestion(result.best, result, inner) if result.best else _nothing(result, inner)
    for number, note in enumerate(result.notes[:_NOTES]):
        out += labelled("" if number else "Note", wrap([note], width=inner, hanging=2))
    if len(result.notes) > _NOTES:
        out += labelled("", [line(Span(f"and {len(result.notes) - _NOTES} more", "muted"))])
    if result.best is not None:
        out += _next(result.best, result, applied=applied, width=width)
    return out


def _bottleneck(bottleneck: Bottleneck, result: OptimizeResult, source: str | None, width: int) -> list[Line]:
    finding = _finding_for(bottleneck, result.findings)
    at = bottleneck.line or (finding.range.start.line if finding else None)
    out: list[Line] = []
    if finding is not None:
        head = [Span(f"{finding.code} {finding.name}", "warn"), Span(f" at {result.kernel.file}:{at}", "title")]
        out += wrap(head, width=width)
    if at is not None and source is not None:
        out += source_excerpt(source, [at], marked=[at], width=width)
    out += wrap(bottleneck_spans(bottleneck, with_class=finding is None), width=width)
    if finding is not None:
        out += evidence_text(finding.evidence, width)
    return out


def _finding_for(bottleneck: Bottleneck, findings: Iterable[Finding]) -> Finding | None:
    """Return the finding that says the same as `bottleneck`, with its evidence."""
    same = [finding for finding in by_gravity(findings) if finding.name == bottleneck.kind]
    on_line = [finding for finding in same if finding.range.start.line == bottleneck.line]
    return next(iter(on_line or same), None)


def _tried(result: OptimizeResult, width: int) -> list[Line]:
    verified = sum(trial.verdict is not None and trial.verdict.accepted for trial in result.trials)
    stopped = f"; stopped: {result.stopped_because}" if result.stopped_because else ""
    tried = wording.plural(len(result.trials), "candidate")
    if not result.trials:
        return []
    head = f"Tried {tried} in {result.elapsed_s:.1f} s, {verified} verified{stopped}."
    return [BLANK, *wrap([Span(head, "title")], width=width), *indent(_trials(result, width - 2))]


def _trials(result: OptimizeResult, width: int) -> list[Line]:
    before = _total(result.baseline_us, result)
    room = max(24, min(_TITLE, width - _TIMES))
    original = wording.config(result.baseline_config) if result.baseline_config else ""
    rows: list[tuple[Span, ...]] = [
        (Span(result.provenance, "muted"), Span("speedup", "muted"), Span("candidate", "muted")),
        (Span(wording.time_us(before)), Span("—", "muted"), Span(shortened(f"original  {original}", room + 8))),
    ]
    reasons: list[str] = []
    best = result.best.trial.candidate if result.best else None
    # What ran comes first, the fastest on top; refusals follow in the order they were met.
    ordered = sorted(result.trials, key=lambda t: (t.time_us is None, _total(t.time_us or {}, result) or 0.0))
    ordered.sort(key=lambda t: t.candidate != best)
    for trial in ordered[:_ROWS]:
        time = _total(trial.time_us or {}, result)
        is_best = trial.candidate == best
        speedup = result.best.speedup if is_best and result.best else before / time if before and time else None
        title = trial.candidate.title
        reason = trial.reason if not trial.accepted and trial.reason not in _IN_COLUMNS else ""
        if reason and width >= _ONE_LINE and len(title) + len(reason) + 2 <= room:
            title, reason = f"{title}: {reason}", ""
        reasons.append(reason)
        rows.append(
            (
                Span(wording.time_us(time), "plain" if trial.accepted else "muted"),
                Span(
                    wording.factor(speedup),
                    "good" if is_best else "plain" if trial.accepted else "muted",
                ),
                Span(
                    shortened(title, room) + ("  ✓ best" if is_best else ""),
                    "good" if is_best else "plain" if trial.accepted else "muted",
                ),
            )
        )
    shown = table(rows, right=(0, 1))
    column = sum(max(len(row[place].text) for row in rows) + 2 for place in (0, 1))
    lines = shown[:2]
    for one, reason in zip(shown[2:], reasons, strict=True):
        below = wrap([Span(shortened(reason, _REASON), "muted")], width=width - column)
        lines += [one, *indent(below, column)]
    if len(ordered) > _ROWS:
        lines.append(line(Span(f"and {len(ordered) - _ROWS} more", "muted")))
    return lines


def _total(times: Mapping[str, float], result: OptimizeResult) -> float | None:
    """Return the time of all launches together, each as often as it was seen; None when one is not known."""
    if not result.launches or any(launch.id not in times for launch in result.launches):
        return None
    return sum(times[launch.id] * launch.count for launch in result.launches)


def _suggestion(best: Suggestion, result: OptimizeResult, width: int) -> list[Line]:
    trial, verdict = best.trial, best.trial.verdict
    low, high = best.speedup_ci95
    gain = f"{wording.factor(best.speedup)} faster"
    spread = f"{wording.factor(low)}–{wording.factor(high)}"
    certain = f", {best.provenance} ({'95 % interval' if best.provenance == 'measured' else 'likely'} {spread})"
    out = [
        BLANK,
        *labelled("Suggestion", wrap([Span(trial.candidate.title, "title")], width=width)),
        *labelled("Origin", [line(_ORIGINS[trial.candidate.origin])] if trial.candidate.origin != "rule" else []),
        *labelled("Gain", wrap([Span(gain, "good"), Span(certain, "muted")], width=width)),
    ]
    times = [
        (launch.id, result.baseline_us.get(launch.id), (trial.time_us or {}).get(launch.id))
        for launch in result.launches
    ]
    rows = [
        (Span(launch, "muted"), Span(wording.time_us(old)), Span("→", "muted"), Span(wording.time_us(new), "number"))
        for launch, old, new in times[:4]
    ]
    out += labelled("", table(rows, right=(1, 3)))
    if verdict is not None:
        out += labelled("Verified", verdict_text(verdict, width))
    return [*out, BLANK, *diff_text(best.diff), BLANK]


def _next(best: Suggestion, result: OptimizeResult, *, applied: bool, width: int) -> list[Line]:
    path = wording.kernel_path(result.kernel)
    if applied:
        return labelled("Applied", wrap([_files(best)], width=width - LABEL))
    steps = [(f"tritonforge optimize {path} --apply", "write this change")]
    if best.provenance == "predicted":
        steps.append((f"tritonforge optimize {path} --target NAME", "measure it on a GPU"))
    return next_steps(steps, width)


def _files(best: Suggestion) -> str:
    files = dict.fromkeys(edit.file for edit in best.trial.candidate.edits)
    return f"written to {', '.join(files)}"


def _nothing(result: OptimizeResult, width: int) -> list[Line]:
    at_roof = bool(result.bottlenecks) and result.bottlenecks[0].kind == "at-roofline"
    said = (
        "Nothing to gain: it runs at its roofline." if at_roof else "No verified rewrite is faster than the original."
    )
    return [BLANK, *labelled("Suggestion", wrap([Span(said, "good" if at_roof else "plain")], width=width))]
