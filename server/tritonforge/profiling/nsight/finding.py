"""Where Nsight Compute is on this machine: its Python interface and its command line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

MEND = "Install NVIDIA's reader next to this tool (pip install ncu-report), or Nsight Compute itself with ncu on PATH."
"""What to do when no report can be read."""
_ROOTS = ("/usr/local", "/opt/nvidia", "/opt/cuda")
_PATTERNS = ("cuda*/nsight-compute*", "NVIDIA-Nsight-Compute*", "nsight-compute*", "nsight-compute/*", "cuda*/bin/..")


def find_ncu(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the `ncu` command: the one on PATH, else the newest of the usual places; None when there is none."""
    on_path = shutil.which("ncu", path=environment.get("PATH"))
    if on_path:
        return Path(on_path)
    for folder in _installations():
        for place in (folder / "ncu", folder / "bin" / "ncu"):
            if place.is_file() and os.access(place, os.X_OK):
                return place
    return None


def import_ncu_report(environment: Mapping[str, str] = os.environ) -> ModuleType | None:
    """Return NVIDIA's `ncu_report` module: the installed package, else that of an installed Nsight Compute.

    None when there is none, or when it is for another Python or system and cannot be loaded.
    """
    if importlib.util.find_spec("ncu_report") is None and not _add_folder(environment):
        return None
    try:
        return importlib.import_module("ncu_report")
    except (ImportError, OSError, SyntaxError):
        return None


def _add_folder(environment: Mapping[str, str]) -> bool:
    candidates = list(_installations())
    ncu = find_ncu(environment)
    if ncu is not None:
        candidates = [*ncu.resolve().parents[:4], *candidates]
    for folder in candidates:
        python = folder / "extras" / "python"
        if (python / "ncu_report.py").is_file() or (python / "ncu_report").is_dir():
            sys.path.append(str(python))
            importlib.invalidate_caches()
            return True
    return False


def _installations() -> Iterator[Path]:
    for root in map(Path, _ROOTS):
        for pattern in _PATTERNS:
            try:
                yield from sorted((path for path in root.glob(pattern) if path.is_dir()), reverse=True)
            except OSError:
                continue
