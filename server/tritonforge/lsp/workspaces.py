"""Roots, and for each its settings and its store."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tritonforge.config import Settings, load, workspace_name, workspace_root
from tritonforge.config.settings import SettingProblem
from tritonforge.config.workspace import MARKERS
from tritonforge.domain.errors import UsageError
from tritonforge.lsp.options import Options
from tritonforge.store import Store, open_store
from tritonforge.store.place import FILE, FOLDER
from tritonforge.workload.index import WorkspaceIndex

_SETTINGS_FILES = ("tritonforge.toml", "pyproject.toml")
Warn = Callable[[SettingProblem, Path], None]
"""Told what is wrong with a setting, and where its file would be: the editor's own settings have none."""


class Workspace:
    """One root. Settings are read again when their files or the editor's settings have changed."""

    def __init__(self, root: Path, warn: Warn) -> None:
        """Use `warn` once for each thing that is wrong."""
        self.root = root
        self._warn = warn
        self._stamp: object = None
        self._settings: Settings | None = None
        self._told: set[str] = set()
        self._store: Store | None = None
        self._index: WorkspaceIndex | None = None
        self._remembering = False
        self._opening = threading.RLock()  # jobs and questions ask from threads of their own

    def settings(self, options: Options) -> Settings:
        """Return the settings as they are now: two `stat` calls when nothing has changed."""
        stamp = (tuple(_stamp(self.root / name) for name in _SETTINGS_FILES), options)
        if self._settings is None or stamp != self._stamp:
            self._stamp = stamp
            self._settings = load(self.root, strict=False, overrides=options.settings)
            for problem in self._settings.problems:
                if str(problem) not in self._told:
                    self._told.add(str(problem))
                    self._warn(problem, self.root / problem.source)
        return self._settings

    def store(self) -> Store:
        """Return the store, opened when first asked for (blocks on the disk).

        Raises:
            UsageError: when a newer TritonForge wrote it.
        """
        with self._opening:
            if self._store is None:
                self._store = open_store(self.root)
            return self._store

    def index(self, *, trusted: bool = True) -> WorkspaceIndex:
        """Return what finds out which tests and programs get to a kernel; it reads nothing before it is asked.

        Not `trusted`, a store that the workspace brings along is not opened for it.
        """
        with self._opening:
            if self._index is None or (trusted and not self._remembering):
                store, self._remembering = None, trusted
                # Opening a file leaves nothing in its folder: what was seen is kept where a store is there already.
                if trusted and self.has_store:
                    with contextlib.suppress(UsageError):  # a newer TritonForge wrote it
                        store = self.store()
                self._index = WorkspaceIndex(self.root, store)
            return self._index

    @property
    def has_store(self) -> bool:
        """Whether there is something to look up; looking creates nothing."""
        return self._store is not None or (self.root / FOLDER / FILE).is_file()

    def changed(self, paths: Sequence[Path]) -> None:
        """Take note of files that the client says have changed; it says so of every Python file."""
        if self._index is not None:
            self._index.changed(paths)

    def reset(self) -> None:
        """Read the settings anew when they are next asked for."""
        self._stamp = None
        self._told.clear()

    def close(self) -> None:
        """Close the store."""
        self._index = None
        if self._store is not None:
            self._store.close()
            self._store = None


class Workspaces:
    """The workspace of every document."""

    def __init__(self, warn: Warn) -> None:
        """Use `warn` for what is wrong with settings."""
        self.folders: tuple[Path, ...] = ()
        self._warn = warn
        self._by_root: dict[Path, Workspace] = {}

    def of(self, root: Path) -> Workspace:
        """Return the workspace at `root`."""
        if root not in self._by_root:
            self._by_root[root] = Workspace(root, self._warn)
        return self._by_root[root]

    def place(self, path: Path | None, uri: str) -> tuple[Path, str]:
        """Return the root that a document belongs to, and what it is called there.

        The root is the nearest folder with a marker as for the command line; else the client's folder that holds the
        file; else the file's own folder.
        """
        if path is None:
            root = self.folders[0] if self.folders else Path.cwd()
            return root, uri.partition(":")[2].lstrip("/") or "untitled"
        root = workspace_root(path)
        if not path.is_relative_to(root) or not any((root / marker).exists() for marker in MARKERS):
            holding = [folder for folder in self.folders if path.is_relative_to(folder)]
            root = max(holding, key=lambda folder: len(folder.parts), default=path.parent)
        return root, workspace_name(root, path)

    def changed(self, paths: Sequence[Path]) -> None:
        """Take note of files that the client says have changed."""
        for workspace in self._by_root.values():
            workspace.changed(paths)

    def reset(self) -> None:
        """Read settings anew when they are next asked for, and say again what is wrong with them."""
        for workspace in self._by_root.values():
            workspace.reset()

    def close(self) -> None:
        """Close every store and forget what was read."""
        for workspace in self._by_root.values():
            workspace.close()
        self._by_root.clear()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
