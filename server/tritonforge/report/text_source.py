"""A kernel's source with a heat column: all of it when it is short, else what is hot and what encloses that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.profile import LineHeat
from tritonforge.report import wording
from tritonforge.report.text import WIDTH, Line, Span, Style, bar, line, shortened

WHOLE = 40
"""Lines up to which a kernel is shown whole."""
_EXCERPT = 24
"""Lines that are shown of a longer one: with everything else they fill a screen."""
_HOT, _WARM = 0.25, 0.1
_WORTH_A_LOOK = 0.02
_BAR = 6
_REASON = 16
_WORKING = frozenset({"selected", "not_selected"})
"""States of a warp that could issue: no reason to wait."""
_ROOM_FOR_REASONS = 72
"""Columns from which on a line has room for the code and for why its warps wait."""


def source_with_heat(
    kernel: Kernel,
    source: str,
    heat: Mapping[int, LineHeat],
    *,
    marked: Iterable[int] = (),
    rows: int = WHOLE,
    width: int = WIDTH - 2,
) -> list[Line]:
    """Return the kernel's lines with share and, where it was sampled, the reason of the stalls at the end.

    Args:
        kernel: its range is shown, without decorators, blank lines, its docstring and a signature of many lines.
        source: the text of its file.
        heat: share of the time by line of the file; may be empty.
        marked: lines that a bottleneck or a finding points at: they are kept, and stand out.
        rows: up to how many lines it is shown whole.
        width: columns of a line.
    """
    texts = wording.source_lines(source)
    shown = _body(kernel, texts)
    if not shown:
        return []
    whole = shown
    kept_for_sure = {at for at in marked if at in shown}
    if len(shown) > rows:
        shown = _pick(kernel, shown, heat, kept_for_sure, min(rows, _EXCERPT))
    margin = min(len(texts[n - 1].expandtabs(4)) - len(texts[n - 1].expandtabs(4).lstrip()) for n in shown)
    digits = len(str(shown[-1]))
    reasons = any(one.stalls for one in heat.values())
    reasons = reasons and width >= _ROOM_FOR_REASONS
    width -= _BAR + 8 + 3 + digits + (_REASON + 2 if reasons else 0)
    out: list[Line] = []
    previous = None
    for number in shown:
        if previous is not None and whole.index(number) != whole.index(previous) + 1:
            out.append(line(Span(" " * (_BAR + 8 + digits - 1) + "⋮", "muted")))
        text = texts[number - 1].expandtabs(4).rstrip()[margin:]
        if number == shown[0] and text.endswith("("):
            text += "…"  # the rest of a signature of many lines is left out
        out.append(
            _row(
                number, text, heat.get(number), mark=number in kept_for_sure, digits=digits, width=width, reason=reasons
            )
        )
        previous = number
    return out


def dominant_stall(heat: LineHeat) -> tuple[str, float] | None:
    """Return the reason that held a line's warps back most, in words, with its share (0–1) of the line's samples."""
    waiting = {reason: share for reason, share in heat.stalls.items() if reason not in _WORKING and share > 0}
    if not waiting:
        return None
    reason = max(waiting, key=lambda name: waiting[name])
    return reason.replace("_", " "), waiting[reason]


def _row(number: int, text: str, heat: LineHeat | None, *, mark: bool, digits: int, width: int, reason: bool) -> Line:
    share = heat.share if heat is not None and heat.share == heat.share else 0.0  # NaN is no share
    style: Style = "bad" if share >= _HOT else "warn" if share >= _WARM else "muted"
    shares = wording.percent(share) if share >= 0.005 else ""
    code: Style = "code" if mark or share >= _WARM else "plain"
    spans = [
        Span(bar(share, _BAR).replace("░", " "), style),
        Span(f" {shares:>5}  ", style),
        Span(f"{number:>{digits}}", "muted"),
        Span(" │ ", "muted"),
        Span(shortened(text, width), code),
    ]
    stall = dominant_stall(heat) if heat is not None and shares and reason else None
    if stall is not None:
        pad = width - min(len(text), width) + 2
        spans += [Span(" " * pad), Span(shortened(stall[0], _REASON), "muted")]
    return line(*spans)


def _body(kernel: Kernel, texts: list[str]) -> list[int]:
    """The kernel's lines that say something: its `def`, and what follows the signature and the docstring."""
    first = kernel.name_range.start.line
    last = min(kernel.range.end.line, len(texts))
    signature = _signature_end(texts, first, last)
    begin = _docstring_end(texts, signature + 1, last) + 1
    lines = [first, *range(max(begin, first + 1), last + 1)] if first <= last else []
    return [n for n in lines if texts[n - 1].strip()]


def _signature_end(texts: list[str], first: int, last: int) -> int:
    """The line on which the brackets of the signature that begins on `first` are closed."""
    depth = 0
    for number in range(first, last + 1):
        code = texts[number - 1].split("#")[0]
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if depth <= 0 and code.rstrip().endswith(":"):
            return number
    return first


def _docstring_end(texts: list[str], first: int, last: int) -> int:
    """The last line of the docstring that begins on or after `first`; the line before `first` without one."""
    start = next((n for n in range(first, last + 1) if texts[n - 1].strip()), first)
    text = texts[start - 1].strip().lstrip("rRuU") if start <= last else ""
    quote = text[:3] if text[:3] in {'"""', "'''"} else text[:1] if text[:1] in {'"', "'"} else ""
    if not quote:
        return first - 1
    if quote in text[len(quote) :]:
        return start
    return next((n for n in range(start + 1, last + 1) if quote in texts[n - 1]), first - 1)


def _pick(kernel: Kernel, lines: list[int], heat: Mapping[int, LineHeat], sure: set[int], rows: int) -> list[int]:
    """Choose `rows` lines: the `def`, marked ones, the hottest, the headers of their loops, then their neighbours."""
    chosen: set[int] = set()
    known = set(lines)

    def take(candidates: Iterable[int]) -> None:
        for number in candidates:
            if number in known and len(chosen) < rows:
                chosen.add(number)

    hot = [n for n, one in sorted(heat.items(), key=lambda item: -item[1].share) if one.share >= _WORTH_A_LOOK]
    take(lines[:1])
    take(sorted(sure))
    for number in hot:
        take((number,))
        take(loop.range.start.line for loop in kernel.loops if loop.range.start.line <= number <= loop.range.end.line)
    around = hot or sorted(sure) or lines[:rows]
    for distance in range(1, rows):
        take(n + step for n in around for step in (-distance, distance))
    return sorted(chosen)
