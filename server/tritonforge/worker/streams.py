"""Frames over file descriptors: without blocking in the supervisor, blocking in a lane."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Iterator

from tritonforge.domain.frames import Frame, FrameParser, pack

_CHUNK = 1 << 20
_TAIL_BYTES = 80_000
OUTPUT_CHARACTERS = 20_000
"""How much of what a job prints is kept."""


class Stream:
    """Frames both ways over non-blocking descriptors (one socket, or a pipe each way)."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self._parser = FrameParser()
        self._outgoing: deque[memoryview] = deque()
        self.unsent = 0
        """Bytes that wait to be written."""
        self.ended = False
        """Whether the other side has closed, or can no longer be written to."""

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that one read completes; sets `ended` when there will be no more.

        Raises:
            FrameError: when what arrives are no frames.
        """
        try:
            data = os.read(self.read_fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            yield from self._parser.feed(data)
        else:
            self.ended = True

    def receive_rest(self) -> Iterator[Frame]:
        """Yield every frame that is already there, for a sender that has died."""
        while not self.ended:
            before = self._parser.received
            yield from self.receive()
            if self._parser.received == before:
                return

    def send(self, frame: Frame) -> None:
        """Queue a frame and write as much as fits now."""
        for piece in pack(frame):
            if piece:
                self._outgoing.append(memoryview(piece))
                self.unsent += len(piece)
        self.flush()

    def flush(self) -> None:
        """Write what fits now."""
        while self._outgoing:
            piece = self._outgoing[0]
            try:
                written = os.write(self.write_fd, piece[:_CHUNK])
            except BlockingIOError:
                return
            except OSError:
                self.ended = True
                self._outgoing.clear()
                self.unsent = 0
                return
            self.unsent -= written
            if written == len(piece):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = piece[written:]

    def shut(self) -> None:
        """Tell the other side that nothing more will come."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.write_fd)) as sock:
            sock.shutdown(socket.SHUT_RDWR)


class Tail:
    """The end of what a process prints, drained from a pipe so that no amount of it fills a disk or blocks for long."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self._kept = bytearray()
        self.ended = False
        """Whether nobody is left who could write."""

    def drain(self) -> bool:
        """Take one piece from the pipe; False when there was none."""
        try:
            data = os.read(self.read_fd, _CHUNK)
        except OSError:
            return False
        self.ended = not data
        self._kept += data
        if len(self._kept) > 2 * _TAIL_BYTES:
            del self._kept[:-_TAIL_BYTES]
        return bool(data)

    def text(self) -> str:
        """Return what was printed last, `OUTPUT_CHARACTERS` at most, everything now in the pipe included."""
        for _ in range(64):  # bounded: another process may be writing without end
            if not self.drain():
                break
        return self._kept[-_TAIL_BYTES:].decode("utf-8", "replace")[-OUTPUT_CHARACTERS:]

    def forget(self) -> None:
        """Drop what was printed so far."""
        self.text()
        self._kept.clear()

    def close_write_end(self) -> None:
        """Leave the writing end to the process that has inherited it."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Let go of the pipe."""
        self.close_write_end()
        os.close(self.read_fd)


def send_blocking(sock: socket.socket, frame: Frame) -> None:
    """Write one frame to a blocking socket."""
    for piece in pack(frame):
        if piece:
            sock.sendall(piece)


def receive_blocking(sock: socket.socket, parser: FrameParser) -> Frame | None:
    """Read one frame from a blocking socket whose sender never sends a second one before it was answered."""
    while True:
        data = sock.recv(_CHUNK)
        if not data:
            return None
        for frame in parser.feed(data):
            return frame
