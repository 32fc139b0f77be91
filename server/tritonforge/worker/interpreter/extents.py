"""Which part of each buffer a launch touches, and whether the order of its writes decides what is left there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# The worker may not depend on numpy itself; the interpreter does, and brings it.
from triton.runtime.interpreter import np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter.bounds import Buffer
from tritonforge.worker.interpreter.conflicts import Footprint


@dataclass
class Touched:
    """What was touched of one buffer: `high` is the address one past the highest byte, 0 when none was."""

    high: int = 0
    read: bool = False
    written: bool = False


class Extents(Footprint):
    """A guard that notes how far accesses reach. `twice`: one store wrote two lanes to one element."""

    def __init__(self, buffers: Iterable[Buffer], kernel: str = "") -> None:
        super().__init__(buffers, kernel)
        self.twice = False
        self._memories = self.extents()
        self._touched = [Touched() for _ in self._memories]
        self._firsts = np.array([start for start, _ in self._memories], dtype=np.uint64)

    @property
    def overlapping(self) -> bool:
        """Whether an element is written by two programs, or by two lanes of one store."""
        return self.twice or any(conflict.kind == "write-write" for conflict in self.conflicts)

    def seen(self, kind: str, addresses: Any, itemsize: int, values: Any, mask: Any) -> None:
        """Note where an access is, and meet it with what earlier programs did."""
        flat = addresses.reshape(-1)
        first, last = np.searchsorted(self._firsts, np.array([flat.min(), flat.max()]), side="right") - 1
        if first == last:
            self._reach(kind, int(first), flat, itemsize)
        else:
            at = np.searchsorted(self._firsts, flat, side="right") - 1
            for memory in np.unique(at):
                self._reach(kind, int(memory), flat[at == memory], itemsize)
        super().seen(kind, addresses, itemsize, values, mask)

    def touched(self, name: str) -> tuple[int, Touched] | None:
        """Return how far a parameter's memory was touched, in elements from its pointer on; None without memory."""
        buffer = next((b for b in self.buffers if b.name == name), None)
        if buffer is None or buffer.end <= buffer.start:
            return None
        at = int(np.searchsorted(self._firsts, np.uint64(buffer.start), side="right")) - 1
        found = self._touched[at]
        pointer = buffer.end - buffer.elements * buffer.itemsize
        return max(0, -(-(found.high - pointer) // buffer.itemsize)) if found.high else 0, found

    def _reach(self, kind: str, memory: int, addresses: Any, itemsize: int) -> None:
        found = self._touched[memory]
        found.high = max(found.high, int(addresses.max()) + itemsize)
        found.read |= kind != "writes"
        found.written |= kind in ("writes", "updates")
        if kind == "writes" and not self.twice and addresses.size > 1:
            self.twice = bool(np.unique(addresses).size < addresses.size)
