"""`watch` for people: one row a kernel, kept up to date; in a log, one line for each thing that happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import ProfileResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, Line, Span, Style, line, shortened, table

WatchState = Literal["waiting", "running", "fresh", "stale", "failed"]

_LAUNCH = 30
_NAME = 30
_PLACE = 28


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
        launch=wording.problem(first.launch).replace("\N{NO-BREAK SPACE}", " "),
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


def watch_table(rows: Sequence[WatchRow], problems: Sequence[str] = (), footer: str = "") -> list[Line]:
    """Return the table, what is wrong with files below it, and a last line."""
    out: list[Line] = []
    if rows:
        heads = ("kernel", "", "launch", "time", "", "of roof", "bottleneck", "change", "findings", "")
        heading = [Span(text, "muted") for text in heads]
        out += table([heading, *(_cells(row) for row in rows)], right=(3, 5, 8))
    out += [line(Span(problem, "bad")) for problem in problems]
    if footer:
        out += [BLANK, line(Span(footer, "muted"))] if out else [line(Span(footer, "muted"))]
    return out


def watch_line(row: WatchRow) -> Line:
    """Return what happened to a kernel as one line, for a log."""
    head: list[Span | str] = [Span(row.kernel, "title"), "  ", Span(row.place, "muted"), "  "]
    if row.state == "stale":
        return line(*head, Span("stale", "warn"), f": {row.note}")
    if row.state != "fresh":
        return line(*head, Span(row.note or row.state, "bad" if row.state == "failed" else "muted"))
    facts: list[Span | str] = [Span(wording.time_us(row.time_us), "number"), f" {row.provenance}"]
    if row.fraction is not None:
        facts.append(f" · {wording.percent(row.fraction)} of the roof")
    facts.append(f" · {row.bottleneck}")
    if row.speedup is not None:
        facts += [" · ", _change(row)]
    facts.append(f" · {wording.plural(row.findings or 0, 'finding')}")
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
    if row.state == "fresh":
        return Span(row.note, "muted")
    style: Style = {"failed": "bad", "stale": "warn", "running": "code"}.get(row.state, "muted")  # type: ignore[assignment]
    text = f"stale: {row.note}" if row.state == "stale" else row.note or row.state
    return Span(text, style)
