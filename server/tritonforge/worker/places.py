"""Paths: workspace-relative names and where this worker keeps what it may compute again."""

from __future__ import annotations

import errno
import functools
import os
import sysconfig
from pathlib import Path

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep
_LIBRARIES = tuple({os.path.realpath(p) + os.sep for p in sysconfig.get_paths().values() if p and len(p) > 3})


def absolute(file: str, root: str) -> str:
    """Return the real absolute path of `file`, which is relative to `root` or already absolute."""
    return os.path.realpath(Path(root).expanduser() / Path(file).expanduser())


def relative(path: str, root: str) -> str:
    """Return `path` relative to `root` with `/`, or unchanged when it lies outside."""
    real = os.path.realpath(path)
    base = os.path.realpath(root)
    if real.startswith(base.rstrip(os.sep) + os.sep):
        return os.path.relpath(real, base).replace(os.sep, "/")
    return real


@functools.lru_cache(maxsize=16384)
def real_path(path: str) -> str:
    """Return `os.path.realpath(path)`, asked once: every loaded module is looked at for every program."""
    return os.path.realpath(path)


@functools.lru_cache(maxsize=16384)
def in_workspace(path: str, root: str) -> bool:
    """Tell whether `path` is the user's own: under `root`, but in no environment or library folder there."""
    if not path or path.startswith("<"):
        return False
    real = os.path.realpath(path)
    if not real.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep):
        return False
    return not is_library(real) and not real.startswith(_OURS)


def is_library(real: str) -> bool:
    """Tell whether a real path belongs to the interpreter or to an installed package."""
    return (
        f"{os.sep}site-packages{os.sep}" in real
        or f"{os.sep}dist-packages{os.sep}" in real
        or real.startswith(
            tuple(p for p in _LIBRARIES if p.rstrip(os.sep).endswith(("python3", "site-packages", "dist-packages")))
        )
    )


def cache_folder(*parts: str) -> Path:
    """Return (and create) a folder of the worker's disk cache.

    `TRITONFORGE_CACHE_DIR`, else `$XDG_CACHE_HOME/tritonforge`, else `~/.cache/tritonforge`.

    Raises:
        OSError: when it can neither be made nor written.
    """
    folder = _cache_home().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


def _cache_home() -> Path:
    base = os.environ.get("TRITONFORGE_CACHE_DIR")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tritonforge"


def no_room(error: OSError, folder: str | Path | None = None) -> str:
    """Return in a sentence with the mend that files cannot be written, in the cache or in `folder`.

    That is no fault of a kernel, however far into compiling it was met.
    """
    where = folder or error.filename or _cache_home()
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    mend = "Make room there, or set" if full else "Set"
    return (
        f"Files cannot be written to {where} ({error.strerror or error}). "
        f"{mend} TRITONFORGE_CACHE_DIR to a folder that can be written."
    )
