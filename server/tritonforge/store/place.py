"""Where a store lies: in the workspace, or in the user's cache where the workspace cannot be written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = ".tritonforge"
FILE = "store.sqlite3"
# The baseline of `check` is committed on purpose; everything else here is a cache.
_GITIGNORE = "*\n!baseline.json\n"


def workspace_folder(root: Path) -> Path | None:
    """Return `<root>/.tritonforge`, made if need be, or None when it cannot be written."""
    folder = root / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text(_GITIGNORE, encoding="utf-8")
    except OSError:
        return None
    return folder if _writable(folder) else None


def cache_folder(root: Path, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder for `root` in the user's cache, made if need be, or None when that cannot be written."""
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_CACHE_HOME") or ""
    digest = hashlib.sha256(os.path.abspath(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]  # noqa: PTH100
    try:
        # The XDG specification says to ignore a relative path.
        cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        folder = cache / "tritonforge" / "stores" / digest
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if _writable(folder) else None


def _writable(folder: Path) -> bool:
    store = folder / FILE
    return os.access(folder, os.W_OK | os.X_OK) and (not store.exists() or os.access(store, os.W_OK))
