"""The worker as one archive, to be unpacked wherever it runs."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_ROOMS = ("domain", "worker", "runtime")
"""`runtime` too, because the user's kernels may import it."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """A zip file, and the hash of the names and contents in it (not of the zip: zlib versions differ).

    `files` and `size` are how many files are in it, and their bytes together.
    """

    data: bytes
    digest: str
    files: int
    size: int


@cache
def worker_archive() -> Archive:
    """Pack the worker that belongs to this server; the same sources give the same digest everywhere."""
    package = files("tritonforge")
    entries = [("tritonforge/__init__.py", package.joinpath("__init__.py").read_bytes())]
    for room in _ROOMS:
        entries.extend(_sources(package.joinpath(room), f"tritonforge/{room}"))
    digest = hashlib.sha256()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    size = sum(len(content) for _, content in entries)
    return Archive(buffer.getvalue(), digest.hexdigest()[:32], len(entries), size)


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, path)
        elif entry.is_file() and not entry.name.endswith((".pyc", "~")):
            yield path, entry.read_bytes()
