"""Text for people, without a terminal library: lines of spans that carry a style name.

The command line turns style names into colours, an editor into markup, and a pipe gets the text alone. Everything
that matters is in the text; a style only helps the eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Style = Literal[
    "plain",
    "title",  # what a section is about
    "muted",  # context that the eye may skip
    "good",
    "warn",
    "bad",
    "code",  # source text and commands
    "number",  # the number that a line is about
    "add",  # diff: a line that comes
    "remove",  # diff: a line that goes
    "hunk",  # diff: headers
]

WIDTH = 100
"""The most columns a line of prose or a table takes. A diff is never cut: it is there to be copied."""


@dataclass(frozen=True)
class Span:
    """A stretch of text in one style."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True)
class Line:
    """One line of output, without its line break."""

    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(span.text for span in self.spans)

    def indented(self, by: int) -> Line:
        """Return the line moved right by `by` columns; an empty line stays empty."""
        return Line((Span(" " * by), *self.spans)) if by and self.spans else self


BLANK = Line()


def line(*parts: Span | str) -> Line:
    """Build a line from spans and plain strings; empty ones are left out."""
    spans = (Span(part) if isinstance(part, str) else part for part in parts)
    return Line(tuple(span for span in spans if span.text))


def indent(lines: Iterable[Line], by: int = 2) -> list[Line]:
    """Move every line right by `by` columns."""
    return [one.indented(by) for one in lines]


def wrap(parts: Sequence[Span | str], *, width: int = WIDTH, hanging: int = 0) -> list[Line]:
    """Break a paragraph at blanks into lines of at most `width` columns, all but the first indented by `hanging`.

    Styles are kept across breaks; a word longer than a line stays whole. A no-break space holds words together and
    comes out as a plain one.
    """
    # A word may be made of pieces of several styles, so break between words, not between spans.
    words: list[list[Span]] = [[]]
    for part in parts:
        span = Span(part) if isinstance(part, str) else part
        for number, piece in enumerate(span.text.replace("\n", " ").split(" ")):
            if number:
                words.append([])
            if piece:
                words[-1].append(Span(piece, span.style))
    lines: list[list[Span]] = []
    used = 0
    for word in (w for w in words if w):
        length = sum(len(piece.text) for piece in word)
        if not lines:
            lines.append([])
        elif used + 1 + length > width:
            lines.append([Span(" " * hanging)] if hanging else [])
            used = hanging
        else:
            blank_style = word[0].style if lines[-1] and lines[-1][-1].style == word[0].style else "plain"
            lines[-1].append(Span(" ", blank_style))
            used += 1
        lines[-1].extend(word)
        used += length
    return [
        Line(tuple(Span(span.text.replace("\N{NO-BREAK SPACE}", " "), span.style) for span in _merged(spans)))
        for spans in lines
    ]


def apart(span: Span) -> tuple[str, Span]:
    """Return what `wrap` sets two columns off from what stands before it, on the same line."""
    return " ", Span(f"\N{NO-BREAK SPACE}{span.text}", span.style)


def table(rows: Sequence[Sequence[Span | str]], *, right: Iterable[int] = (), gap: int = 2) -> list[Line]:
    """Align cells in columns, those of `right` to the right. The last cell of a row is never padded."""
    cells = [[Span(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    columns = max((len(row) for row in cells), default=0)
    widths = [max((len(row[c].text) for row in cells if c < len(row)), default=0) for c in range(columns)]
    to_right = set(right)
    out: list[Line] = []
    for row in cells:
        spans: list[Span] = []
        for column, cell in enumerate(row):
            pad = " " * (widths[column] - len(cell.text))
            last = column == len(row) - 1
            if column:
                spans.append(Span(" " * gap))
            if column in to_right:
                spans += [Span(pad), cell]
            else:
                spans += [cell] if last else [cell, Span(pad)]
        out.append(_stripped(Line(_merged(spans))))
    return out


def bar(fraction: float, width: int = 30) -> str:
    """Return a bar of `width` columns of which `fraction` (0–1) is full, in eighths of a column."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return filled + "░" * (width - len(filled))


def shortened(text: str, width: int) -> str:
    """Return `text` cut to `width` columns, with … where something is missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def plain(lines: Iterable[Line]) -> str:
    """Return the text of `lines`, each ended by a line break."""
    return "".join(one.text + "\n" for one in lines)


_ASCII = str.maketrans(
    {
        "×": "x",
        "µ": "u",
        "–": "-",
        "—": "-",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        "±": "+-",
        "·": "-",
        "…": "...",
        "│": "|",
        "⋮": ":",
        "█": "#",
        "░": ".",
        "✓": "+",
        "✗": "x",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "\N{NO-BREAK SPACE}": " ",
        **dict.fromkeys("▏▎▍", "."),
        **dict.fromkeys("▌▋▊▉", "#"),
    }
)


def to_ascii(lines: Iterable[Line]) -> list[Line]:
    """Return `lines` for a terminal that shows ASCII only: signs are spelled out, anything else becomes `?`."""
    return [
        Line(
            tuple(
                Span(span.text.translate(_ASCII).encode("ascii", "replace").decode(), span.style) for span in one.spans
            )
        )
        for one in lines
    ]


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    out: list[Span] = []
    for span in spans:
        if out and out[-1].style == span.style:
            out[-1] = Span(out[-1].text + span.text, span.style)
        elif span.text:
            out.append(span)
    return tuple(out)


def _stripped(one: Line) -> Line:
    spans = list(one.spans)
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].style)
    return Line(tuple(spans))
