"""The trials of a search over time: what each version takes, what became of it, and the best so far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Literal, NamedTuple

from tritonforge.domain.results import OptimizeResult
from tritonforge.report import svg, wording

_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 446, 14, 216
_MOST_ROWS = 400

Fate = Literal["accepted", "refused", "dropped"]
_WORDS: Mapping[Fate, str] = {"accepted": "verified", "refused": "refused", "dropped": "not verified"}


class _Row(NamedTuple):
    """A trial: when it was known (in seconds; its number where that was not kept), and the sum of its times."""

    at: float
    title: str
    time_us: float | None
    fate: Fate
    reason: str


def trials_html(result: OptimizeResult, key: str) -> Iterator[str]:
    """Yield the chart, its legend and all trials as a table."""
    if not result.trials:
        yield f'<p class="muted">Nothing was tried: {escape(result.stopped_because or "there was nothing to try")}.</p>'
        return
    clock = all(trial.at_s is not None for trial in result.trials)
    rows = _rows(result, clock=clock)
    before = _total(result, result.baseline_us)
    timed = [row for row in rows if row.time_us]
    if before is not None and timed:
        said = _description(result, rows, before)
        yield from svg.chart(
            (_WIDTH, _HEIGHT), key, "Trials over time", said, _plot(rows, before, result.elapsed_s, clock=clock)
        )
        yield from _legend({row.fate for row in timed}, result.provenance)
    unit = "at" if clock else "number"
    yield f'<details><summary class="muted">{escape(wording.plural(len(rows), "trial"))}</summary>'
    yield '<div class="scroll"><table>'
    yield f'<tr><th scope="col">{unit}</th><th scope="col">version</th><th scope="col">time, {result.provenance}</th>'
    yield '<th scope="col">what became of it</th></tr>'
    for row in rows[:_MOST_ROWS]:
        at = f"{row.at:.1f} s" if clock else f"{row.at:.0f}"
        fate = row.reason or _WORDS[row.fate]
        kind = {"accepted": "good", "refused": "error", "dropped": "muted"}[row.fate]
        yield (
            f"<tr><td>{at}</td><td>{escape(row.title)}</td><td>{escape(wording.time_us(row.time_us))}</td>"
            f'<td class="{kind}">{escape(fate)}</td></tr>'
        )
    yield "</table></div>"
    if len(rows) > _MOST_ROWS:
        yield f'<p class="muted">and {len(rows) - _MOST_ROWS} more</p>'
    yield "</details>"


def _rows(result: OptimizeResult, *, clock: bool) -> list[_Row]:
    rows = []
    for number, trial in enumerate(result.trials, 1):
        at = trial.at_s if clock and trial.at_s is not None else float(number)
        fate: Fate = "accepted" if trial.accepted else "dropped"
        if not trial.accepted and trial.verdict is not None and not trial.verdict.accepted:
            fate = "refused"
        rows.append(_Row(at, trial.candidate.title, _total(result, trial.time_us or {}), fate, trial.reason))
    return sorted(rows, key=lambda row: row.at)


def _total(result: OptimizeResult, times: Mapping[str, float]) -> float | None:
    """Return the time of all launches together in µs, None unless each is known."""
    known = [(times.get(launch.id), launch.count) for launch in result.launches]
    total = sum(time * count for time, count in known if time is not None)
    whole = bool(known) and all(time is not None and math.isfinite(time) for time, _ in known)
    return total if whole and total > 0 else None


def _description(result: OptimizeResult, rows: list[_Row], before: float) -> str:
    verified = [row.time_us for row in rows if row.fate == "accepted" and row.time_us]
    said = (
        f"{wording.plural(len(rows), 'version')} tried in {result.elapsed_s:.0f} s. Before: {wording.time_us(before)}"
    )
    best = f"; best verified: {wording.time_us(min(verified))}" if verified else "; no version was verified"
    return f"{said}{best}, {result.provenance}."


def _plot(rows: list[_Row], before: float, elapsed_s: float, *, clock: bool) -> Iterator[str]:
    times = [row.time_us for row in rows if row.time_us]
    low, high = min([before, *times]) / 1.5, max([before, *times]) * 1.25
    y = svg.LogScale(low, high, _BOTTOM, _TOP)
    x = svg.LinearScale(max([row.at for row in rows] + ([elapsed_s] if clock else [])) * 1.02 or 1.0, _LEFT, _RIGHT)
    for value in x.ticks():
        yield svg.line(x(value), _TOP, x(value), _BOTTOM, "grid")
        yield svg.text(x(value), _BOTTOM + 14, svg.number(round(value, 3)), anchor="middle")
    marks = list(y.ticks()) or [low * 1.25, high / 1.25]
    for value in marks:
        yield svg.line(_LEFT, y(value), _RIGHT, y(value), "grid")
        yield svg.text(_LEFT - 5, y(value) + 4, wording.time_us(value), anchor="end")
    said = "seconds into the search" if clock else "number of the trial"
    yield svg.text((_LEFT + _RIGHT) / 2, _HEIGHT - 10, said, anchor="middle")
    yield svg.line(_LEFT, y(before), _RIGHT, y(before), "base")
    yield svg.text(_LEFT + 4, y(before) - 5, f"before: {wording.time_us(before)}", kind="strong")
    yield from _steps(rows, before, x, y)
    # What matters most is drawn last, over the others.
    for fate in ("dropped", "refused", "accepted"):
        for row in rows:
            if row.fate == fate and row.time_us:
                title = f"{row.title}: {wording.time_us(row.time_us)}, {row.reason or _WORDS[row.fate]}"
                yield _mark(x(row.at), y(row.time_us), row.fate, title)


def _steps(rows: list[_Row], before: float, x: svg.LinearScale, y: svg.LogScale) -> Iterator[str]:
    """Draw the best verified version so far as stairs."""
    best, path = before, f"M{svg.px(_LEFT)} {svg.px(y(before))}"
    for row in rows:
        if row.fate == "accepted" and row.time_us and row.time_us < best:
            best = row.time_us
            path += f"H{svg.px(x(row.at))}V{svg.px(y(best))}"
    if best < before:
        yield f'<path d="{path}H{svg.px(_RIGHT)}" class="steps"/>'
        yield svg.text(_RIGHT, y(best) + 16, f"best: {wording.time_us(best)}", anchor="end", kind="strong")


def _mark(x: float, y: float, fate: Fate, title: str) -> str:
    if fate == "accepted":
        return svg.diamond(x, y, 5.5, "best", title)
    return svg.cross(x, y, 3.5, "refused", title) if fate == "refused" else svg.circle(x, y, 3, "dropped", title)


def _legend(fates: set[Fate], provenance: str) -> Iterator[str]:
    order: tuple[Fate, ...] = ("accepted", "refused", "dropped")
    marks = [
        f'<span><svg viewBox="0 0 12 12" aria-hidden="true">{_mark(6, 6, fate, "")}</svg>{_WORDS[fate]}</span>'
        for fate in order
        if fate in fates
    ]
    yield f'<p class="legend">{"".join(marks)}<span>all launches together, {provenance}</span></p>'
