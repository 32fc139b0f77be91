"""Source locations in MLIR text and in disassembly: which line of the user's file an operation belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

Frame = tuple[str, int]
"""A file as the compiler names it, and a 1-based line."""

_ALIAS = re.compile(r"^#(loc\d*) = loc\((.*)\)\s*$", re.MULTILINE)
_FILE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+)')
_NAMED = re.compile(r'^"(?:[^"\\]|\\.)*"\((.*)\)$')
_REFERENCE = re.compile(r"^(?:loc\()?#(loc\d*)\)?$")


@dataclass(frozen=True)
class Locations:
    """The location aliases of one MLIR module, resolved to frames, innermost first; `file` is the user's file."""

    frames: dict[str, tuple[Frame, ...]]
    file: str

    def line(self, location: str) -> int | None:
        """Return the line in the user's file of `#loc12`, `loc(#loc12)` or a location written out, or None."""
        return user_line(self.chain(location), self.file)

    def chain(self, location: str) -> tuple[Frame, ...]:
        """Return all frames of a location, innermost first."""
        reference = _REFERENCE.match(location)
        if reference:
            return self.frames.get(reference[1], ())
        text = location[4:-1] if location.startswith("loc(") else location
        return _resolve(text, {}, self.frames, 0)


@lru_cache(maxsize=8)
def read_locations(text: str, file: str) -> Locations:
    """Read the `#loc… = loc(…)` aliases of an MLIR module."""
    raw = {m[1]: m[2] for m in _ALIAS.finditer(text)}
    frames: dict[str, tuple[Frame, ...]] = {}
    for name, value in raw.items():
        if name not in frames:
            frames[name] = _resolve(value, raw, frames, 0)
    return Locations(frames, file)


def user_line(chain: Iterable[Frame], file: str) -> int | None:
    """Return the line of the innermost frame of `chain` that lies in `file`, or None.

    Innermost, so that what a helper in the same file does is charged to the helper's own lines, and what a library
    function does to the line that calls it.
    """
    return next((line for name, line in chain if line > 0 and same_file(name, file)), None)


def same_file(name: str, file: str) -> bool:
    """Tell whether a compiler's file name means `file`; a relative one needs only end alike."""
    if name == file:
        return True
    name, file = name.replace("\\", "/"), file.replace("\\", "/")
    return name == file or (not name.startswith("/") and file.endswith("/" + name.removeprefix("./")))


def _resolve(text: str, raw: dict[str, str], known: dict[str, tuple[Frame, ...]], depth: int) -> tuple[Frame, ...]:
    text = text.strip()
    if depth > 64:  # a cycle, which a compiler never writes
        return ()
    reference = _REFERENCE.match(text)
    if reference:
        name = reference[1]
        if name not in known and name in raw:
            known[name] = _resolve(raw[name], raw, known, depth + 1)
        return known.get(name, ())
    if text.startswith("callsite(") and text.endswith(")"):
        callee, _, caller = _split_at(text[len("callsite(") : -1])
        return _resolve(callee, raw, known, depth + 1) + _resolve(caller, raw, known, depth + 1)
    if text.startswith("fused"):
        inner = text[text.find("[") + 1 : text.rfind("]")]
        return next((c for part in inner.split(",") if (c := _resolve(part, raw, known, depth + 1))), ())
    named = _NAMED.match(text)
    if named:
        return _resolve(named[1], raw, known, depth + 1)
    place = _FILE.match(text)
    return ((place[1], int(place[2])),) if place else ()


def _split_at(text: str) -> tuple[str, str, str]:
    """Split `A at B` at the ` at ` that is outside all brackets and quotes."""
    depth, quoted = 0, False
    for i, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif not quoted and character in "([":
            depth += 1
        elif not quoted and character in ")]":
            depth -= 1
        elif depth == 0 and not quoted and text.startswith(" at ", i):
            return text[:i], " at ", text[i + 4 :]
    return text, "", ""
