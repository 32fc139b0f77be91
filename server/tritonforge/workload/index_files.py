"""The Python files of a workspace, each with what a quick look at its bytes shows; looked at again when it changes."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonforge.analysis.imports import scan_imports
from tritonforge.store import Store

SKIPPED = frozenset(["node_modules", "__pycache__", "venv", "build", "dist", "site-packages", "dist-packages"])
"""Folders that hold nothing of the user's own; hidden ones and virtual environments are left out as well."""
LARGEST = 1 << 20
"""Bytes above which a file is taken for generated."""
MOST_FILES = 20_000
_RACY_NS = 50_000_000
_FORMAT = 1


@dataclass(frozen=True)
class Scanned:
    """One file: its stamp, whether it mentions Triton, and the modules that it may import."""

    mtime_ns: int
    size: int
    triton: bool
    imports: tuple[str, ...]


@dataclass
class WorkspaceFiles:
    """What is known of every Python file under `root`, by its path relative to it.

    `unreadable` and `too_large` count what was left out at the last look; `cut` says that there are more than
    `MOST_FILES`. `generation` rises when anything has changed.
    """

    root: Path
    files: dict[str, Scanned] = field(default_factory=dict)
    generation: int = 0
    unreadable: int = 0
    too_large: int = 0
    cut: bool = False
    scanned: int = 0
    """How many files were read, in all: what was known before is not read again."""
    _saved: int = 0

    def refresh(self) -> None:
        """Walk the workspace, and look at what is new or has changed since."""
        self.unreadable = self.too_large = 0
        self.cut = False
        seen: dict[str, Scanned] = {}
        prefix = len(str(self.root).rstrip(os.sep)) + 1
        for path, found in python_files(self.root):
            if len(seen) >= MOST_FILES:
                self.cut = True
                break
            name = path[prefix:].replace(os.sep, "/")
            scanned = self._look(path, name, found)
            if scanned is not None:
                seen[name] = scanned
        if seen != self.files:
            self.files = seen
            self.generation += 1

    def note(self, paths: Iterable[Path]) -> None:
        """Look at `paths` again, because somebody said that they have changed, appeared or gone."""
        for path in paths:
            try:
                name = path.relative_to(self.root).as_posix()
            except ValueError:
                continue
            if path.suffix != ".py" or any(_is_skipped(part) for part in path.relative_to(self.root).parts[:-1]):
                continue
            found = _stat(str(path))
            before = self.files.get(name)
            now = self._look(str(path), name, found) if found is not None else None
            if now == before:
                continue
            if now is None:
                del self.files[name]
            else:
                self.files[name] = now
            self.generation += 1

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; none when it cannot be read any more."""
        try:
            return (self.root / name).read_bytes()
        except OSError:
            return b""

    def load(self, store: Store) -> None:
        """Take over what an earlier process saw."""
        data = store.index()
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            return
        try:
            self.files = {
                str(name): Scanned(int(mtime), int(size), bool(triton), tuple(map(str, imports)))
                for name, (mtime, size, triton, imports) in data["files"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError):
            self.files = {}
        self._saved = self.generation

    def save(self, store: Store) -> None:
        """Leave what is known to the next process, unless nothing is new."""
        if self._saved == self.generation:
            return
        rows: dict[str, Any] = {n: [f.mtime_ns, f.size, f.triton, f.imports] for n, f in self.files.items()}
        store.put_index({"format": _FORMAT, "files": rows})
        self._saved = self.generation

    def _look(self, path: str, name: str, found: os.stat_result | None) -> Scanned | None:
        if found is None or not stat.S_ISREG(found.st_mode):
            self.unreadable += 1
            return None
        if found.st_size > LARGEST:
            self.too_large += 1
            return None
        before = self.files.get(name)
        if before is not None and (before.mtime_ns, before.size) == (found.st_mtime_ns, found.st_size):
            return before
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - thousands of them: half the time of Path.read_bytes
                data = file.read()
        except OSError:
            self.unreadable += 1
            return None
        self.scanned += 1
        # Written within the clock's grain, it may be written again without a trace: look once more next time.
        racy = time.time_ns() - found.st_mtime_ns < _RACY_NS
        return Scanned(0 if racy else found.st_mtime_ns, found.st_size, b"triton" in data, scan_imports(data))


def python_files(folder: Path) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield the Python files under `folder` with their stat (None where it fails), in the order of their names.

    Linked folders are not entered: what they hold is found where it lies, and a loop of links ends nothing.
    """
    waiting = [str(folder)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and here != str(folder):
            continue
        folders = []
        for entry in entries:
            if entry.name.endswith(".py"):
                try:
                    if not entry.is_dir():
                        yield entry.path, entry.stat()
                except OSError:  # a link that leads nowhere, or round in a circle
                    yield entry.path, None
            elif not _is_skipped(entry.name):
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                except OSError:
                    continue
        waiting += reversed(folders)


def _is_skipped(name: str) -> bool:
    return name in SKIPPED or name.startswith(".")


def _stat(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except OSError:
        return None
