"""Edits written to disk: all of them or none, and never over a file that has changed since it was read."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import stat
import tempfile
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import Edit, apply_edits


class ChangedOnDisk(UsageError):
    """A file is not what the edits were computed from."""


@dataclass(frozen=True)
class DiskText:
    """A Python file as it lies on disk: its text without byte-order mark, newlines untouched, and how to write it."""

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Return `text` as bytes of this file.

        Raises:
            UnicodeEncodeError: the file's encoding has no such character.
        """
        return self.mark + text.encode(self.encoding)


def decode(data: bytes, name: str) -> DiskText:
    """Decode a Python file by its byte-order mark or coding cookie (PEP 263), UTF-8 otherwise.

    Raises:
        UsageError: the encoding is unknown or the bytes are not of it.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        encoding = "utf-8" if mark else encoding
        return DiskText(data[len(mark) :].decode(encoding), encoding, mark)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{name} cannot be decoded: {error}.", "Save it as UTF-8, or fix its coding cookie."
        ) from error


def apply_to_disk(root: Path, edits: Sequence[Edit], expected_texts: Mapping[str, str]) -> tuple[str, ...]:
    """Apply `edits` to the files under `root` and return the files changed.

    `expected_texts` holds each file's text as the edits were computed from. Encoding, byte-order mark, newlines and
    file mode stay; a symbolic link stays one (its target is written). Every new content is complete on disk beside its
    file before the first is renamed into place, and renames already made are undone when a later one fails.

    Raises:
        ChangedOnDisk: a file differs from its expected text; nothing was written.
        UsageError: a file is missing, outside `root`, read-only, or cannot hold the new text; nothing was written.
    """
    files = sorted({edit.file for edit in edits})
    staged: list[_Staged] = []
    try:
        for file in files:
            mine = tuple(e for e in edits if e.file == file)
            staged.append(_stage(root, file, mine, expected_texts[file]))
        _commit(staged)
    finally:
        for item in staged:
            item.new.unlink(missing_ok=True)
    return tuple(files)


@dataclass(frozen=True)
class _Staged:
    file: str
    path: Path
    before: bytes
    new: Path


def _stage(root: Path, file: str, edits: tuple[Edit, ...], expected: str) -> _Staged:
    path = _inside(root, file)
    try:
        before = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise UsageError(f"{file} is read-only.", "Make it writable, or apply the diff elsewhere.")
    disk = decode(before, file)
    if disk.text != expected:
        raise ChangedOnDisk(f"{file} has changed since it was read.", "Save it and run again.")
    try:
        data = disk.encode(apply_edits(expected, edits))
    except UnicodeEncodeError as error:
        raise UsageError(f"{file} is {disk.encoding}, which cannot hold {error.object[error.start]!r}.") from error
    return _Staged(file, path, before, _written_beside(path, data))


def _inside(root: Path, file: str) -> Path:
    lexical = os.path.normpath(root / file)
    if not Path(lexical).is_relative_to(os.path.normpath(root)):
        raise UsageError(f"{file} lies outside the workspace {root}.")
    return Path(os.path.realpath(lexical))


def _written_beside(path: Path, data: bytes) -> Path:
    """Write `data` to a new file in the same folder, on disk for good, with the mode of `path`."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise UsageError(f"The folder of {path.name} cannot be written: {error.strerror}.") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(OSError, AttributeError):
            # Keeps the owner where we may (root editing a user's file); elsewhere the file is ours already.
            owner = path.stat()
            os.chown(temporary, owner.st_uid, owner.st_gid)
        shutil.copymode(path, temporary)  # after chown, which clears set-id bits
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _commit(staged: Sequence[_Staged]) -> None:
    for item in staged:
        # Again, as late as can be: an editor may have saved while the new contents were written.
        if item.path.read_bytes() != item.before:
            raise ChangedOnDisk(f"{item.file} has changed since it was read.", "Save it and run again.")
    done: list[_Staged] = []
    try:
        for item in staged:
            item.new.replace(item.path)
            done.append(item)
    except BaseException as error:
        for item in reversed(done):
            _written_beside(item.path, item.before).replace(item.path)
        if isinstance(error, OSError):
            raise UsageError(f"Could not replace a file: {error.strerror}; nothing was changed.") from error
        raise
