"""How much of a prompt fits a model's window: sections are dropped whole, the least useful first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BYTES_PER_TOKEN = 2.5
"""Code has three to four bytes a token in the vocabularies that are about; fewer are taken, so that a prompt that is
taken to fit does fit."""

DROPPED_FIRST = (
    "trials of others",
    "other launches",
    "evidence",
    "hot lines",
    "earlier outcomes",
    "compilation",
    "findings",
    "target",
    "helpers",
    "last proposal",
)
"""Names of sections in the order in which they go; what is not listed is never dropped."""


@dataclass(frozen=True)
class Section:
    """One part of a prompt."""

    name: str
    text: str


def tokens_of(text: str) -> int:
    """Return how many tokens a text has at most, by its length."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def fitted(sections: Sequence[Section], most_tokens: int) -> tuple[tuple[Section, ...], tuple[str, ...]] | None:
    """Return the sections that fit into `most_tokens` and the names of those dropped; None when they cannot fit."""
    kept = [section for section in sections if section.text.strip()]
    dropped: list[str] = []
    for name in (*DROPPED_FIRST, None):
        if tokens_of(joined(kept)) <= most_tokens:
            return tuple(kept), tuple(dropped)
        if name is not None and any(section.name == name for section in kept):
            kept = [section for section in kept if section.name != name]
            dropped.append(name)
    return None


def joined(sections: Sequence[Section]) -> str:
    """Return the prompt."""
    return "\n\n".join(section.text.strip("\n") for section in sections) + "\n"
