"""Text from the other side, made harmless for a terminal."""

from __future__ import annotations


def plain(text: str, most: int = 2000) -> str:
    """Return `text` in at most `most` characters, without what would command a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
