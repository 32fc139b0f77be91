"""Where a workspace begins, and what a file in it is called."""

from __future__ import annotations

import os
from pathlib import Path

MARKERS = (".git", "pyproject.toml", "tritonforge.toml")


def workspace_root(path: Path) -> Path:
    """Return the nearest folder at or above `path` that holds one of `MARKERS`, else the current folder.

    `path` may be a file, a folder, or something that does not exist yet. Symbolic links are kept as the user wrote
    them: a linked file belongs to the workspace it is seen in.
    """
    start = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return Path.cwd()


def workspace_name(root: Path, path: Path) -> str:
    """Return what `path` is called in results: relative to `root` with `/`, or absolute when it lies outside."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    try:
        return absolute.relative_to(root).as_posix()
    except ValueError:
        return absolute.as_posix()
