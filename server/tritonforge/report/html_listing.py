"""A kernel's source with its heat and, beside it, the compiler's listings: rows that know which lines they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import LaunchReport, Listing
from tritonforge.domain.profile import LineHeat
from tritonforge.report import wording

_BLOCK = 64
"""Rows that a browser lays out together, once they come into sight."""
_SHOWN = 0.005
"""The share of the time from which on it is said."""
_NAMES = {"ttir": "TTIR", "ttgir": "TTGIR", "ptx": "PTX", "sass": "SASS", "amdgcn": "AMDGCN"}
_HINT = "Choose a line on either side to see what belongs to it on the other. Arrow keys move; → and ← change sides."
_REASONS = 3
NOT_COMPILED = "Nothing was compiled yet. Profile the kernel to see what the compiler makes of it."


def workspace_html(kernel: Kernel, text: str, launch: LaunchReport | None, key: str, listings: Sequence[str]) -> str:
    """Return both panes; `key` is unique on the page, `listings` the launch's as `listing_html` renders them."""
    return "\n".join(_workspace(kernel, text, launch, key, listings))


def _workspace(
    kernel: Kernel, text: str, launch: LaunchReport | None, key: str, listings: Sequence[str]
) -> Iterator[str]:
    heat: Mapping[int, LineHeat] = launch.lines if launch else {}
    measured = launch is not None and launch.lines_provenance == "measured"
    said = "share of stall samples, measured" if measured else "share of the time, predicted"
    yield '<div class="workspace"><div>'
    yield f'<div class="bar-top"><b>Source</b>{f"<span class=muted>{said}</span>" if heat else ""}</div>'
    label = f"Source of {kernel.name}" + (f", with each line's {said}" if heat else "")
    yield f'<div class="pane" role="listbox" data-pane="source" aria-label="{escape(label)}">'
    yield from _source(kernel, text, heat, key, measured=measured)
    yield "</div></div><div>"
    yield from _listings(launch, key, listings)
    yield "</div></div>"
    yield f'<p class="status muted" role="status" aria-live="polite" data-hint="{_HINT}"></p>'


def _source(kernel: Kernel, text: str, heat: Mapping[int, LineHeat], key: str, *, measured: bool) -> Iterator[str]:
    texts = wording.source_lines(text)
    before = None
    for number in _shown(kernel, heat, len(texts)):
        if before is not None and number > before + 1:
            yield '<div class="r gap" role="presentation"><span class="h"></span><span class="n">⋯</span></div>'
        before = number
        code = escape(texts[number - 1].expandtabs(4).rstrip()) or " "
        one = heat.get(number)
        yield (
            f'<div class="r{step(one.share) if one else ""}" role="option" id="{key}-{number}" '
            f'data-l="{number}"{_why(one, measured=measured)}>{_heat(one.share if one else 0.0)}'
            f'<span class="n">{number}</span><span class="t">{code}</span></div>'
        )
    if before is None:
        yield '<div class="r gap" role="presentation"><span class="t">The source is not at hand.</span></div>'


def _shown(kernel: Kernel, heat: Mapping[int, LineHeat], count: int) -> list[int]:
    """Return the lines of the kernel, of its helpers in the file, and those that are hot."""
    ranges = [kernel.range, *(helper.range for helper in kernel.helpers if helper.range is not None)]
    lines = {number for place in ranges for number in range(place.start.line, place.end.line + 1)} | heat.keys()
    return sorted(number for number in lines if 1 <= number <= count)


def step(share: float) -> str:
    """Return the class that gives a bar its width, in steps of 2 %: a strict policy allows no styles on elements."""
    return f" s{max(1, round(share * 50))}" if share >= _SHOWN else ""


STEPS = "".join(f".s{index}{{--s:{index * 2}%}}" for index in range(1, 51))
"""The rules of those classes."""


def _heat(share: float) -> str:
    shown = f"<i></i><b>{wording.percent(share)}</b>" if share >= _SHOWN else ""
    return f'<span class="h">{shown}</span>'


def _why(heat: LineHeat | None, *, measured: bool) -> str:
    if heat is None or heat.share < _SHOWN:
        return ""
    reasons = sorted(heat.stalls.items(), key=lambda item: -item[1])[:_REASONS]
    of = "of the stall samples" if measured else "of the time, predicted"
    said = f"{wording.percent(heat.share)} {of}"
    if reasons:
        said += ": " + ", ".join(f"{wording.stall(name)} {wording.percent(share)}" for name, share in reasons)
    return f' title="{escape(said)}"'


def _listings(launch: LaunchReport | None, key: str, listings: Sequence[str]) -> Iterator[str]:
    found = launch.listings if launch else ()
    if not found:
        note = launch.listings_note if launch else NOT_COMPILED
        yield '<div class="bar-top"><b>Compiler</b></div>'
        yield f'<div class="pane"><p class="note muted">{escape(note)}</p></div>'
        return
    yield '<div class="bar-top"><div role="tablist" aria-label="Compiler listings">'
    for listing in found:
        tab = f"{key}-{listing.kind}"
        yield (
            f'<button type="button" role="tab" id="{tab}-tab" data-tab="{tab}" aria-controls="{tab}" '
            f'aria-selected="false" hidden>{_NAMES[listing.kind]}</button>'
        )
    yield "</div><span>"
    for direction, name, sign in ((-1, "Previous matching row", "▲"), (1, "Next matching row", "▼")):
        yield (
            f'<button type="button" data-move="{direction}" aria-label="{name}" title="{name}" hidden>{sign}</button>'
        )
    yield "</span></div>"
    for listing, rows in zip(found, listings, strict=True):
        tab, name = f"{key}-{listing.kind}", _NAMES[listing.kind]
        yield (
            f'<div class="pane" role="tabpanel" id="{tab}" aria-labelledby="{tab}-tab">'
            f'<div role="listbox" aria-multiselectable="true" aria-label="{name}" data-pane="{listing.kind}">'
        )
        yield rows
        yield "</div></div>"


def listing_html(listing: Listing) -> str:
    """Return the rows of one listing: ten thousand take a while, so they are rendered once and kept."""
    sampled = bool(listing.shares)
    parts: list[str] = []
    for number, (row, lines) in enumerate(zip(listing.rows, listing.lines, strict=True)):
        if number % _BLOCK == 0:
            parts.append(f'{"</div>" if number else ""}<div class="block" role="presentation">')
        share = listing.shares.get(number, 0.0)
        place = f' data-l="{" ".join(map(str, lines))}"' if lines else ""
        parts.append(
            f'<div class="r{step(share)}" role="option"{place}>{_heat(share) if sampled else ""}'
            f'<span class="n">{lines[0] if lines else ""}</span><span class="t">{escape(row) or " "}</span></div>'
        )
    return "".join([*parts, "</div>" if parts else ""])
