"""Which program of a launch wrote, updated or read each element: what two of them do to one place without any order.

The interpreter runs programs one after the other, so a race between them computes right there. Here each access leaves
the number of the program on the elements it touched, and meets what earlier programs left. Programs that synchronise
through a scalar atomic (a lock, a flag, a ticket) are ordered by it, and so are all programs that took part before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

# The worker may not depend on numpy itself; the interpreter does, and brings it.
from triton.runtime.interpreter import np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter.bounds import Buffer, Guard
from tritonforge.worker.launching import user_frame

Kind = Literal["write-write", "read-after-write", "write-after-read", "atomic-and-plain"]

_FIRST = (1 << 32) - 2
_SEVERAL = (1 << 32) - 1
_PENDING_LANES = 1 << 21
_SYNCHRONISING = 1024
"""So many addresses of one launch can order programs: a kernel with more uses atomics for sums, not for order."""


@dataclass(frozen=True)
class Conflict:
    """Two programs of one launch, or two lanes of one store, that use one element with nothing to order them."""

    kind: Kind
    kernel: str
    buffer: str
    text: str
    line: int | None = None


@dataclass(frozen=True)
class _Accessor:
    """Who accesses: its number, the first number of its program, and a bit for each number that is ordered before."""

    number: int
    first: int
    before: int


@dataclass
class _Region:
    """Memory of a launch: for each `1 << shift` bytes, who wrote, updated and read them last.

    Numbers of programs fall from `_FIRST`, so that 0 is nobody and a greater number is an earlier program's; among
    readers and updaters, `_SEVERAL` are two or more that nothing orders.
    """

    start: int
    end: int
    shift: int
    writer: Any = None
    updater: Any = None
    reader: Any = None
    pending: list[tuple[_Accessor, Any, int]] = field(default_factory=list)
    """Reads before the first write: who, the addresses, bytes a lane."""

    def cells(self, addresses: Any, itemsize: int) -> Any:
        offsets = (addresses - np.uint64(self.start)).view(np.int64).reshape(-1)
        if itemsize < 1 << self.shift:
            self._refine(itemsize.bit_length() - 1)
        at = offsets >> self.shift
        parts = itemsize >> self.shift
        return at if parts == 1 else (at[:, None] + np.arange(parts)).reshape(-1)

    def fresh(self) -> Any:
        return np.zeros(-(-(self.end - self.start) >> self.shift), dtype=np.uint32)

    def _refine(self, shift: int) -> None:
        times = 1 << (self.shift - shift)
        self.shift = shift
        for name in ("writer", "updater", "reader"):
            known = getattr(self, name)
            if known is not None:
                setattr(self, name, np.repeat(known, times))


class Footprint(Guard):
    """A guard that also finds conflicts between programs, and knows which bytes the launch wrote."""

    def __init__(self, buffers: Iterable[Buffer], kernel: str) -> None:
        super().__init__(buffers)
        self.kernel = kernel
        self.conflicts: list[Conflict] = []
        self._found: set[tuple[Kind, str]] = set()
        self._regions = [_Region(start, end, self._unit(start, end)) for start, end in self.extents()]
        self._region_starts = [region.start for region in self._regions]
        self._start_array = np.array(self._region_starts, dtype=np.uint64)
        self._pending = 0
        self._twice = False
        self._programs: list[tuple[int, int, int]] = []
        self._me = _Accessor(_FIRST + 1, _FIRST + 1, 0)
        self._released: dict[int, int] = {}

    def _unit(self, start: int, end: int) -> int:
        smallest = min(b.itemsize for b in self.buffers if start <= b.start < end)
        return min(smallest, 8).bit_length() - 1

    def enter(self, program: tuple[int, int, int]) -> None:
        """Begin a program: what follows is its doing."""
        number = self._me.number - 1
        self._programs.append(program)
        self._me = _Accessor(number, number, 0)

    def synchronised(self, address: int) -> None:
        """Order the program after all that released through `address`, and let later ones be ordered after it."""
        if not self._programs or (len(self._released) >= _SYNCHRONISING and address not in self._released):
            return
        count = len(self._programs)
        own = (1 << count) - (1 << (_FIRST - self._me.first))
        before = self._me.before | self._released.get(address, 0)
        self._released[address] = before | own
        # What the program does from here on is not released yet: it goes by a new number.
        self._programs.append(self._programs[-1])
        self._me = _Accessor(self._me.number - 1, self._me.first, before)

    def seen(self, kind: str, addresses: Any, itemsize: int, values: Any, mask: Any) -> None:
        """Meet an access with what earlier programs did to the same elements."""
        if len(self._regions) == 1:
            self._note(kind, self._regions[0], addresses, itemsize, (values, mask))
            return
        low, high = addresses.min(), addresses.max()
        first, last = np.searchsorted(self._start_array, np.array([low, high]), side="right") - 1
        if first == last:
            self._note(kind, self._regions[first], addresses, itemsize, (values, mask))
            return
        flat, stored = addresses.reshape(-1), _stored(addresses, values, mask)
        at = np.searchsorted(self._start_array, flat, side="right") - 1
        for i in np.unique(at):
            chosen = at == i
            part = None if stored is None else stored[chosen]
            self._note(kind, self._regions[i], flat[chosen], itemsize, (part, None))

    def _note(self, kind: str, region: _Region, addresses: Any, itemsize: int, given: tuple[Any, Any]) -> None:
        if kind == "polls":
            return
        if kind == "reads" and region.writer is None and region.updater is None:
            self._put_off(region, addresses, itemsize)
            return
        _catch_up(region)
        cells = region.cells(addresses, itemsize)
        if kind == "reads":
            self._meet(region, "writer", "read-after-write", cells)
            self._meet(region, "updater", "atomic-and-plain", cells)
            _mark(region, "reader", cells, self._me)
        elif kind == "writes":
            self._write(region, cells, addresses, itemsize, given)
        else:
            self._meet(region, "writer", "atomic-and-plain", cells)
            self._meet(region, "reader", "atomic-and-plain", cells)
            _mark(region, "updater", cells, self._me)

    def _put_off(self, region: _Region, addresses: Any, itemsize: int) -> None:
        """Keep a read for the first write to its buffer, which for most buffers never comes."""
        region.pending.append((self._me, addresses, itemsize))
        self._pending += addresses.size
        if self._pending > _PENDING_LANES:
            for one in self._regions:
                _catch_up(one)
            self._pending = 0

    def _write(self, region: _Region, cells: Any, addresses: Any, itemsize: int, given: tuple[Any, Any]) -> None:
        for who, kind in _PLAIN:
            known = getattr(region, who)
            if known is not None and bool((known[cells] > self._me.first).any()):
                changing = _changing(addresses, itemsize, _stored(addresses, *given))
                if changing.size:
                    self._meet(region, who, kind, region.cells(changing, itemsize))
        self._meet(region, "updater", "atomic-and-plain", cells)
        if region.writer is None:
            region.writer = region.fresh()
        region.writer[cells] = self._me.number
        if not self._twice and addresses.size > 1:
            self._compare_lanes(addresses.reshape(-1), _stored(addresses, *given))

    def _compare_lanes(self, addresses: Any, stored: Any) -> None:
        """Note two lanes of one store that write different values to one element: nothing says which stays."""
        if stored is None or bool((addresses[1:] > addresses[:-1]).all()):
            return
        order = np.argsort(addresses, kind="stable")
        sorted_, bits = addresses[order], np.ascontiguousarray(stored[order]).view(f"u{stored.dtype.itemsize}")
        differing = (sorted_[1:] == sorted_[:-1]) & (bits[1:] != bits[:-1])
        if differing.any():
            self._twice = True
            self._tell("write-write", int(sorted_[1:][differing][0]), _LANES, "")

    def _meet(self, region: _Region, who: str, kind: Kind, cells: Any) -> None:
        known = getattr(region, who)
        if known is None:
            return
        there = known[cells]
        others = there > self._me.first
        if not others.any() or (self._me.before and _ordered(there[others], self._me.before)):
            return
        at = int(np.argmax(others))
        other = "another program" if there[at] == _SEVERAL else f"program {self._programs[_FIRST - int(there[at])]}"
        self._tell(kind, region.start + (int(cells[at]) << region.shift), _SAID[kind], other)

    def _tell(self, kind: Kind, address: int, sentence: str, other: str) -> None:
        buffer = next((b for b in self.buffers if b.start <= address < b.end), self.buffers[0])
        if (kind, buffer.name) in self._found:
            return
        self._found.add((kind, buffer.name))
        place = f"element {(address - buffer.start) // buffer.itemsize} of {buffer.name}"
        frame = user_frame()
        line = f" (line {frame.f_lineno})" if frame is not None else ""
        text = f"{self.kernel}{line}: {sentence.format(me=self._programs[-1], other=other, place=place)}"
        number = frame.f_lineno if frame is not None else None
        self.conflicts.append(Conflict(kind, self.kernel, buffer.name, text, number))

    def written(self) -> list[tuple[int, int, Any]]:
        """Return where the launch wrote: (start, bytes a cell, which cells), for each memory that it wrote to."""
        found = []
        for region in self._regions:
            marks = [known != 0 for known in (region.writer, region.updater) if known is not None]
            if marks:
                found.append((region.start, 1 << region.shift, marks[0] if len(marks) == 1 else marks[0] | marks[1]))
        return found


_LANES = "two lanes of one store of program {me} write different values to {place}"
_SAID: dict[Kind, str] = {
    "write-write": "program {me} writes another value than {other} to {place}",
    "read-after-write": "program {me} reads {place} after {other} wrote it in the same launch",
    "write-after-read": "program {me} changes {place}, which {other} reads in the same launch",
    "atomic-and-plain": "program {me} and {other} use {place} in the same launch, one atomically and one not",
}


_PLAIN: tuple[tuple[str, Kind], ...] = (("writer", "write-write"), ("reader", "write-after-read"))


def _catch_up(region: _Region) -> None:
    for who, addresses, itemsize in region.pending:
        _mark(region, "reader", region.cells(addresses, itemsize), who)
    region.pending.clear()


def _mark(region: _Region, what: str, cells: Any, who: _Accessor) -> None:
    known = getattr(region, what)
    if known is None:
        known = region.fresh()
        setattr(region, what, known)
    there = known[cells]
    others = there > who.first
    if not others.any() or (who.before and _ordered(there[others], who.before)):
        known[cells] = who.number
    else:
        known[cells] = np.where(others, np.uint32(_SEVERAL), np.uint32(who.number))


def _ordered(numbers: Any, before: int) -> bool:
    return all(n != _SEVERAL and before >> (_FIRST - n) & 1 for n in map(int, np.unique(numbers)))


def _stored(addresses: Any, values: Any, mask: Any) -> Any:
    """Return the values of the lanes that are stored, flat and in the order of `addresses`; None where not known."""
    if values is None:
        return None
    values = np.broadcast_to(values, addresses.shape if mask is None else mask.shape)
    return (values if mask is None else values[mask]).reshape(-1)


def _changing(addresses: Any, itemsize: int, stored: Any) -> Any:
    """Return the addresses whose bits a store is about to change: writing what is there already orders nothing."""
    flat = addresses.reshape(-1)
    if stored is None or stored.dtype.itemsize != itemsize or (flat % np.uint64(itemsize)).any():
        return flat
    low, high = int(flat.min()), int(flat.max()) + itemsize
    memory = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), dtype=f"u{itemsize}")
    there = memory[((flat - np.uint64(low)) // np.uint64(itemsize)).view(np.int64)]
    return flat[there != np.ascontiguousarray(stored).view(f"u{itemsize}")]
