"""Folders in which kernels are optimised: copies, so that nothing of the repository or an installed package changes."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from suite.loading import PLAIN
from suite.shipped import Shipped

DRIVERS = Path(__file__).parent / "drivers"


def plain_workspace(folder: Path, name: str) -> Path:
    """Put a plain kernel's file into a new workspace; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tritonforge.toml").touch()  # marks the root
    return Path(shutil.copy(PLAIN / f"{name}.py", folder))


def shipped_workspace(folder: Path, one: Shipped) -> tuple[Path, Path]:
    """Put a whole package and a driver into a workspace; returns the kernel's file and the driver's.

    Raises:
        ModuleNotFoundError: when the package is not installed.
    """
    spec = importlib.util.find_spec(one.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{one.package} is not installed")
    if not (folder / one.package).exists():
        (source,) = spec.submodule_search_locations
        shutil.copytree(source, folder / one.package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tritonforge.toml").touch()
    return folder / one.file, Path(shutil.copy(DRIVERS / f"{one.driver}.py", folder))
