"""One launch on several architectures as a table: what differs between them stands out, what is alike is said once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tritonforge.domain.results import Assessment
from tritonforge.report import wording
from tritonforge.report.text import Line, Span, Style, shortened, table, wrap
from tritonforge.report.text_findings import bottleneck_spans

Cell = Callable[[Assessment], str | None]

_NONE = "—"
_GAP = 2


def _registers(one: Assessment) -> str | None:
    return f"{one.compilation.resources.registers:,}" if one.compilation.resources else None


def _spills(one: Assessment) -> str | None:
    resources = one.compilation.resources
    if resources is None:
        return None
    return wording.size(resources.spill_bytes) if resources.spill_bytes else "none"


def _shared(one: Assessment) -> str | None:
    return wording.size(one.compilation.resources.shared_bytes) if one.compilation.resources else None


def _occupancy(one: Assessment) -> str | None:
    return wording.percent(one.compilation.occupancy.fraction) if one.compilation.occupancy else None


def _limiter(one: Assessment) -> str | None:
    return one.compilation.occupancy.limiter if one.compilation.occupancy else None


def _tensor_path(one: Assessment) -> str | None:
    return one.compilation.tensor_path if one.compilation.tensor_path != "none" else None


def _time(one: Assessment) -> str | None:
    return wording.time_us(one.prediction.time_us) if one.prediction else None


def _interval(one: Assessment) -> str | None:
    return wording.time_range_us(one.prediction.interval) if one.prediction else None


def _gpu(one: Assessment) -> str | None:
    if one.prediction is None:
        return None
    return one.prediction.gpu.removeprefix("NVIDIA ").removeprefix("AMD ")


def _bottleneck(one: Assessment) -> str | None:
    return one.bottleneck.kind if one.bottleneck else None


ROWS: tuple[tuple[str, Cell], ...] = (
    ("registers", _registers),
    ("spilled", _spills),
    ("shared memory", _shared),
    ("occupancy", _occupancy),
    ("limited by", _limiter),
    ("dots run as", _tensor_path),
    ("bottleneck", _bottleneck),
    ("predicted time", _time),
    ("between", _interval),
    ("as on", _gpu),
)
"""What is compared, in the order of the table."""


def compared(assessments: Sequence[Assessment], width: int) -> list[Line]:
    """Return one launch's compilations side by side, at most `width` columns wide, then what was concluded of each.

    Where the columns do not fit they go on below, in a table of their own.
    """
    whole = [one for one in assessments if one.compilation.error is None]
    rows = [(label, [cell(one) for one in whole]) for label, cell in ROWS]
    rows = [(label, cells) for label, cells in rows if any(cell is not None for cell in cells)]
    alike = [(label, str(cells[0])) for label, cells in rows if len(whole) > 1 and len(set(cells)) == 1]
    differing = [(label, cells) for label, cells in rows if (label, str(cells[0])) not in alike]
    out: list[Line] = []
    for start, end in _chunks([one.compilation.arch for one in whole], [cells for _, cells in differing], width):
        header: list[Span | str] = ["", *(Span(one.compilation.arch, "title") for one in whole[start:end])]
        body: list[list[Span | str]] = [
            [
                Span(label, "muted"),
                *(Span(cell if cell is not None else _NONE, _style(label, cell)) for cell in cells[start:end]),
            ]
            for label, cells in differing
        ]
        out += table([header, *body], gap=_GAP)
    if alike:
        said = ", ".join(f"{label} {value}".replace(" ", "\N{NO-BREAK SPACE}") for label, value in alike)
        out += wrap([Span(f"alike on all: {said}", "muted")], width=width, hanging=4)
    for one in assessments:
        if one.compilation.error is not None:
            head: list[Span | str] = [Span(one.compilation.arch, "title"), " ", Span("does not compile: ", "bad")]
            out += wrap([*head, shortened(wording.compile_error(one.compilation.error), 300)], width=width, hanging=4)
    return out + _reasons(whole, width)


def _reasons(whole: Sequence[Assessment], width: int) -> list[Line]:
    """Return why each bottleneck is one, said once for the architectures with the same reason."""
    by_reason: dict[tuple[str, str], list[Assessment]] = {}
    for one in whole:
        if one.bottleneck is not None and one.bottleneck.reason:
            by_reason.setdefault((one.bottleneck.kind, one.bottleneck.reason), []).append(one)
    out: list[Line] = []
    for same in by_reason.values():
        bottleneck = same[0].bottleneck
        assert bottleneck is not None
        where = "" if len(same) == len(whole) else f"{', '.join(one.compilation.arch for one in same)}: "
        out += wrap([Span(where, "title"), *bottleneck_spans(bottleneck, with_class=False)], width=width, hanging=4)
    return out


def _chunks(names: Sequence[str], columns: Sequence[Sequence[str | None]], width: int) -> list[tuple[int, int]]:
    """Return which architectures stand beside each other, as ranges that each fit into `width`."""
    labels = max(len(label) for label, _ in ROWS)
    chunks: list[tuple[int, int]] = []
    start, used = 0, labels
    for number, name in enumerate(names):
        needed = _GAP + max(len(name), *(len(row[number] or _NONE) for row in columns)) if columns else _GAP + len(name)
        if number > start and used + needed > width:
            chunks.append((start, number))
            start, used = number, labels
        used += needed
    return [*chunks, (start, len(names))] if names else chunks


def _style(label: str, cell: str | None) -> Style:
    if cell is None:
        return "muted"
    if label == "spilled" and cell != "none":
        return "warn"
    if label == "bottleneck":
        return "good" if cell == "at-roofline" else "warn"
    return "number" if label == "predicted time" else "muted" if label in {"between", "as on"} else "plain"
