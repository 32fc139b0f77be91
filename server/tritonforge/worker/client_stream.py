"""The supervisor's stream to its client: large frames in parts, which take turns with small ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonforge.domain.frames import Frame, message
from tritonforge.domain.parts import GOT, PART, Inbox, Outbox
from tritonforge.worker.streams import Stream


class ClientStream(Stream):
    """A `Stream` that cuts what it sends, and puts together what it receives."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        super().__init__(read_fd, write_fd)
        self._inbox = Inbox()
        self._outbox = Outbox()

    def receive(self) -> Iterator[Frame]:
        """See `Stream.receive`; every part is confirmed."""
        for frame in super().receive():
            if frame.kind == PART:
                self.send(message(GOT))
                yield from self._inbox.take(frame)
            else:
                yield frame

    def send(self, frame: Frame) -> None:
        """See `Stream.send`."""
        self._outbox.put(frame)
        self.unsent = self._outbox.size
        self.flush()

    def drop(self, job: Any) -> None:
        """Forget what has not been sent yet of the large answer to `job`."""
        self._outbox.drop(job)
        self.flush()

    def flush(self) -> None:
        """See `Stream.flush`: a frame is cut only as far as it can be written, so that another may come between."""
        super().flush()
        while not self._outgoing and not self.ended and (data := self._outbox.take()):
            self._outgoing.append(memoryview(data))
            self.unsent = len(data)
            super().flush()
        self.unsent = self._outbox.size + sum(map(len, self._outgoing))
