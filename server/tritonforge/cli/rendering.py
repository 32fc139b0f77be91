"""Styled lines → the terminal. Colour only where stdout is a terminal that has it; plain text in a pipe."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.style import Style as RichStyle
from rich.text import Text

from tritonforge.report.text import WIDTH, Line, Style, to_ascii

_STYLES: dict[Style, RichStyle] = {
    "plain": RichStyle(),
    "title": RichStyle(bold=True),
    "muted": RichStyle(dim=True),
    "good": RichStyle(color="green"),
    "warn": RichStyle(color="yellow"),
    "bad": RichStyle(color="red"),
    "code": RichStyle(color="cyan"),
    "number": RichStyle(bold=True),
    "add": RichStyle(color="green"),
    "remove": RichStyle(color="red"),
    "hunk": RichStyle(color="cyan", dim=True),
}


_LEAST_WIDTH, _MOST_WIDTH = 40, 120


class _Console(Console):
    """A console that leaves a reader that went away (`| head`) to whoever decides about exit codes."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_lines(lines: Iterable[Line], *, stderr: bool = False) -> None:
    """Print `lines` on stdout (or stderr), in ASCII where its encoding shows nothing else."""
    console = _Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)
    for text in styled(lines, console.encoding):
        console.print(text)


def print_json(value: object) -> None:
    """Print `value` as JSON on stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def speak_utf8() -> None:
    """Let stdout speak UTF-8 with plain line ends, whatever the terminal speaks: a program reads it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n", errors="backslashreplace")  # a file may have any name


def text_width(*, stderr: bool = False) -> int:
    """Return how many columns text may take: those of the terminal, and as many as a page where there is none.

    On a very wide terminal not all of them: lines of prose that long are hard to follow.
    """
    console = Console(stderr=stderr)
    return max(_LEAST_WIDTH, min(console.width, _MOST_WIDTH)) if console.is_terminal else WIDTH


def styled(lines: Iterable[Line], encoding: str) -> Iterator[Text]:
    """Return `lines` for a console, in ASCII where `encoding` shows nothing else."""
    shown = list(lines)
    if not _speaks_unicode(encoding):
        shown = to_ascii(shown)
    for line in shown:
        text = Text()
        for span in line.spans:
            text.append(harmless(span.text), _STYLES[span.style])
        yield text


def harmless(text: str) -> str:
    """Return `text` with what would steer a terminal, or begin a line of its own, written out.

    Names of files and errors of compilers may hold anything, and a log that a CI system reads is steered by its lines.
    """
    return text if text.isprintable() else _STEERING.sub(lambda found: repr(found[0])[1:-1], text)


# Control characters but for the tab, those that turn the direction of writing, and bytes of names that are no text.
_STEERING = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _speaks_unicode(encoding: str) -> bool:
    try:
        "×µ█".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
