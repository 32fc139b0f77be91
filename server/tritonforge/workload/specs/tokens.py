"""The text of a launch spec → tokens, each with its offset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tritonforge.workload.specs.errors import Place

Kind = Literal["name", "int", "float", "text", "sign", "end"]

MAX_CHARACTERS = 20_000
"""A longer spec is a mistake, and refused before anything is done with it."""

_SPACE = re.compile(r"(?:\s|#[^\n]*)+")
_NAME = re.compile(r"[^\W\d]\w*")
_FLOAT = re.compile(r"(?:\d[\d_]*\.(?!\.)\d*|\.\d+|\d[\d_]*(?=[eE]))(?:[eE][+-]?\d+)?")
_INT = re.compile(r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*")
_SIGN = re.compile(r"\.\.|\*\*|//|<<|>>|[=\[\](){},:.~@+\-*/%]")
_MAX_DIGITS = 40


@dataclass(frozen=True)
class Token:
    """One word or sign: `start` and `end` are offsets into the spec's text."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return "the end" if self.kind == "end" else repr(self.text[:40])


def tokenize(text: str, place: Place) -> tuple[Token, ...]:
    """Cut a spec into tokens; a `#` begins a remark that ends with the line. The last token is the `end`.

    Raises:
        SpecError: at a character that begins nothing, or a quote that is never closed.
    """
    if len(text) > MAX_CHARACTERS:
        raise place.error(0, f"a launch spec has at most {MAX_CHARACTERS} characters.", "Write several specs.")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        token = _token(text, at, place)
        tokens.append(token)
        at = token.end
    last = tokens[-1].end if tokens else 0
    return (*tokens, Token("end", "", last, last))


def _token(text: str, at: int, place: Place) -> Token:
    char = text[at]
    if char in "'\"":
        close = text.find(char, at + 1)
        line_end = text.find("\n", at + 1)
        if close < 0 or 0 <= line_end < close:
            raise place.error(at, "this quote is never closed.", f"Close it with {char} on the same line.")
        return Token("text", text[at : close + 1], at, close + 1)
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("name", _NAME),
        ("float", _FLOAT),
        ("int", _INT),
        ("sign", _SIGN),
    )
    for kind, pattern in kinds:
        found = pattern.match(text, at)
        if found is None:
            continue
        if kind in ("int", "float"):
            _check_number(found, text, place)
        return Token(kind, found[0], at, found.end())
    raise place.error(at, f"cannot read the character {char!r}.", "A spec is written name=value name=value ….")


def _check_number(found: re.Match[str], text: str, place: Place) -> None:
    if len(found[0]) > _MAX_DIGITS:
        raise place.error(found.start(), "this number is too long.")
    after = _NAME.match(text, found.end())
    if after:
        raise place.error(after.start(), f"expected a blank between {found[0]!r} and {after[0]!r}.")
    try:
        number = float(found[0]) if "x" not in found[0].lower() and "b" not in found[0].lower() else int(found[0], 0)
    except ValueError:
        raise place.error(found.start(), f"cannot read the number {found[0]!r}.") from None
    if number == float("inf"):
        raise place.error(found.start(), f"the number {found[0]} is too large.")
