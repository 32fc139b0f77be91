"""Versions of Triton as numbers that compare."""

from __future__ import annotations

import re

Version = tuple[int, int, int]


def version_of(text: str) -> Version | None:
    """Return `(3, 7, 1)` for `3.7.1`, `3.7.1+git1234` and the like; None for what is no version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def written(version: Version) -> str:
    """Return a version as people write it: `3.9` for `(3, 9, 0)`, `3.7.1` for `(3, 7, 1)`."""
    return ".".join(map(str, version if version[2] else version[:2]))
