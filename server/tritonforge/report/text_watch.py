"""`watch` for people: one row a kernel, kept up to date; in a log, one line for each thing that happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import ProfileResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, indent, line, shortened, table, wrap

WatchState = Literal["waiting", "running", "fresh", "stale", "failed"]

_LAUNCH = 30
_NAME = 30
_PLACE = 28
_RUNNING = Span("running …", "code")


@dataclass(frozen=True)
class WatchRow:
    """One kernel as it was last seen.

    `time_us` is that of the launch that ranks first, in µs, `provenance` where it comes from; `fraction` (0–1) is its
    share of the roofline. `speedup` compares with the kernel's previous state (before/after; 1.0: no difference that
    counts); None when there is none to compare with. `note` says why something is not known, or what is being done.
    """

    kernel: str
    place: str
    launch: str = ""
    more_launches: int = 0
    time_us: float | None = None
    provenance: Literal["measured", "predicted", ""] = ""
    fraction: float | None = None
    bottleneck: str = ""
    speedup: float | None = None
    findings: int | None = None
    state: WatchState = "waiting"
    note: str = ""


def watch_row(kernel: Kernel, result: ProfileResult, *, speedup: float | None, findings: int) -> WatchRow:
    """Return the row of a kernel that was just profiled."""
    first = min(result.profiles, key=lambda profile: profile.launch.rank)
    prediction = result.predictions.get(first.launch.id)
    measured = first.time_us is not None
    time = first.time_us.median if first.time_us is not None else prediction.time_us if prediction else None
    return WatchRow(
        kernel=kernel.name,
        place=wording.place(kernel),
        launch=wording.plain_problem(first.launch),
        more_launches=len(result.profiles) - 1,
        time_us=time,
        provenance="measured" if measured else "predicted" if time is not None else "",
        fraction=first.roofline.fraction if first.roofline else None,
        bottleneck=first.bottleneck.kind,
        speedup=speedup,
        findings=findings,
        state="fresh" if time is not None else "failed",
        note="" if time is not None else _why(result),
    )


def _why(result: ProfileResult) -> str:
    first = min(result.profiles, key=lambda profile: profile.launch.rank)
    return first.bottleneck.reason or "; ".join(first.missing) or "no time is known"


def watch_table(
    rows: Sequence[WatchRow], problems: Sequence[str] = (), footer: str = "", *, width: int | None = None
) -> list[Line]:
    """Return the table, why rows have no numbers below each, what is wrong with files, and a last line.

    With a `width` in columns, what matters least is left out until the table fits: launches, then places.
    """
    out: list[Line] = []
    if rows:
        body = _fitted(rows, width)
        out.append(body[0])
        for row, shown in zip(rows, body[1:], strict=True):
            out.append(shown)
            if row.note:
                style: Style = "bad" if row.state == "failed" else "muted"
                out += indent(wrap([Span(row.note, style)], width=max(20, (width or WIDTH) - 2)), 2)
    out += [one for problem in problems for one in wrap([Span(problem, "bad")], width=width or WIDTH, hanging=2)]
    if footer:
        out += [BLANK, line(Span(footer, "muted"))] if out else [line(Span(footer, "muted"))]
    return out


def _fitted(rows: Sequence[WatchRow], width: int | None) -> list[Line]:
    heads = ("kernel", "", "launch", "time", "", "of roof", "bottleneck", "change".ljust(12), "findings", "")
    cells = [[Span(text, "muted") for text in heads], *(_cells(row) for row in rows)]
    for left_out in ((), (2,), (2, 1), (2, 1, 8)):
        columns = [column for column in range(len(heads)) if column not in left_out]
        right = [columns.index(column) for column in (3, 5, 8) if column in columns]
        shown = table([[row[column] for column in columns] for row in cells], right=right)
        # As wide as with a kernel that is running: no column should come and go with that.
        widest = table([[*(row[column] for column in columns[:-1]), _RUNNING] for row in cells], right=right)
        if width is None or max(len(one.text) for one in widest) <= width:
            break
    return shown


def watch_line(row: WatchRow) -> Line:
    """Return what happened to a kernel as one line, for a log."""
    head: list[Span | str] = [Span(row.kernel, "title"), "  ", Span(row.place, "muted"), "  "]
    if row.state == "stale":
        return line(*head, Span("stale", "warn"), f": {row.note}")
    if row.state != "fresh":
        return line(*head, Span(row.note or row.state, "bad" if row.state == "failed" else "muted"))
    facts: list[Span | str] = []
    if row.time_us is not None:
        facts += [Span(wording.time_us(row.time_us), "number"), f" {row.provenance} · "]
    if row.fraction is not None:
        facts.append(f"{wording.percent(row.fraction)} of the roof · ")
    facts += [f"{row.bottleneck} · "] if row.bottleneck else []
    facts += [_change(row), " · "] if row.speedup is not None else []
    facts.append(wording.plural(row.findings or 0, "finding"))
    facts += [Span(f" ({row.note})", "muted")] if row.note else []
    return line(*head, *facts)


def _cells(row: WatchRow) -> list[Span]:
    known: Style = "muted" if row.state == "stale" else "plain"
    more = f" +{row.more_launches}" if row.more_launches else ""
    return [
        Span(shortened(row.kernel, _NAME), "title"),
        Span(shortened(row.place, _PLACE), "muted"),
        Span(shortened(row.launch, _LAUNCH - len(more)) + more, known),
        Span(
            wording.time_us(row.time_us) if row.time_us is not None else "",
            "muted" if row.state == "stale" else "number",
        ),
        Span(row.provenance, "muted"),
        Span(wording.percent(row.fraction) if row.fraction is not None else "", known),
        Span(row.bottleneck, known if row.state == "stale" or not row.bottleneck else _weight(row.bottleneck)),
        _change(row),
        Span("" if row.findings is None else str(row.findings), known),
        _state(row),
    ]


def _weight(bottleneck: str) -> Style:
    return "good" if bottleneck == "at-roofline" else "warn"


def _change(row: WatchRow) -> Span:
    if row.speedup is None:
        return Span("")
    if row.speedup == 1.0:
        return Span("same", "muted")
    if row.speedup > 1:
        return Span(f"{wording.factor(row.speedup)} faster", "good")
    return Span(f"{wording.factor(1 / row.speedup)} slower", "bad")


def _state(row: WatchRow) -> Span:
    styles: dict[WatchState, Style] = {"failed": "bad", "stale": "warn", "waiting": "muted"}
    if row.state == "running":
        return _RUNNING
    return Span("" if row.state == "fresh" else row.state, styles.get(row.state, "plain"))
