"""Files that no editor has open, read from the disk as if they were: a list of kernels speaks of them, too."""

from __future__ import annotations

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


def snapshot_of(uri: str, workspaces: Workspaces, encoding: str) -> Snapshot | None:
    """Return a snapshot of the file at `uri` as it is on disk; None when there is none that can be read."""
    path = path_of(uri)
    text = text_of(path) if path is not None else None
    if path is None or text is None:
        return None
    root, file = workspaces.place(path, uri)
    return Snapshot(uri, None, PositionedText(text, encoding), path, root, file, text_hash(text), analyze(text, file))
