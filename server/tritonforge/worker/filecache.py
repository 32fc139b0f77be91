"""Files of a client's workspace on this side: contents by hash, and trees of them in which programs are run.

    files/blobs/<hash>     what was sent, under the sha256 of its content
    files/trees/<key>/     a workspace as a client described it; the key is a hash of what lies in it

The folder is the user's own (0700). A tree is never changed: another state of the workspace is another tree, so that
programs which are still running keep what they began with.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from tritonforge.worker.places import cache_folder, no_room

VARIABLE = "TRITONFORGE_FILES"
"""Environment variable that tells lanes where the cache lies."""
_KEPT_S = 30 * 86400.0
_MOST_BYTES = 4 << 30
_RECENT_S = 3600.0


class FileRefused(Exception):
    """A file or a tree that cannot be kept; the text is a sentence."""


def home() -> tuple[Path, bool]:
    """Return the cache's folder, and whether it is to be removed with the worker: where no cache can be kept."""
    try:
        folder = cache_folder("files")
        _make_private(folder)
    except OSError:
        return Path(os.path.realpath(tempfile.mkdtemp(prefix="tritonforge-files-"))), True
    return Path(os.path.realpath(folder)), False


def _make_private(folder: Path) -> None:
    """Shut a folder off from others; what lies in one that others could write to is not to be trusted, and goes.

    Raises:
        OSError: when it is somebody else's.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not this user's own")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    if found.st_mode & 0o022:
        for inside in (folder / "blobs", folder / "trees"):
            _remove(inside)


def kept_blob(name: str) -> bytes | None:
    """Return the content that is kept under the hash `name`, as a lane finds it; None when there is none."""
    folder = os.environ.get(VARIABLE)
    if folder is None or not _is_hash(name):
        return None
    try:
        return (Path(folder) / "blobs" / name).read_bytes()
    except OSError:
        return None


def keep_blob(data: bytes) -> None:
    """Keep the content of a lane's result, so that it need not come back; where that fails, it will."""
    folder = os.environ.get(VARIABLE)
    if folder is not None:
        with contextlib.suppress(OSError):
            _write(Path(folder) / "blobs" / hashlib.sha256(data).hexdigest(), data)


class FileCache:
    """The cache under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs"
        self._trees = folder / "trees"
        self._tidied = False

    def lacks(self, hashes: Iterable[object]) -> list[str]:
        """Return those of `hashes` of which the content is not there; the others are in use from now on."""
        wanted = [name for name in hashes if isinstance(name, str) and _is_hash(name)]
        return [name for name in wanted if not self._touch(self._blobs / name)]

    def put(self, name: str, data: bytes) -> None:
        """Keep a content.

        Raises:
            FileRefused: when it is not what its hash says, or cannot be written.
        """
        if hashlib.sha256(data).hexdigest() != name:
            raise FileRefused("A file did not arrive as it was sent.")
        try:
            self._tidy()
            _write(self._blobs / name, data)
        except OSError as error:
            raise FileRefused(no_room(error, self.folder)) from error

    def tree(self, key: str, entries: Sequence[object]) -> Path:
        """Lay out the files `entries` ([path, hash, size, mtime in ns, executable]) as the tree `key`.

        What is there as it should be is left alone; what a program has changed is put right.

        Raises:
            FileRefused: when a content is missing, a path leads outside, or there is no room.
        """
        if not _is_hash(key):
            raise FileRefused("A tree has no proper name.")
        root = self._trees / key
        try:
            if root.is_symlink():
                root.unlink()
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            clear: set[Path] = set()
            for entry in entries:
                self._lay(root, entry, clear)
            os.utime(root)
        except OSError as error:
            raise FileRefused(no_room(error, self.folder)) from error
        return root

    def _lay(self, root: Path, entry: object, clear: set[Path]) -> None:
        """Lay out one file; `clear` are the folders to which the way was found clear, each of which is looked at once.

        What a program has put where a file or its folders belong is removed: a link there would lead out of the tree.
        """
        match entry:
            case [str(name), str(content), int(size), int(mtime_ns), bool(executable)] if _is_hash(content):
                path = root / _inside(name)
            case _:
                raise FileRefused(f"A file of the workspace is described as {str(entry)[:80]}.")
        if path.parent not in clear:
            self._clear_the_way(root, path.parent)
            clear.add(path.parent)
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and (found.st_size, found.st_mtime_ns) == (size, mtime_ns):
                return
            if stat.S_ISDIR(found.st_mode):
                clear.clear()
                shutil.rmtree(path)
        try:
            data = (self._blobs / content).read_bytes()
        except OSError:
            raise FileRefused(f"{name} has not arrived.") from None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, data, mode=0o700 if executable else 0o600, mtime_ns=mtime_ns)

    def _clear_the_way(self, root: Path, folder: Path) -> None:
        """Remove what is no folder on the way from `root` to `folder`."""
        way = folder.relative_to(root)
        for one in [*way.parents[::-1], way][1:]:  # `root` itself is one
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR((root / one).lstat().st_mode):
                    (root / one).unlink()

    def _touch(self, path: Path) -> bool:
        try:
            os.utime(path)
        except OSError:
            return False
        return True

    def _tidy(self) -> None:
        """Once in a worker's life: remove what nobody has used for a month, and the oldest where there is too much."""
        if self._tidied:
            return
        self._tidied = True
        now = time.time()
        found: list[tuple[float, int, Path]] = []
        for folder in (self._blobs, self._trees):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    state = path.lstat()
                    found.append((state.st_mtime, _size(path) if path.is_dir() else state.st_size, path))
        total = sum(size for _, size, _ in found)
        for used, size, path in sorted(found):
            if now - used < _RECENT_S or (now - used < _KEPT_S and total <= _MOST_BYTES):
                continue
            total -= size
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it, as far as that can be done."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_hash(name: str) -> bool:
    return len(name) == 64 and set(name) <= set("0123456789abcdef")


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise FileRefused(f"{name!r} does not lie in the workspace.")
    return path


def _write(path: Path, data: bytes, *, mode: int = 0o600, mtime_ns: int | None = None) -> None:
    """Write a file at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, scratch = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(scratch, mode)  # noqa: PTH101 - a text path
        if mtime_ns is not None:
            os.utime(scratch, ns=(mtime_ns, mtime_ns))
        os.replace(scratch, path)  # noqa: PTH105 - the same
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)  # noqa: PTH108 - the same
        raise


def _size(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - many of them
    return total
