"""Text from the other side, made harmless for a terminal; and commands, without what is nobody else's business."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

_SECRET = re.compile(
    r"pass(?:word|wd|phrase|code)?\b|secret|token|api[-_]?key|credential|private[-_]?key", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(//[^/@:\s]*:)[^/@\s]+@")
_HIDDEN = "…"


def plain(text: str, most: int = 2000) -> str:
    """Return `text` in at most `most` characters, without what would command a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text[:most])


def shown(command: Sequence[str]) -> str:
    """Return a command as a person would type it, with values left out whose names speak of secrets.

    A sentence that quotes a command may end in a log.
    """
    parts: list[str] = []
    hide, before = False, ""
    for part in command:
        name, equals, _ = part.partition("=")
        if hide:
            parts.append(_HIDDEN)
        elif equals and _SECRET.search(name):
            parts.append(f"{name}={_HIDDEN}")
        elif before == "sshpass" and part.startswith("-p") and part != "-p":
            parts.append(f"-p{_HIDDEN}")
        else:
            parts.append(_IN_ADDRESS.sub(rf"\1{_HIDDEN}@", shlex.quote(part)))
        asks = (part.startswith("-") and not equals and _SECRET.search(part)) or (before == "sshpass" and part == "-p")
        hide, before = bool(asks) and not hide, PurePath(part).name
    return " ".join(parts)
