"""The files behind what a program does: those whose change would make it launch or compile something else."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tritonforge.domain.file_state import file_state
from tritonforge.worker.loading import Loaded
from tritonforge.worker.places import real_path

_KNOWN_BY_VERSION = frozenset(["torch", "triton", "tritonforge"])


def files_behind(loaded: Loaded) -> tuple[tuple[str, str], ...]:
    """Return (path, `file_state`) of each file that `loaded` was made from, sorted; call it while it is not active.

    These are all workspace modules, all of the package that the program's own file is in, every library module that
    uses Triton, and the first file of every other library. Files whose text came with the program are left out, and so
    is torch, whose version says enough; of Triton its compiler counts, which may have been built anew.
    """
    own = loaded.module.__name__.partition(".")[0]
    found = dict.fromkeys(_files(loaded.modules, own, everything=True))
    found |= dict.fromkeys(_files(sys.modules, own, everything=False))
    compiler = _compiler()
    if compiler:
        found[compiler] = None
    return tuple((path, _state(path, _stamp(path))) for path in sorted(found) if path not in loaded.overlays)


def _files(modules: Mapping[str, object], own: str, *, everything: bool) -> Iterator[str]:
    for name, module in list(modules.items()):
        if not isinstance(module, ModuleType):
            continue
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in _KNOWN_BY_VERSION or top == "__main__":
            continue
        names = module.__dict__  # lazy modules must not be asked for attributes
        path = names.get("__file__")
        if isinstance(path, str) and (everything or top in {name, own} or "triton" in names or "tl" in names):
            yield real_path(path)


def _compiler() -> str | None:
    module = sys.modules.get("triton._C.libtriton")
    path = getattr(module, "__file__", None)
    return real_path(path) if path else None


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=16384)
def _state(path: str, stamp: tuple[int, int]) -> str:  # noqa: ARG001 - the stamp makes a changed file another question
    return file_state(path)
