"""Read a report with whatever can read one here."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

from tritonforge.profiling.nsight.errors import ReportError
from tritonforge.profiling.nsight.finding import MEND, find_ncu
from tritonforge.profiling.nsight.isolated import Broken, read_isolated
from tritonforge.profiling.nsight.launch import ReportedLaunch
from tritonforge.profiling.nsight.pages import parse_pages

_MAGIC = b"NVR\0"
_SECONDS = 120.0
RAW_PAGE = ("--page", "raw", "--csv", "--print-units", "base", "--print-fp")
SASS_PAGE = ("--page", "source", "--csv", "--print-units", "base", "--print-source", "sass")
LINES_PAGE = ("--page", "source", "--csv", "--print-units", "base", "--print-source", "cuda,sass")
"""Options of `ncu --import FILE` for the pages that `parse_pages` reads."""


def read_report(path: Path, functions: Collection[str] | None = None) -> tuple[ReportedLaunch, ...]:
    """Return every launch of a `.ncu-rep` file, in the order in which they were profiled.

    Launches of other functions than `functions` (names, or their starts; None: all) may come without their
    instructions, which are slow to read.

    Raises:
        ReportError: the file is missing, of another kind, cut off or empty, or nothing here can read reports.
    """
    try:
        if not path.is_dir() and path.exists() and not path.is_file():  # a pipe would be waited for, and is read twice
            raise ReportError(
                f"{path} is not a file.", "Give a .ncu-rep file that ncu -o or Nsight Compute has written."
            )
        with path.open("rb") as stream:
            start = stream.read(len(_MAGIC))
    except OSError as error:
        raise ReportError(f"Cannot read {path}: {error.strerror or error}.") from error
    if start != _MAGIC:
        raise ReportError(
            f"{path} is not an Nsight Compute report.",
            "Give a .ncu-rep file that ncu -o or Nsight Compute has written.",
        )
    read = read_isolated(path, functions)
    ncu = find_ncu() if read is None or isinstance(read, Broken) or not read else None
    if ncu is not None:
        launches = _through_command(ncu, path)
    elif read is None:
        raise ReportError("Nothing here can read an Nsight Compute report.", MEND)
    elif isinstance(read, Broken):
        raise ReportError(
            f"The installed ncu_report cannot read {path}: {read.why}.",
            "Install a newer one (pip install -U ncu-report), or put ncu on PATH.",
        )
    else:
        launches = read
    if not launches or not all(launch.name for launch in launches):
        raise ReportError(
            f"{path} cannot be read to its end: it is cut off, damaged, empty, or newer than the reader here.",
            "Copy it again, or make it again with at least one kernel in it.",
        )
    return launches


def _through_command(ncu: Path, path: Path) -> tuple[ReportedLaunch, ...]:
    pages = []
    for options in (RAW_PAGE, SASS_PAGE, LINES_PAGE):
        try:
            done = subprocess.run(
                [str(ncu), "--import", str(path), *options],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReportError(f"{ncu} could not read {path}: {error}.", MEND) from error
        pages.append(done.stdout)
    return parse_pages(*pages)
