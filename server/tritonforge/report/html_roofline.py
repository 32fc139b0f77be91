"""The roofline of one launch: its ceilings, where it stands now, and where the best version found stands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from tritonforge.domain.kernel_report import LaunchReport
from tritonforge.domain.profile import Roofline
from tritonforge.report import svg, wording

_WIDTH, _HEIGHT = 460, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 446, 14, 240


class _Point(NamedTuple):
    name: str
    roofline: Roofline
    time_us: float | None
    kind: str


def roofline_html(launch: LaunchReport, key: str, provenance: str = "") -> Iterator[str]:
    """Yield the chart, its legend and the same numbers as a table; `provenance` is that of the best version."""
    if launch.roofline is None:
        yield '<p class="muted">The ceilings of this GPU, or what the launch moves, are not known.</p>'
        return
    points = [_Point("now", launch.roofline, launch.time_us, _kind("now", launch.provenance))]
    if launch.after is not None:
        points.append(_Point("best version", launch.after, launch.after_us, _kind("best", provenance)))
    place = launch.roofline
    if place.flops > 0 and place.bytes > 0 and place.ceiling_gbps > 0 and place.ceiling_tflops > 0:
        yield from svg.chart((_WIDTH, _HEIGHT), key, "Roofline", _description(points), _plot(points))
    elif place.ceiling_gbps > 0:
        yield from svg.chart((_WIDTH, 92), key, "Share of the memory bandwidth", _description(points), _bars(points))
    yield from _legend(points)
    yield from _table(points, launch.provenance, provenance)


def _kind(name: str, provenance: str) -> str:
    return f"{name} predicted" if provenance == "predicted" else name


def _description(points: list[_Point]) -> str:
    place = points[0].roofline
    said = [
        f"{point.name}: {wording.percent(point.roofline.fraction)} of the roofline"
        + (f" in {wording.time_us(point.time_us)}" if point.time_us else "")
        + (", predicted" if "predicted" in point.kind else "")
        for point in points
    ]
    limit = "memory bandwidth" if place.bound == "memory" else "arithmetic"
    return f"Bound by {limit}. " + "; ".join(said) + "."


def _plot(points: list[_Point]) -> Iterator[str]:
    place = points[0].roofline
    intensity = place.flops / place.bytes
    ridge = place.ceiling_tflops * 1e3 / place.ceiling_gbps
    reached = [p.roofline.achieved_tflops for p in points if p.roofline.achieved_tflops]
    x = svg.LogScale(min(intensity, ridge) / 6, max(intensity, ridge) * 6, _LEFT, _RIGHT)
    left_roof = min(place.ceiling_tflops, x.low * place.ceiling_gbps / 1e3)
    y = svg.LogScale(min([left_roof, *reached]) / 1.6, place.ceiling_tflops * 2.2, _BOTTOM, _TOP)
    for value in x.ticks():
        yield svg.line(x(value), _TOP, x(value), _BOTTOM, "grid")
        yield svg.text(x(value), _BOTTOM + 14, svg.number(value), anchor="middle")
    for value in y.ticks():
        yield svg.line(_LEFT, y(value), _RIGHT, y(value), "grid")
        yield svg.text(_LEFT - 5, y(value) + 4, svg.number(value), anchor="end")
    yield svg.text((_LEFT + _RIGHT) / 2, _HEIGHT - 8, "FLOP per byte of device memory", anchor="middle")
    yield svg.text(12, (_TOP + _BOTTOM) / 2, "TFLOP/s", anchor="middle", turn=-90)
    # From where the slope enters the picture: at its left edge, or above its floor.
    start = max(x.low, y.low * 1e3 / place.ceiling_gbps)
    begin = x(start), y(start * place.ceiling_gbps / 1e3)
    knee = x(ridge), y(place.ceiling_tflops)
    yield svg.line(*begin, *knee, "roof")
    yield svg.line(*knee, _RIGHT, knee[1], "roof")
    slope = math.degrees(math.atan2(knee[1] - begin[1], knee[0] - begin[0]))
    middle = (begin[0] + knee[0]) / 2, (begin[1] + knee[1]) / 2 - 6
    yield svg.text(*middle, f"{wording.rate(place.ceiling_gbps)} GB/s", anchor="middle", turn=slope)
    yield svg.text(_RIGHT - 2, knee[1] - 6, f"{wording.rate(place.ceiling_tflops)} TFLOP/s", anchor="end")
    shown = [(point, y(point.roofline.achieved_tflops)) for point in points if point.roofline.achieved_tflops]
    if len(shown) > 1:
        yield svg.line(x(intensity), shown[0][1], x(intensity), shown[1][1], "move")
    right = x(intensity) < (_LEFT + _RIGHT) * 0.6
    close = len(shown) > 1 and abs(shown[0][1] - shown[1][1]) < 14
    for index, (point, height) in enumerate(shown):
        label = f"{point.name}: {wording.percent(point.roofline.fraction)}"
        draw = svg.circle if index == 0 else svg.diamond
        yield draw(x(intensity), height, 5 + index, point.kind, _numbers(point))
        aside = (9 if index == 0 else -9) * (1 if shown[0][1] >= shown[-1][1] else -1) if close else 0
        yield svg.text(
            x(intensity) + (10 if right else -10), height + 4 + aside, label,
            anchor="start" if right else "end", kind="strong",
        )  # fmt: skip


def _bars(points: list[_Point]) -> Iterator[str]:
    """Draw what the launch reaches of the memory's bandwidth: without FLOPs there is no place on a roofline."""
    ceiling = points[0].roofline.ceiling_gbps
    x = svg.LinearScale(ceiling * 1.06, 100, _RIGHT)
    for value in x.ticks():
        if value <= ceiling * 1.06:
            yield svg.line(x(value), 8, x(value), 60, "grid")
            yield svg.text(x(value), 74, svg.number(value), anchor="middle")
    yield svg.text((100 + _RIGHT) / 2, 89, "GB/s", anchor="middle")
    for index, point in enumerate(points):
        top = (12 if len(points) > 1 else 22) + index * 24
        reached = point.roofline.achieved_gbps or 0.0
        yield svg.text(94, top + 14, point.name, anchor="end", kind="strong")
        yield svg.bar(100, top, x(reached) - 100, 20, point.kind)
        # Beside a short bar, and inside a long one, where there is no room beside it.
        yield svg.text(
            min(x(reached) + 6, _RIGHT - 40), top + 14, wording.percent(point.roofline.fraction), kind="strong"
        )
    yield svg.line(x(ceiling), 4, x(ceiling), 60, "roof")
    yield svg.text(x(ceiling) - 5, 9, f"{wording.rate(ceiling)} GB/s", anchor="end")


def _numbers(point: _Point) -> str:
    place = point.roofline
    parts = [f"{point.name}: {wording.time_us(point.time_us)}"]
    parts += [f"{wording.rate(place.achieved_tflops)} TFLOP/s"] if place.achieved_tflops else []
    parts += [f"{wording.rate(place.achieved_gbps)} GB/s"] if place.achieved_gbps else []
    return ", ".join([*parts, f"{wording.percent(place.fraction)} of the roofline"])


def _legend(points: list[_Point]) -> Iterator[str]:
    marks = []
    for index, point in enumerate(points):
        draw = svg.circle if index == 0 else svg.diamond
        said = "predicted" if "predicted" in point.kind else "measured"
        icon = f'<svg viewBox="0 0 12 12" aria-hidden="true">{draw(6, 6, 4.5, point.kind)}</svg>'
        marks.append(f"<span>{icon}{escape(point.name)}, {said}</span>")
    yield f'<p class="legend">{"".join(marks)}</p>'


def _table(points: list[_Point], now: str, best: str) -> Iterator[str]:
    yield '<details><summary class="muted">Numbers</summary><div class="scroll"><table>'
    yield "<tr><td></td>" + "".join(f'<th scope="col">{escape(point.name)}</th>' for point in points) + "</tr>"
    place = points[0].roofline
    rows = (
        ("time", [f"{wording.time_us(p.time_us)} ({said})" for p, said in zip(points, (now, best), strict=False)]),
        ("share of the roofline", [wording.percent(p.roofline.fraction) for p in points]),
        ("memory", [_of(p.roofline.achieved_gbps, place.ceiling_gbps, "GB/s") for p in points]),
        ("arithmetic", [_of(p.roofline.achieved_tflops, place.ceiling_tflops, "TFLOP/s") for p in points]),
        ("bytes to move", [wording.size(p.roofline.bytes) for p in points]),
        ("FLOP", [wording.rate(p.roofline.flops) for p in points]),
    )
    for name, cells in rows:
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{name}</th>{shown}</tr>'
    yield "</table></div></details>"


def _of(reached: float | None, ceiling: float, unit: str) -> str:
    return f"{wording.rate(reached) if reached is not None else '—'} of {wording.rate(ceiling)} {unit}"
