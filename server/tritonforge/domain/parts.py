"""Large frames in parts, so that small ones need not wait behind them. No input or output is done here.

A frame above `WHOLE` bytes travels as frames of kind `part` with `of` (a number of its own) and, on the first, `size`,
the bytes of the whole; their payloads together are the packed frame. Parts of several frames take turns. `dropped` ends
one that nobody wants any more. Who receives a part may say `got`, so that never more than a window is under way.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tritonforge.domain.frames import MAX_PAYLOAD, Frame, FrameError, FrameParser, message, pack

PART = "part"
GOT = "got"
WHOLE = 1 << 17
"""Bytes up to which a frame travels in one piece."""
PART_BYTES = 1 << 16
LARGE_VALUE = 1 << 14
"""Bytes of a value (a tensor's elements) from which on the other side is asked whether it has it already."""
_MOST_OPEN = 256


@dataclass
class _Large:
    number: int
    about: Any
    pieces: list[memoryview]
    size: int
    begun: bool = False


class Outbox:
    """Frames that wait to be written. Small ones go first, in order; parts of large ones take turns behind them."""

    def __init__(self) -> None:
        self._small: deque[bytes] = deque()
        self._large: OrderedDict[int, _Large] = OrderedDict()
        self._numbers = 0
        self.size = 0
        """Bytes that wait."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._small or self._large)

    @property
    def has_large(self) -> bool:
        """Whether a frame waits that travels in parts."""
        return bool(self._large)

    def put(self, frame: Frame) -> None:
        """Queue a frame."""
        start, payload = pack(frame)
        size = len(start) + len(payload)
        self.size += size
        if size <= WHOLE:
            self._small.append(start + payload)
            return
        self._numbers += 1
        pieces = [memoryview(piece) for piece in (start, payload) if piece]
        self._large[self._numbers] = _Large(self._numbers, frame.header.get("id"), pieces, size)

    def take_small(self) -> bytes:
        """Return all small frames that wait, as they go on the wire."""
        data = b"".join(self._small)
        self._small.clear()
        self.size -= len(data)
        return data

    def take(self) -> bytes:
        """Return what is to be written next: the small frames, else the next part; empty when nothing waits."""
        return self.take_small() or self._part()

    def _part(self) -> bytes:
        if not self._large:
            return b""
        number, large = self._large.popitem(last=False)
        taken, room = [], PART_BYTES
        while large.pieces and room:
            piece = large.pieces[0]
            taken.append(piece[:room])
            large.pieces[0] = piece[room:]
            room -= len(taken[-1])
            if not large.pieces[0]:
                large.pieces.pop(0)
        fields: dict[str, Any] = {} if large.begun else {"size": large.size}
        large.begun = True
        if large.pieces:
            self._large[number] = large
        data = b"".join(taken)
        self.size -= len(data)
        return b"".join(pack(Frame(message(PART, of=number, **fields).header, data)))

    def drop(self, about: Any) -> bool:
        """Forget the large frame whose header's `id` is `about`; tells whether it waited, or a part of it."""
        for large in list(self._large.values()):
            if large.about == about:
                del self._large[large.number]
                self.size -= sum(len(piece) for piece in large.pieces)
                if large.begun:
                    self.put(message(PART, of=large.number, dropped=True))
                return True
        return False


class Inbox:
    """Puts parts together again. `most`: bytes that unfinished frames may hold together."""

    def __init__(self, most: int = MAX_PAYLOAD) -> None:
        self._most = most
        self._open: dict[Any, tuple[int, bytearray]] = {}
        self._held = 0

    def take(self, part: Frame) -> Iterator[Frame]:
        """Add a part, and yield the frame that it completes.

        Raises:
            FrameError: when it belongs to nothing, or there are too many bytes.
        """
        number = part.header.get("of")
        if not isinstance(number, int):
            raise FrameError("a part does not say of what")
        if part.header.get("dropped"):
            self._forget(number)
            return
        if number not in self._open:
            size = part.header.get("size")
            if not isinstance(size, int) or not 0 < size <= self._most or len(self._open) >= _MOST_OPEN:
                raise FrameError(f"a frame of {size!r} bytes is announced, more than any message has")
            self._open[number] = (size, bytearray())
        size, held = self._open[number]
        held += part.payload
        self._held += len(part.payload)
        if len(held) > size or self._held > self._most:
            raise FrameError("there are more parts than were announced")
        if len(held) == size:
            self._forget(number)
            found = list(FrameParser(self._most).feed(held))
            if len(found) != 1 or found[0].kind == PART:
                raise FrameError("the parts of a frame do not make one")
            yield found[0]

    def _forget(self, number: int) -> None:
        _, held = self._open.pop(number, (0, bytearray()))
        self._held -= len(held)


_SLACK_S = 0.25
_LEAST = 256 << 10
_MOST = 16 << 20


class Window:
    """How many bytes of parts may be under way: what the link carries in a round trip and a quarter of a second.

    More would only wait in buffers on the way, and a cancel behind it.
    """

    def __init__(self) -> None:
        self.size = _LEAST
        self._under_way: deque[tuple[float, int]] = deque()
        self._bytes = 0
        self._fastest = float("inf")
        self._marks: deque[tuple[float, int]] = deque()

    @property
    def open(self) -> bool:
        """Whether another part may go."""
        return self._bytes < self.size

    def sent(self, count: int, now: float) -> None:
        """Take note of a part of `count` bytes that went at `now` (seconds)."""
        self._under_way.append((now, count))
        self._bytes += count

    def got(self, now: float) -> None:
        """Take note that the oldest part has arrived."""
        if not self._under_way:
            return
        sent, count = self._under_way.popleft()
        self._bytes -= count
        self._fastest = min(self._fastest, max(1e-4, now - sent))
        self._marks.append((now, count))
        while len(self._marks) > 1 and now - self._marks[0][0] > 1.0:
            self._marks.popleft()
        span = now - self._marks[0][0]
        if span > 0:
            rate = sum(count for _, count in self._marks) / max(span, self._fastest)
            self.size = int(min(_MOST, max(_LEAST, rate * (self._fastest + _SLACK_S))))
