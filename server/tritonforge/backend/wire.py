"""Messages between a server and its backend: a length (8 bytes, big-endian), then a pickle."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections.abc import Iterator
from typing import Any

from tritonforge.domain.errors import TritonForgeError

_LENGTH = struct.Struct(">Q")


def packed(message: tuple[Any, ...]) -> bytes:
    """Return the bytes of a message."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def portable(error: TritonForgeError) -> TritonForgeError:
    """Return an error as it can cross: itself, else one that says the same."""
    with contextlib.suppress(Exception):  # whatever its constructor does not bear
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301 - made here a moment ago
            return error
    plain = TritonForgeError(error.message, error.mend)
    plain.exit_code = error.exit_code
    return plain


class Unpacker:
    """Turns pieces of a stream, cut anywhere, into messages."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, ...]]:
        """Add bytes, and yield every message that they complete."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield pickle.loads(body)  # noqa: S301 - from a process that we started, or that started us
