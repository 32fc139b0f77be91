"""Nsight Compute's command line: where it is, and how it is asked to count exactly what is wanted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

SECTIONS = (
    "SpeedOfLight",
    "Occupancy",
    "LaunchStats",
    "SchedulerStats",
    "WarpStateStats",
    "SourceCounters",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "InstructionStats",
)
"""What is counted: everything that a diagnosis reads, and nothing that costs further passes."""

PAGES = {
    "raw": ("--page", "raw", "--csv", "--print-units", "base", "--print-fp"),
    "sass": ("--page", "source", "--csv", "--print-units", "base", "--print-source", "sass"),
    "lines": ("--page", "source", "--csv", "--print-units", "base", "--print-source", "cuda,sass"),
}
"""Options that print a report's pages as CSV."""

_PLACES = (
    "/usr/local/cuda*/bin",
    "/usr/local/cuda*/nsight-compute*",
    "/opt/nvidia/nsight-compute/*",
    "/usr/local/NVIDIA-Nsight-Compute*",
)


def find_ncu() -> str | None:
    """Return the `ncu` command: the one on PATH, else the newest of the usual places; None when there is none."""
    found = shutil.which("ncu")
    if found is not None:
        return found
    for pattern in _PLACES:
        for folder in sorted(Path("/").glob(pattern[1:]), reverse=True):
            tool = folder / "ncu"
            if tool.is_file() and os.access(tool, os.X_OK):
                return str(tool)
    return None


def ncu_command(ncu: str, report: Path, log: Path) -> list[str]:
    """Return the command that a program's own command follows.

    Clocks are left as they are: shares should speak of the speed that people see, and locking them needs rights. Caches
    are flushed before every pass (Nsight Compute's default), as the timing does. Only what lies between the program's
    calls of cudaProfilerStart and cudaProfilerStop is profiled, in the program itself and not in what it starts.
    """
    sections = [word for section in SECTIONS for word in ("--section", section)]
    return [
        ncu,
        *("--target-processes", "application-only", "--replay-mode", "kernel"),
        *("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"),
        *sections,
        *("--import-source", "no", "--log-file", str(log), "--force-overwrite", "--export", str(report)),
    ]


def version_of(ncu: str) -> str:
    """Return the version that a command says it has; empty when it says none."""
    try:
        done = subprocess.run(
            [ncu, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"Version\s+([\d.]+)", done.stdout)
    return found[1] if found else ""
