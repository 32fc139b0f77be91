"""Files that no editor has open, read from the disk as if they were: a list of kernels speaks of them, too."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.lsp.documents import Snapshot, path_of
from tritonforge.lsp.positions import PositionedText
from tritonforge.lsp.workspaces import Workspaces
from tritonforge.store.keys import text_hash
from tritonforge.workload.index_files import LARGEST


def text_of(path: Path) -> str | None:
    """Return a Python file's text as an editor would have it, line ends included; None when it cannot be read."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


_KEPT = 8


class ClosedFiles:
    """Snapshots of files that are not open, kept while these stay as they are: a report asks again and again."""

    def __init__(self, workspaces: Workspaces, encoding: str) -> None:
        """Begin with none; positions are counted in `encoding`."""
        self._workspaces = workspaces
        self._encoding = encoding
        self._kept: OrderedDict[str, tuple[object, Snapshot]] = OrderedDict()

    def snapshot(self, uri: str) -> Snapshot | None:
        """Return a snapshot of the file at `uri` as it is on disk; None when there is none that can be read."""
        path = path_of(uri)
        try:
            found = path.stat() if path is not None else None
        except (OSError, ValueError):
            return None
        if path is None or found is None:
            return None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino, *self._workspaces.place(path, uri))
        kept = self._kept.pop(uri, None)
        snapshot = kept[1] if kept and kept[0] == stamp else snapshot_of(uri, self._workspaces, self._encoding)
        if snapshot is not None:
            self._kept[uri] = stamp, snapshot
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return snapshot


def snapshot_of(uri: str, workspaces: Workspaces, encoding: str) -> Snapshot | None:
    """Return a snapshot of the file at `uri` as it is on disk, read anew; None when there is none that can be read."""
    path = path_of(uri)
    text = text_of(path) if path is not None else None
    if path is None or text is None:
        return None
    root, file = workspaces.place(path, uri)
    return Snapshot(uri, None, PositionedText(text, encoding), path, root, file, text_hash(text), analyze(text, file))
