"""Frames between server and worker: a small JSON header and a raw payload. No input or output is done here.

On the wire a frame is `TFr1`, the header's length (4 bytes), the payload's length (8 bytes, both big-endian), the
header and the payload. A header with `"body": n` says that the first n bytes of the payload are the JSON text of a
noun; whatever follows are the `bytes` values that the text refers to, so that a process which only passes a frame on
never parses more than the header.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonforge.domain.codec import PROTOCOL_VERSION, Blobs, CodecError, decode, encode

_PREFIX = struct.Struct(">4sIQ")
_MAGIC = b"TFr1"
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 4 << 30


class FrameError(ValueError):
    """What arrived is not a frame; the stream cannot be read any further."""


@dataclass(frozen=True)
class Frame:
    """One message. `header` is plain JSON; `payload` raw bytes."""

    header: Mapping[str, Any]
    payload: bytes = b""

    @property
    def kind(self) -> str:
        """What the message is (`request`, `result`, …), "" when the header does not say."""
        kind = self.header.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def version(self) -> Any:
        """The protocol version that the sender speaks."""
        return self.header.get("v")


def message(kind: str, body: Any = None, *, keep: Callable[[bytes], str | None] | None = None, **fields: Any) -> Frame:
    """Make a frame of this protocol version, with a noun as its body where one is given.

    `keep` names the `bytes` values that the reader has already (see `Blobs`).
    """
    header: dict[str, Any] = {"v": PROTOCOL_VERSION, "kind": kind, **fields}
    if body is None:
        return Frame(header)
    blobs = Blobs(keep)
    text = json.dumps(encode(body, blobs), separators=(",", ":")).encode()
    header["body"] = len(text)
    return Frame(header, text + blobs)


def body_of(frame: Frame, kind: Any, kept: Callable[[str], bytes | None] | None = None) -> Any:
    """Rebuild the noun of type `kind` that a frame carries; `kept` finds what did not travel with it.

    Raises:
        CodecError: when the frame has no such body.
    """
    size = frame.header.get("body")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(frame.payload):
        raise CodecError(f"{frame.kind or 'message'}: there is no body")
    try:
        text, blobs = frame.payload[:size], memoryview(frame.payload)[size:]
        if b'"$blob"' in text or b'"$kept"' in text:
            data = json.loads(text, object_hook=lambda entries: _blob(entries, blobs, kept))
        else:
            data = json.loads(text)
        return decode(kind, data, frame.kind)
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"{frame.kind}: the body is not JSON ({error})") from error
    except RecursionError as error:
        raise CodecError(f"{frame.kind}: the body is nested too deeply") from error


def _blob(entries: dict[str, Any], blobs: memoryview, kept: Callable[[str], bytes | None] | None) -> Any:
    if "$kept" in entries:
        name = entries["$kept"]
        found = kept(name) if kept is not None and isinstance(name, str) else None
        if found is None:
            raise CodecError(f"message: {name!r} is not kept here")
        return found
    if "$blob" not in entries:
        return entries
    match entries["$blob"]:
        case [int(start), int(size)] if start >= 0 and 0 <= size <= len(blobs) - start:
            return bytes(blobs[start : start + size])
        case reference:
            raise CodecError(f"message: {reference!r} points outside of the payload")


def pack(frame: Frame) -> tuple[bytes, bytes]:
    """Return the two pieces to write, in order: everything before the payload, and the payload itself."""
    header = json.dumps(frame.header, separators=(",", ":")).encode()
    if len(header) > MAX_HEADER or len(frame.payload) > MAX_PAYLOAD:
        raise FrameError(f"a frame of {len(header)} + {len(frame.payload)} bytes is too large to be sent")
    return _PREFIX.pack(_MAGIC, len(header), len(frame.payload)) + header, frame.payload


class FrameParser:
    """Turns pieces of a byte stream, cut anywhere, into frames."""

    def __init__(self, most: int = MAX_PAYLOAD) -> None:
        """Take payloads of at most `most` bytes."""
        self._most = most
        self._buffer = bytearray()
        self._wanted = _PREFIX.size
        self.received = 0
        """Bytes fed so far."""

    def feed(self, data: bytes | bytearray) -> Iterator[Frame]:
        """Add bytes and yield every frame that they complete.

        Raises:
            FrameError: when the stream holds anything but frames.
        """
        self.received += len(data)
        if not self._buffer and isinstance(data, bytearray):
            self._buffer = data  # it is nobody else's; a large frame is not held twice
        else:
            self._buffer += data
        while len(self._buffer) >= self._wanted:
            magic, header_size, payload_size = _PREFIX.unpack_from(self._buffer)
            if magic != _MAGIC:
                raise FrameError(f"expected a frame, got {bytes(self._buffer[:40])!r}")
            if header_size > MAX_HEADER or payload_size > self._most:
                raise FrameError(f"a frame announces {header_size} + {payload_size} bytes, more than any message has")
            self._wanted = _PREFIX.size + header_size + payload_size
            if len(self._buffer) < self._wanted:
                return
            split = _PREFIX.size + header_size
            with memoryview(self._buffer) as view:
                header, payload = bytes(view[_PREFIX.size : split]), bytes(view[split : self._wanted])
            del self._buffer[: self._wanted]
            self._wanted = _PREFIX.size
            yield Frame(_header(header), payload)


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame's header is not JSON: {text[:80]!r}") from error
    if not isinstance(header, dict):
        raise FrameError(f"a frame's header is not an object: {text[:80]!r}")
    return header
