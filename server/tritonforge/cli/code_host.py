"""What a code host that runs a command knows: the repository's paths, and the summary of the job's step."""

from __future__ import annotations

import os
from pathlib import Path

from tritonforge.cli.running import warn

_SUMMARY = "GITHUB_STEP_SUMMARY"
_SUMMARY_BYTES = 1 << 20
"""The most that GitHub takes for the summary of one step."""


def repository(root: Path) -> tuple[Path, str]:
    """Return the folder that a code host knows paths from, and what leads from there to the workspace `root`.

    It is the repository around the workspace, else the workspace. The way is empty, or ends with a `/`.
    """
    base = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    inside = root.relative_to(base).as_posix()
    return base, "" if inside == "." else f"{inside}/"


def append_summary(text: str) -> None:
    """Add to the summary of the workflow's step, where there is one and room for it."""
    place = os.environ.get(_SUMMARY)
    if not place:
        return
    path = Path(place)
    try:
        used = path.stat().st_size if path.exists() else 0
        data = text.encode("utf-8", "backslashreplace")  # names of files may have bytes that are no text
        if used + len(data) > _SUMMARY_BYTES:
            warn("the report is too long for the summary of a step, and was left out of it.")
            return
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        warn(f"{_SUMMARY} cannot be written: {error.strerror}.")
