"""Loading the plain kernels, and versions of them, as modules."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

PLAIN = Path(__file__).parent / "plain"
_numbers = itertools.count()


def plain(name: str) -> ModuleType:
    """Load a plain kernel's file."""
    return load(PLAIN / f"{name}.py")


def load(path: Path) -> ModuleType:
    """Load a file as a module of a name of its own: two versions of one kernel must not meet.

    It must lie on disk, because Triton reads the source of kernels from their file.
    """
    name = f"suite_{path.stem}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
