"""The two files of this process (see `domain.trace`): made at the first launch, and anew in a fork's child."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Callable
from typing import Any

from tritonforge.domain.trace import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SAMPLES,
    SLOT_BYTES,
    TracedFailure,
    TracedProcess,
    record_line,
)

MAX_SLOTS = 4096
"""Distinct launches that one process keeps; the memory and disk they take are bounded by it."""

_MAX_BYTES = 128 << 20
_LESS_BYTES = 32 << 20
_COUNT_STRIDE = SLOT_BYTES // 8
_COUNT_BASE = HEADER_BYTES // 8
_BEYOND = 2
_SIZE = HEADER_BYTES + (MAX_SLOTS + 1) * SLOT_BYTES


class Spooled:
    """Writes records and holds counts. `counts[index_of(slot)]` is a launch's count; the last slot counts nothing.

    No file is kept open: programs that close every descriptor would hand its number to a file of their own.
    """

    def __init__(self, folder: str, describe: Callable[[str], TracedProcess]) -> None:
        self._folder = folder
        self._describe = describe
        self._written = 0
        self._said: set[tuple[str, str]] = set()
        self.name = ""
        self.parent = ""
        self.used = 0
        """Slots that are taken, those inherited from the process that this one was forked from included."""
        self.counts: Any = memoryview(bytearray(_SIZE)).cast("Q")
        self._floats: Any = None

    @property
    def thrifty(self) -> bool:
        """Whether so much was written that values of tensors are left out from now on."""
        return self._written > _LESS_BYTES

    def open(self) -> None:
        """Make the files, unless they are there.

        Raises:
            OSError: when the folder is gone or the disk is full.
        """
        if self.name:
            return
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        path = os.path.join(self._folder, f"{name}.counts")  # noqa: PTH118
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # A hole in a file on a full disk would end the program with SIGBUS when it is written to.
            os.posix_fallocate(fd, 0, _SIZE)
            memory = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        HEADER.pack_into(memory, 0, MAGIC, os.getpid(), 0, 0)
        raw = memoryview(memory)
        self._floats = raw.cast("f")
        self.counts = raw.cast("Q")
        self.name = name
        self.write(self._describe(self.parent))

    def forked(self) -> None:
        """Go on as the child of a fork: with files of its own, made when they are needed."""
        self.parent, self.name, self._floats = self.name or self.parent, "", None
        self.counts = memoryview(bytearray(_SIZE)).cast("Q")
        self._written = 0

    def write(self, noun: Any) -> None:
        """Append a record.

        Raises:
            OSError: when it cannot be written whole.
        """
        self.open()
        data = record_line(noun)
        if self._written + len(data) > _MAX_BYTES:
            raise OSError("the records of this process take more room than they may")
        path = os.path.join(self._folder, f"{self.name}.records")  # noqa: PTH118
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.write(fd, data) != len(data):
                raise OSError("the disk is full")
        finally:
            os.close(fd)
        self._written += len(data)

    def fail(self, kernel: str, reason: str) -> None:
        """Record once what could not be recorded or repeated; never raises."""
        said = (kernel, reason)
        if said in self._said or len(self._said) > 256:
            return
        self._said.add(said)
        try:
            self.write(TracedFailure(kernel, reason))
        except (OSError, ValueError):
            return

    def take_slot(self) -> int | None:
        """Return a new slot, None when all are taken."""
        if self.used >= MAX_SLOTS:
            return None
        self.used += 1
        return self.used - 1

    def beyond(self) -> None:
        """Count a launch for which there is no slot."""
        self.open()
        self.counts[_BEYOND] += 1

    def sample(self, slot: int, microseconds: float) -> None:
        """Keep a measured time of a launch, over the oldest when the ring is full."""
        if self._floats is None:
            return
        index = index_of(slot)
        taken = self.counts[index + 1]
        self._floats[2 * (index + 2) + taken % SAMPLES] = microseconds
        self.counts[index + 1] = taken + 1


def index_of(slot: int) -> int:
    """Return where in `counts` a slot's count stands."""
    return _COUNT_BASE + slot * _COUNT_STRIDE


def slot_at(index: int) -> int:
    """Return the slot whose count stands at `index`."""
    return (index - _COUNT_BASE) // _COUNT_STRIDE


NOWHERE = index_of(MAX_SLOTS)
"""The index of the slot that counts what is not a launch (an empty grid)."""
