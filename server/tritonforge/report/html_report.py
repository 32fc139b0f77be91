"""The kernel report: one page that stands alone in a browser or an editor's panel.

The page's policy names the hashes of its one style sheet and its one script, so that nothing that a source, a name or a
report contains can ever run or load anything. The same reports give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files

from tritonforge.domain.kernel_report import KernelReport, LaunchReport, Listing
from tritonforge.report import wording
from tritonforge.report.html_listing import STEPS, listing_html, workspace_html
from tritonforge.report.html_report_parts import cards_html, findings_html, launches_html, search_html, stalls_html
from tritonforge.report.html_roofline import roofline_html
from tritonforge.report.html_style import STYLE

MOST_LAUNCHES = 8
"""Launches that are shown whole; the others are in the table."""
MOST_ROWS = 60_000
"""Rows of listings on one page: it stays below ten megabytes."""
LEFT_OUT = "Left out: the page has the listings of other launches, and would become too large for a browser."

Render = Callable[[Listing], str]


def report_html(
    reports: Sequence[KernelReport],
    *,
    version: str,
    title: str = "",
    uri: str = "",
    notes: Sequence[str] = (),
    render: Render = listing_html,
) -> str:
    """Return the page of one or more kernels.

    Args:
        reports: the kernels, in the order in which they are shown.
        version: of this tool.
        title: of the page; the first kernel's name when empty.
        uri: what an editor asked about, which its panel remembers.
        notes: sentences about the page as a whole, such as why it is empty.
        render: gives the rows of a listing; one that remembers makes a page of known listings cheap.
    """
    name = title or (reports[0].kernel.name if reports else "Kernel report")
    kernel = reports[0].kernel.name if len(reports) == 1 else ""
    alone = bool(kernel) and name == kernel
    body = [f'<body data-uri="{escape(uri)}" data-kernel="{escape(kernel)}">\n<main>']
    body += [] if alone else [f"<h1>{escape(name)}</h1>"]
    body += [f'<p class="next" role="note">{escape(note)}</p>' for note in notes]
    for index, report in enumerate(_limited(reports)):
        parts = _kernel(report, index, render, heading="h1" if alone else "h2")
        body += map(_raised, parts) if alone else parts
    body.append(f'<p class="muted">TritonForge {escape(version)}</p>\n</main>')
    return "\n".join([*_head(name), *body, f"<script>{_script()}</script>\n</body>\n</html>", ""])


def _raised(part: str) -> str:
    """Make headings of the third level ones of the second, for a page whose first is the kernel's: none is left out."""
    # No text has such signs: they are escaped.
    return part.replace("<h3", '<h2 class="part"').replace("</h3>", "</h2>")


@cache
def _style() -> str:
    return STYLE + (files("tritonforge.report") / "assets" / "kernel_report.css").read_text(encoding="utf-8") + STEPS


@cache
def _script() -> str:
    return (files("tritonforge.report") / "assets" / "kernel_report.js").read_text(encoding="utf-8")


@cache
def _policy() -> str:
    hashes = {
        name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for name, text in (("style", _style()), ("script", _script()))
    }
    return (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _limited(reports: Sequence[KernelReport]) -> Iterator[KernelReport]:
    """Yield the reports with as many listings as the page has room for."""
    left = MOST_ROWS
    for report in reports:
        launches: list[LaunchReport] = []
        for launch in report.launches:
            rows = sum(len(listing.rows) for listing in launch.listings)
            fits = rows <= left and len(launches) < MOST_LAUNCHES
            left -= rows if fits else 0
            launches.append(launch if fits or not rows else replace(launch, listings=(), listings_note=LEFT_OUT))
        yield replace(report, launches=tuple(launches))


def _head(title: str) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)} · TritonForge</title>"
    yield f"<style>{_style()}</style>\n</head>"


def _kernel(report: KernelReport, index: int, render: Render, *, heading: str) -> Iterator[str]:
    kernel, search = report.kernel, report.search
    yield f'<section class="kernel" data-index="{index}" aria-labelledby="k{index}">\n<div class="head"><div>'
    yield f'<{heading} id="k{index}"><code>{escape(kernel.name)}</code></{heading}>'
    where = " · ".join(part for part in (wording.place(kernel), report.target) if part)
    yield f'<div class="muted">{escape(where)}</div></div>'
    yield from _actions(report)
    yield "</div>"
    if report.stale:
        yield '<p class="next stale" role="note">The code has changed since. Profile it again.</p>'
    elif report.next_step:
        yield f'<p class="next" role="note"><b>Next:</b> {escape(report.next_step)}</p>'
    shown = report.launches[:MOST_LAUNCHES]
    if len(shown) > 1:
        yield '<p hidden><label>Launch <select data-launches aria-label="Launch to show">'
        for launch in shown:
            yield f"<option>{escape(_option(launch))}</option>"
        yield "</select></label></p>"
    for number, launch in enumerate(shown):
        yield from _launch(report, launch, f"k{index}-{number}", render, several=len(shown) > 1)
    if not shown:
        yield "<div data-launch><h3>Source and what the compiler makes of it</h3>"
        yield workspace_html(kernel, report.text, None, f"k{index}-0", ())
        yield "</div>"
    if search is not None:
        yield from search_html(search, f"k{index}-trials")
    yield from findings_html(report, f"k{index}-0")
    yield from launches_html(report.launches)
    yield "</section>"


def _actions(report: KernelReport) -> Iterator[str]:
    """Yield the buttons; they appear in an editor, which does what they say."""
    best = report.search.best if report.search else None
    buttons = [("profile", "Profile", ""), ("optimize", "Optimize", ""), ("export", "Export HTML", "")]
    if best is not None and not report.stale:
        buttons.insert(0, ("apply", f"Apply {wording.factor(best.speedup)}", ' class="primary"'))
    yield '<div class="actions" role="toolbar" aria-label="Actions" hidden>'
    for action, label, look in buttons:
        yield f'<button type="button" data-do="{action}"{look}>{escape(label)}</button>'
    yield "</div>"


def _option(launch: LaunchReport) -> str:
    parts = [wording.problem(launch.launch) or f"grid {wording.grid(launch.launch)}", wording.time_us(launch.time_us)]
    return " · ".join([*parts, launch.provenance] if launch.time_us is not None else parts[:1])


def _launch(report: KernelReport, launch: LaunchReport, key: str, render: Render, *, several: bool) -> Iterator[str]:
    search = report.search
    yield f'<div data-launch="{escape(launch.launch.id)}">'
    if several:
        yield f"<h3>Launch {escape(_option(launch))}</h3>"
    yield from cards_html(launch, search)
    yield '<div class="charts"><section><h3>Roofline</h3>'
    yield from roofline_html(launch, f"{key}-roof", search.provenance if search else "")
    yield "</section><section>"
    yield from stalls_html(launch)
    yield "</section></div>\n<h3>Source and what the compiler made of it</h3>"
    listings = [render(listing) for listing in launch.listings]
    yield workspace_html(report.kernel, report.text, launch, key, listings)
    sentences = tuple(dict.fromkeys((*launch.missing, *launch.notes)))
    if sentences:
        yield "<details><summary class=muted>How this was found out, and what is missing</summary><ul>"
        for sentence in sentences:
            yield f"<li>{escape(sentence)}</li>"
        yield "</ul></details>"
    yield "</div>"
