"""Keeps the worker's disk cache from growing for ever: what Triton compiled, and what tools said about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tritonforge.worker.places import cache_folder

MOST_BYTES = 2 << 30
_EVERY_S = 24 * 3600.0
_YOUNG_S = 3600.0
"""What was written within the last hour may be in use, and stays."""


def prune_now_and_then() -> None:
    """Bring the cache below its bound, at most once a day; whatever goes wrong leaves it as it is."""
    with contextlib.suppress(OSError):
        mark = cache_folder() / "pruned"
        if mark.exists() and time.time() - mark.stat().st_mtime < _EVERY_S:
            return
        mark.touch()
        prune(MOST_BYTES)


def prune(most_bytes: int) -> int:
    """Delete what was written longest ago until a fifth of `most_bytes` is free; returns how many bytes went.

    Triton's entries go as a whole: of one without some of its files it would think that it is there.
    """
    entries = sorted(_entries())
    excess = sum(size for _, size, _ in entries) - most_bytes
    if excess <= 0:
        return 0
    goal, gone = excess + most_bytes // 5, 0
    newest = time.time() - _YOUNG_S
    for written, size, path in entries:
        if gone >= goal or written > newest:
            break
        with contextlib.suppress(OSError):
            if path.is_dir():
                # Out of everybody's sight first: half an entry must not be found.
                doomed = path.with_name(f".{path.name}.{os.getpid()}")
                path.rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)
            else:
                path.unlink()
            gone += size
    return gone


def _entries() -> Iterator[tuple[float, int, Path]]:
    """Yield (when it was written, bytes, path) of each."""
    for kind in ("triton", "artefacts"):
        for folder in cache_folder(kind).iterdir():
            if not folder.is_dir():
                continue
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    files = path.iterdir() if path.is_dir() else [path]
                    yield path.stat().st_mtime, sum(file.stat().st_size for file in files), path
