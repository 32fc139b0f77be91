"""Which files of a workspace travel: what jobs need of it, by content hash, and what is kept back, with the reason."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonforge.config.settings import SendingSettings
from tritonforge.jobs.workspace.ignoring import Ignored
from tritonforge.jobs.workspace.needs import modules_in, named_in, needs_of

_MOST_LOOKED_AT = 50_000
"""Files of a folder that are looked at when a job misses the folder."""
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_MISSING_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_MISSING_FILE = re.compile(r"No such file or directory: b?(['\"])(.+?)\1")


_NO_SURPRISES = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


@dataclass(frozen=True)
class Entry:
    """One file: its path from the root (with `/`), the sha256 of its content, size in bytes, when it was written."""

    name: str
    digest: str
    size: int
    mtime_ns: int
    executable: bool


@dataclass
class WorkspaceFiles:
    """The files of the workspace `root` that jobs have needed so far; nothing outside of it is ever read."""

    root: Path
    most: SendingSettings = field(default_factory=SendingSettings)
    kept_back: dict[str, str] = field(default_factory=dict)
    """Files that are needed and not sent → why, as a clause."""

    def __post_init__(self) -> None:
        """Take the root as the file system knows it."""
        self.root = Path(os.path.realpath(self.root))
        self._ignored = Ignored(self.root)
        # For the length of one look: a folder → its real path; a path → what it is. Each is asked for once, because
        # every job looks at every file that it needs.
        self._folders: dict[str, str] = {}
        self._stats: dict[str, os.stat_result | None] = {}
        self._wanted: dict[str, None] = {}
        self._asked: set[str] = set()
        self._hashed: dict[str, tuple[tuple[int, int], str]] = {}
        self._looked: dict[tuple[str, bool], tuple[object, tuple[Path, ...]]] = {}

    def want(self, names: Sequence[str], overlays: Mapping[str, str], *, by_user: bool = True) -> None:
        """Add files, and whatever they need; `overlays` are texts that stand in for files, by the same names.

        Names are relative to the root. What the user named, or what belongs to it, is sent even where an ignore file
        leaves it out.
        """
        if by_user:
            self._asked.update(names)
        self._folders.clear()
        self._stats.clear()
        self._ignored.look_again()
        todo = [self.root / name for name in dict.fromkeys((*names, *overlays))][::-1]  # the kernel's own file first
        seen: set[Path] = set()
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            name = self.name_of(path) or ""
            if not name or not (self._take(path, name) or name in overlays):
                continue
            if name.endswith(".py") or name in overlays:
                todo.extend(self._needed_by(path, name, overlays.get(name)))

    def name_of(self, path: Path | str) -> str | None:
        """Return the name of a path inside the workspace, links followed; None for any other."""
        text = os.path.normpath(str(path))
        folder, base = os.path.split(text)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        found = self._lstat(text)
        is_link = found is not None and stat.S_ISLNK(found.st_mode)
        whole = os.path.realpath(text) if is_link else os.path.join(real, base)  # noqa: PTH118 - many of them
        inside = str(self.root).rstrip(os.sep) + os.sep
        if not whole.startswith(inside):
            return None
        name = text[len(inside) :] if text.startswith(inside) else os.path.relpath(text, self.root)
        return name.replace(os.sep, "/") if os.sep != "/" else name

    def _lstat(self, path: str) -> os.stat_result | None:
        if path not in self._stats:
            try:
                self._stats[path] = os.lstat(path)
            except (OSError, ValueError):
                self._stats[path] = None
        return self._stats[path]

    def _stat(self, path: str) -> os.stat_result | None:
        """Return what a file is, links followed; None for what is no file."""
        found = self._lstat(path)
        if found is not None and stat.S_ISLNK(found.st_mode):
            try:
                found = os.stat(path)  # noqa: PTH116 - a text path
            except OSError:
                return None
        return found if found is not None and stat.S_ISREG(found.st_mode) else None

    def _state(self, path: str) -> tuple[int, int] | None:
        found = self._stat(path)
        return None if found is None else (found.st_mtime_ns, found.st_size)

    def _needed_by(self, path: Path, name: str, text: str | None) -> tuple[Path, ...]:
        """Return what a file needs; looked for again when the file, or one that it needs, is not what it was.

        A file that appears where none was found before is noticed when a job misses it.
        """
        state = hash(text) if text is not None else self._state(str(path))
        known = self._looked.get((name, text is not None))
        if known is not None and known[0] == state and all(self._stat(str(other)) for other in known[1]):
            return known[1]
        if text is None:
            try:
                read = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                return ()
        found = tuple(dict.fromkeys(self._find(path, read if text is None else text)))
        self._looked[name, text is not None] = state, found
        return found

    def _find(self, path: Path, text: str) -> Iterator[Path]:
        needs = needs_of(text)
        yield from modules_in(self.root, path, needs)
        yield from named_in(self.root, path, needs)
        folder = path.parent
        while folder != self.root and (folder / "__init__.py").is_file():  # importing a module runs its packages
            yield folder / "__init__.py"
            folder = folder.parent

    def _take(self, path: Path, name: str) -> bool:
        """Have a file sent unless something speaks against it."""
        found = self._state(str(path))
        if found is None:
            return False
        why = None if name in self._asked else self._ignored.reason(name)
        if why is None and found[1] > self.most.file_bytes:
            why = (
                f"it has {_size(found[1])}, more than the {_size(self.most.file_bytes)} that one file may have "
                "(`file` in [sending] of tritonforge.toml)"
            )
        if why is None and name not in self._wanted and len(self._wanted) >= self.most.files:
            why = f"more than {self.most.files} files would be needed (`files` in [sending] of tritonforge.toml)"
        if why is not None:
            self.kept_back[name] = why
            self._wanted.pop(name, None)
            return False
        self.kept_back.pop(name, None)
        self._wanted[name] = None
        return True

    @property
    def is_read(self) -> bool:
        """Whether every file that is wanted was read before, so that `entries` takes no time."""
        return all(name in self._hashed for name in self._wanted)

    def entries(self) -> tuple[Entry, ...]:
        """Return what is to be there, as it is now, sorted by name; files that have gone are left out."""
        found: list[Entry] = []
        total = 0
        for name in sorted(self._wanted):
            entry = self._entry(name)
            if entry is None:
                continue
            total += entry.size
            if total > self.most.total_bytes:
                self.kept_back[name] = (
                    f"the files that are needed have more than {_size(self.most.total_bytes)} together "
                    "(`total` in [sending] of tritonforge.toml)"
                )
                total -= entry.size
                continue
            found.append(entry)
        return tuple(found)

    def _entry(self, name: str) -> Entry | None:
        path = os.path.join(self.root, name)  # noqa: PTH118 - many of them
        if self.name_of(path) is None:  # it was replaced by a link that leads outside
            return None
        state = self._stat(path)
        if state is None:
            return None
        stamp = (state.st_mtime_ns, state.st_size)
        known = self._hashed.get(name)
        if known is None or known[0] != stamp:
            data = self.read(name)
            if data is None:
                return None
            known = self._hashed[name] = stamp, hashlib.sha256(data).hexdigest()
        return Entry(name, known[1], state.st_size, state.st_mtime_ns, bool(state.st_mode & 0o100))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file that `entries` has; None when it has gone, or is none any more.

        What takes its place at the last moment (a link that leads outside, a pipe that nobody writes to, a file that
        grows without end) is not read.
        """
        real = os.path.realpath(self.root / name)
        if not real.startswith(str(self.root).rstrip(os.sep) + os.sep):
            return None
        try:
            handle = os.open(real, os.O_RDONLY | _NO_SURPRISES)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    return None
                data = file.read(self.most.file_bytes + 1)
        except OSError:
            return None
        return data if len(data) <= self.most.file_bytes else None

    def outdated(self, name: str) -> None:
        """Read a file again that was found to have another content than `entries` said."""
        self._hashed.pop(name, None)

    def missing(self, said: str, roots: Iterable[str]) -> list[str]:
        """Return the files that an error message shows to be missing over there, though they are here and not sent.

        `roots` are the names that the workspace's root may have in the message.
        """
        return [name for name in self._named(said, roots) if name not in self._wanted or name in self.kept_back]

    def sent(self, said: str, roots: Iterable[str]) -> bool:
        """Tell whether an error message shows a file to be missing over there that was sent."""
        return any(name in self._wanted and name not in self.kept_back for name in self._named(said, roots))

    def _named(self, said: str, roots: Iterable[str]) -> Iterator[str]:
        """Yield the files of the workspace that an error message shows to be missing over there."""
        found: list[Path] = []
        for match in _MISSING_MODULE.finditer(said):
            found += self._module_named(match[1])
        for match in _MISSING_NAME.finditer(said):
            found += self._module_named(f"{match[2]}.{match[1]}")
        for match in _MISSING_FILE.finditer(said):
            text = match[2]
            for root in roots:
                if text.startswith(root.rstrip("/") + "/"):
                    text = text[len(root.rstrip("/")) + 1 :]
            path = self.root / text
            if self.name_of(path) is None:
                continue
            found += self._files_in(path) if path.is_dir() else [path]
        for path in dict.fromkeys(found):
            if path.is_file() and (name := self.name_of(path)):
                yield name

    def _files_in(self, folder: Path) -> list[Path]:
        """Return the files below a folder: not through links, and not in folders that are ignored."""
        found: list[Path] = []
        for where, folders, names in os.walk(folder):
            folders[:] = sorted(
                name
                for name in folders
                if (inside := self.name_of(Path(where, name))) is not None and not self._ignored.leaves_out(inside)
            )
            found += [Path(where, name) for name in sorted(names)]
            if len(found) > _MOST_LOOKED_AT:
                break
        return found

    def _module_named(self, module: str) -> list[Path]:
        parts = module.split(".")
        folders = {self.root, self.root / "src", *((self.root / name).parent for name in self._wanted)}
        for folder in sorted(folders):
            for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
                if path.is_file():
                    return [path]
        return []

    def add(self, names: Iterable[str]) -> bool:
        """Have further files sent, with what they need; tells whether any of them may be."""
        before = {entry.name for entry in self.entries()}
        self.want(tuple(names), {}, by_user=False)
        return bool({entry.name for entry in self.entries()} - before)

    def note(self, names: Iterable[str]) -> str:
        """Say which of `names` are here and were not sent, and why; empty when none was kept back."""
        reasons = [
            f"{name} was not sent there, because {self.kept_back[name]}" for name in names if name in self.kept_back
        ]
        return "; ".join(reasons[:3])


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB" if count >= 1 << 20 else f"{count} bytes"
