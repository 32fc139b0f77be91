"""A server process: its streams, its log, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tritonforge.lsp import collecting

if TYPE_CHECKING:
    from tritonforge.lsp.server import Server

_log = logging.getLogger("tritonforge.lsp")
_LENGTH = re.compile(rb"content-length:\s*(\d+)\s*", re.IGNORECASE)
_LARGEST = 256 << 20
_POLL_S = 1.0
_GRACE_S = 8.0
_QUESTIONS = frozenset(
    f"textDocument/{name}" for name in ("diagnostic", "hover", "codeLens", "inlayHint", "codeAction")
)
_TURNS = 3
"""Rounds of the event loop after which nothing more has arrived."""
_MOST_READ = 64
"""Messages after which a question is answered, whatever else arrives."""


def serve_stdio() -> int:
    """Serve the client on standard input and output until it goes away; returns the exit code.

    What anything else in this process writes to standard output goes to standard error instead, from the first line on.
    """
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _set_up_log()
    code = asyncio.run(_stdio(own), debug=False)
    sys.stderr.flush()
    # Whatever a thread still waits for (a locked store, a name server) must not keep the process.
    os._exit(code)


def serve_tcp(host: str, port: int, announce: Callable[[str, int], None]) -> int:
    """Serve one client on a socket; `announce` is told where once it listens (port 0 chooses one)."""
    _set_up_log()
    return asyncio.run(_tcp(host, port, announce))


async def _stdio(own: int) -> int:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    if _is_pollable(0):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb", 0))
    else:
        threading.Thread(target=_feed, args=(reader, loop), name="stdin", daemon=True).start()
    if not _is_pollable(own):
        return await _serve(reader, _Blocking(own))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(own, "wb", 0))
    return await _serve(reader, asyncio.StreamWriter(transport, protocol, None, loop))


def _is_pollable(descriptor: int) -> bool:
    """Tell whether the event loop can wait for a descriptor: not for files and devices, nor for pipes on Windows."""
    mode = os.fstat(descriptor).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _feed(reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
        while data := os.read(0, 1 << 16):
            loop.call_soon_threadsafe(reader.feed_data, data)
        loop.call_soon_threadsafe(reader.feed_eof)


async def _tcp(host: str, port: int, announce: Callable[[str, int], None]) -> int:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listening.close()
        code = await _serve(reader, writer)
        if not done.done():
            done.set_result(code)

    listening = await asyncio.start_server(connected, host, port)
    announce(*listening.sockets[0].getsockname()[:2])
    return await done


class _Writer(Protocol):
    """What this module and pygls need of an output; `StreamWriter` buffers, so a slow client blocks nothing."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    async def drain(self) -> None: ...


class _Blocking:
    """An output that the event loop cannot wait for."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "wb", 0)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) or 0 :]

    def close(self) -> None:
        self._file.close()

    async def drain(self) -> None:
        return


async def _serve(reader: asyncio.StreamReader, writer: _Writer) -> int:
    from tritonforge.lsp.server import Server

    server = Server()
    server.protocol.set_writer(writer)
    collecting.begin()
    receiving = asyncio.create_task(_receive(reader, server))
    _watch_parent(server)
    code = await server.stopping
    receiving.cancel()
    await server.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await _flush(writer)
    return code


async def _flush(writer: _Writer) -> None:
    await writer.drain()
    writer.close()
    if isinstance(writer, asyncio.StreamWriter):
        # Pipes know no wait_closed: the transport is done once its buffer is empty.
        while writer.transport.get_write_buffer_size():  # noqa: ASYNC110 - nothing says when
            await asyncio.sleep(0.005)


async def _receive(reader: asyncio.StreamReader, server: Server) -> None:
    """Hand on message after message; the end of the stream is the end of the server."""
    try:
        await _hand_on(reader, server)
    except (OSError, EOFError, ValueError) as error:
        _log.info("the client's stream ended: %s", error)
    server.stop(0 if server.protocol.has_shut_down else 1)


async def _hand_on(reader: asyncio.StreamReader, server: Server) -> None:
    """Hand on what arrives, questions about documents last: they are answered once, for the newest text.

    So somebody who types faster than a large file is analysed waits for one analysis, not for one of each key.
    """
    later: deque[dict[str, Any]] = deque()
    coming, read = asyncio.create_task(_next(reader)), 0
    try:
        while True:
            for _ in range(_TURNS):
                if coming.done():
                    break
                await asyncio.sleep(0)  # lets the loop take in what has arrived
            if later and (not coming.done() or read >= _MOST_READ):
                answerable = _about_one(later, server)
                if answerable:
                    # All at once: for the next text each would have to wait for its analysis.
                    for question in answerable:
                        later.remove(question)
                        server.protocol.receive(question)
                    read = 0
                    continue
                # All that is asked is about files that are still analysed for the first time.
                await asyncio.wait({coming, *server.state.documents.preparing.values()}, return_when="FIRST_COMPLETED")
                if not coming.done():
                    continue
            await collecting.collect_in_pauses(coming)
            body = await coming
            if body is None:
                return
            coming, read = asyncio.create_task(_next(reader)), read + 1
            try:
                data = json.loads(body)
            except (ValueError, RecursionError) as error:
                _log.warning("a message is no JSON: %s", error)
                continue
            if not isinstance(data, dict):
                server.protocol.receive(data)
            elif data.get("method") in _QUESTIONS and "id" in data:
                later.append(data)
            elif data.get("method") == "$/cancelRequest" and (asked := _cancelled(data, later)) is not None:
                later.remove(asked)
                server.protocol.refuse_cancelled(asked["id"])
            else:
                server.protocol.receive(data)
    finally:
        coming.cancel()


def _about_one(later: deque[dict[str, Any]], server: Server) -> list[dict[str, Any]]:
    """Return the oldest question that can be answered now, with all others about the same document."""
    for first in later:
        about = _document(first)
        if about is None:
            return [first]  # whatever is wrong with it is said at once
        if server.is_prepared(about):
            return [one for one in later if _document(one) == about]
    return []


def _document(question: dict[str, Any]) -> str | None:
    """Return the URI of the document that a question is about; None for one that names none."""
    params = question.get("params")
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else None


def _cancelled(data: dict[str, Any], later: deque[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the question that a cancellation is about, while it waits."""
    params = data.get("params")
    number = params.get("id") if isinstance(params, dict) else None
    return next((one for one in later if one["id"] == number), None)


async def _next(reader: asyncio.StreamReader) -> bytes | None:
    """Return the body of the next message, None at the end.

    Raises:
        ValueError: the stream is out of step, and nothing after this can be trusted.
    """
    length = None
    while True:
        line = await reader.readline()
        if not line:
            return None
        found = _LENGTH.fullmatch(line.strip())
        if found:
            length = int(found[1])
        elif not line.strip():
            if length is None:
                continue  # blank lines between messages
            if length > _LARGEST:
                raise ValueError(f"a message of {length} bytes")
            return await reader.readexactly(length)


def _watch_parent(server: Server) -> None:
    """End the server when the process that the client named, or the one that started us, is gone.

    A thread, so that it works whatever the event loop is busy with.
    """
    loop = asyncio.get_running_loop()
    started_by = os.getppid()

    def gone() -> None:
        loop.call_soon_threadsafe(server.stop, 1)
        time.sleep(_GRACE_S)
        os._exit(1)

    def watch() -> None:
        seen = False
        while not server.stopping.done():
            time.sleep(_POLL_S)
            if os.getppid() != started_by:
                return gone()
            named = server.process_id
            if named is None or named <= 0:
                continue
            # An editor outside this container names a process that was never visible here.
            alive = _is_alive(named)
            if seen and not alive:
                return gone()
            seen = seen or alive
        return None

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _set_up_log() -> None:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    # pygls logs every payload at INFO, and with each error the whole message.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
