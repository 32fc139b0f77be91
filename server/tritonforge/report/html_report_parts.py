"""What the kernel report says beside its charts and its source: cards, stalls, the search, findings, launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from tritonforge.domain.counters import NOT_STALLED
from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel_report import KernelReport, LaunchReport
from tritonforge.domain.results import OptimizeResult
from tritonforge.report import wording
from tritonforge.report.html_listing import step
from tritonforge.report.html_trials import trials_html

_MOST_STALLS = 8


def cards_html(launch: LaunchReport, search: OptimizeResult | None) -> Iterator[str]:
    """Yield the figures that matter most."""
    cards: list[tuple[str, tuple[str, ...]]] = []
    if launch.time_us is not None:
        how: list[str] = [launch.provenance]
        if launch.interval is not None and launch.interval[0] < launch.interval[1]:
            how.append(f"{'95 % ' if launch.provenance == 'measured' else ''}{wording.time_range_us(launch.interval)}")
        how += [wording.plural(launch.samples, "sample")] if launch.samples else []
        cards.append(("Time", (wording.time_us(launch.time_us), " · ".join(how))))
    if launch.roofline is not None and launch.roofline.fraction is not None:
        bound = f"{launch.roofline.bound} bound, {launch.provenance}"
        cards.append(("Share of the roofline", (wording.percent(launch.roofline.fraction), bound)))
    if launch.bottleneck is not None:
        sure = f"{launch.bottleneck.provenance}, {wording.percent(launch.bottleneck.confidence)} sure"
        cards.append(("Bottleneck", (launch.bottleneck.kind, sure)))
    if search is not None and search.best is not None:
        best = search.best
        low, high = (wording.factor(one) for one in best.speedup_ci95)
        cards.append(
            (
                "Best version",
                (wording.factor(best.speedup), f"{best.provenance} · {low}–{high}", best.trial.candidate.title),
            )
        )
    if launch.resources is not None:
        used = launch.resources
        parts = [f"{wording.size(used.shared_bytes)} shared"]
        parts += [f"{wording.size(used.spill_bytes)} spilled"] if used.spill_bytes else []
        if launch.occupancy is not None:
            parts.append(f"{wording.percent(launch.occupancy.fraction)} occupancy, by {launch.occupancy.limiter}")
        cards.append(("Registers", (str(used.registers), " · ".join(parts))))
    if cards:
        yield '<div class="cards">'
        for name, lines in cards:
            said = "".join(f"<dd>{prose(one)}</dd>" for one in lines if one)
            yield f'<dl class="card"><dt>{name}</dt>{said}</dl>'
        yield "</div>"
    if launch.bottleneck is not None and launch.bottleneck.reason:
        yield f"<p><b>{launch.bottleneck.kind}</b>: {prose(launch.bottleneck.reason)}</p>"


def stalls_html(launch: LaunchReport) -> Iterator[str]:
    """Yield why warps wait, as it was sampled; without samples what the model thinks the time goes into."""
    if launch.stalls:
        yield '<h3>Where warps wait <span class="muted">(share of samples, measured)</span></h3>'
        ordered = sorted(launch.stalls.items(), key=lambda item: (item[0] == NOT_STALLED, -item[1]))
        shown = [(name, share) for name, share in ordered if share >= 0.005][:_MOST_STALLS]
        yield from _bars([(wording.stall(name), share, wording.percent(share)) for name, share in shown])
        return
    parts = {name: us for name, us in launch.parts.items() if us > 0}
    if not parts:
        yield '<h3>Where warps wait</h3><p class="muted">Not known: no stall samples were taken.</p>'
        return
    yield '<h3>What takes the time <span class="muted">(predicted)</span></h3>'
    largest = max(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    yield from _bars([(_PARTS.get(name, name), us / largest, wording.time_us(us)) for name, us in ordered])
    yield '<p class="muted">Parts overlap. Profile on a GPU with counters to see where warps really wait.</p>'


_PARTS = {
    "launch": "launching it",
    "dram": "device memory",
    "l2": "L2 cache",
    "shared": "shared memory",
    "tensor": "tensor cores",
    "alu": "arithmetic and addresses",
    "special": "special functions",
    "spill": "spilled registers",
    "atomic": "atomics",
    "latency": "waiting for loads",
}


def _bars(rows: Sequence[tuple[str, float, str]]) -> Iterator[str]:
    yield '<table class="bars">'
    for name, share, amount in rows:
        label, _, meaning = name.partition(" (")
        small = f"<small>{escape(meaning.removesuffix(')'))}</small>" if meaning else ""
        yield (
            f'<tr><th scope="row">{escape(label)}{small}</th><td class="space"><i class="fill{step(share)}"></i></td>'
            f'<td class="amount">{escape(amount)}</td></tr>'
        )
    yield "</table>"


def search_html(search: OptimizeResult, key: str) -> Iterator[str]:
    """Yield what a search tried and found; `key` is unique on the page.

    Raises:
        ValueError: when what it suggests was not verified.
    """
    best = search.best
    yield '<div class="charts"><section><h3>Trials over time</h3>'
    yield from trials_html(search, key)
    stopped = f"Stopped after {search.elapsed_s:.0f} s: {search.stopped_because}." if search.stopped_because else ""
    yield f'<p class="muted">{escape(stopped)}</p></section><section>'
    if best is None:
        yield "<h3>No faster version was found</h3>"
    else:
        verdict = best.trial.verdict
        if verdict is None or not verdict.accepted:
            raise ValueError(f"suggestion {best.trial.candidate.title!r} has no passed verdict")
        yield f"<h3>Best version: {escape(best.trial.candidate.title)}</h3>"
        if verdict.inputs:
            inputs = wording.plural(len(verdict.tried), "input")
            yield f"<p>It computes the same on {inputs}; the largest error is {wording.error(verdict.worst_error)}.</p>"
        label = "Difference to the original"
        yield f'<pre class="diff" tabindex="0" role="group" aria-label="{label}">{_diff(best.diff)}</pre>'
        if verdict.checks:
            yield "<details><summary class=muted>What was checked</summary><ul>"
            for name, outcome in verdict.checks.items():
                yield f"<li>{escape(name)}: {escape(outcome)}</li>"
            yield f"</ul><p>{escape(verdict.oracle)}. {escape(verdict.tolerance)}.</p></details>"
    if search.notes:
        yield "<ul>" + "".join(f"<li>{prose(note)}</li>" for note in search.notes) + "</ul>"
    yield "</section></div>"


def prose(text: str) -> str:
    """Return a sentence as HTML, with what stands between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _diff(diff: str) -> str:
    shown = []
    for line in diff.splitlines():
        tag = "" if line.startswith(("+++", "---")) else {"+": "ins", "-": "del"}.get(line[:1], "")
        shown.append(f"<{tag}>{escape(line)}</{tag}>" if tag else escape(line))
    return "\n".join(shown)


def findings_html(report: KernelReport, key: str) -> Iterator[str]:
    """Yield the findings; `key` is that of the source whose lines they point at."""
    yield "<h3>Findings</h3>"
    if not report.findings:
        yield '<p class="muted">None.</p>'
        return
    yield '<ul class="findings">'
    for finding in report.findings:
        yield from _finding(finding, report, key)
    yield "</ul>"


def _finding(finding: Finding, report: KernelReport, key: str) -> Iterator[str]:
    line = finding.range.start.line
    gain = f" · may gain {wording.factor(finding.estimated_gain)}" if finding.estimated_gain is not None else ""
    place = f"line {line}"
    if finding.file == report.kernel.file and report.kernel.range.start.line <= line <= report.kernel.range.end.line:
        place = f'<a href="#{key}-{line}" data-line="{line}">line {line}</a>'
    yield (
        f'<li class="finding {finding.severity}"><p><b class="{finding.severity}">{escape(finding.code)} '
        f"{escape(finding.name)}</b> {prose(finding.message)}</p>"
        f'<div class="muted">{place} · {finding.severity} · {finding.provenance}{gain}</div>'
    )
    if finding.evidence:
        yield "<details><summary>evidence</summary><dl>"
        for name, fact in finding.evidence.items():
            yield (
                f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(wording.evidence(fact))}</dd>"
                f'<dd class="from">{fact.provenance}</dd>'
            )
        yield "</dl></details>"
    yield "</li>"


def launches_html(launches: Sequence[LaunchReport]) -> Iterator[str]:
    """Yield a table of all launches."""
    if not launches:
        return
    yield '<h3>Launches</h3><div class="scroll"><table><tr>'
    for name in ("problem", "config", "grid", "count", "time", "best version", "bottleneck"):
        yield f'<th scope="col">{name}</th>'
    yield "</tr>"
    for one in launches:
        time = f"{wording.time_us(one.time_us)} {one.provenance}" if one.time_us is not None else "—"
        cells = (
            wording.problem(one.launch) or "not known",
            wording.config(one.launch.config),
            wording.grid(one.launch),
            f"{one.launch.count:,}",
            time,
            wording.time_us(one.after_us),
            one.bottleneck.kind if one.bottleneck else "—",
        )
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table></div>"
