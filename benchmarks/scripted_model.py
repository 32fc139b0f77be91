"""A local HTTP server that speaks the API of a language model from a script, and misbehaves as the script says.

    server = ScriptedModel([reply("…"), status(429, {"Retry-After": "0"}), hang(), truncated("…")])
    with server: …  # server.base_url

Each request takes the next entry of the script (the last one again and again); what came is kept in `requests`. It
answers both APIs, streamed and whole, as the request asks.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PIECE = 400
"""Characters of a streamed piece."""


@dataclass
class Request:
    """One request as it came; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """What was asked, without the instructions."""
        return str(self.body["input"] if "input" in self.body else self.body["messages"][-1]["content"])


Behaviour = Callable[["_Handler", Request], None]


@dataclass
class ScriptedModel:
    """The server; `with` runs it."""

    script: Sequence[Behaviour]
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.stopped = threading.Event()
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def next(self, request: Request) -> Behaviour:
        """Take note of a request and return what to do with it."""
        self.requests.append(request)
        return self.script[min(len(self.requests), len(self.script)) - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(body or b"{}"))
        try:
            self.model.next(request)(self, request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = "application/json"):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events: Iterable[dict[str, Any]], *, done: bool = True) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
        if done:
            self.wfile.write(b"data: [DONE]\n\n")


def events_of(request: Request, text: str, *, finish: str = "stop", usage: bool = True) -> list[dict[str, Any]]:
    """Return a streamed answer as its events."""
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    if request.path.endswith("/responses"):
        whole = _response(text, finish)
        whole["output"] = whole["output"] if not pieces else []
        return [
            *({"type": "response.output_text.delta", "delta": piece} for piece in pieces),
            {"type": "response.completed" if finish == "stop" else "response.incomplete", "response": whole},
        ]
    out = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    out.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return [*out, {"choices": [], "usage": _usage(text)}] if usage else out


def _usage(text: str) -> dict[str, int]:
    return {"prompt_tokens": 1000, "completion_tokens": len(text) // 4, "total_tokens": 1000 + len(text) // 4}


def _response(text: str, finish: str) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "status": "completed" if finish == "stop" else "incomplete",
        "incomplete_details": None if finish == "stop" else {"reason": "max_output_tokens"},
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}],
        "usage": {"input_tokens": 1000, "output_tokens": len(text) // 4},
    }  # fmt: skip


def reply(text: str | Callable[[Request], str], *, finish: str = "stop", usage: bool = True) -> Behaviour:
    """Answer as asked for: either API, streamed or whole."""

    def behave(handler: _Handler, request: Request) -> None:
        said = text(request) if callable(text) else text
        if request.body.get("stream"):
            handler.stream(events_of(request, said, finish=finish, usage=usage))
        elif request.path.endswith("/responses"):
            handler.send(200, json.dumps(_response(said, finish)).encode())
        else:
            message = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": finish}
            body = {"id": "c", "object": "chat.completion", "choices": [message]}
            handler.send(200, json.dumps(body | ({"usage": _usage(said)} if usage else {})).encode())

    return behave


def status(code: int, headers: dict[str, str] | None = None, error: dict[str, Any] | None = None) -> Behaviour:
    """Answer with an error status."""
    body = json.dumps({"error": error or {"message": f"scripted {code}", "type": "scripted"}}).encode()
    return lambda handler, _: handler.send(code, body, headers)


def raw(body: bytes, kind: str = "application/json") -> Behaviour:
    """Answer 200 with exactly these bytes."""
    return lambda handler, _: handler.send(200, body, None, kind)


def hang() -> Behaviour:
    """Take the request and never answer."""

    def behave(handler: _Handler, _: Request) -> None:
        handler.model.stopped.wait(600)
        handler.close_connection = True

    return behave


def dripping() -> Behaviour:
    """Stream a letter every now and then, for ever: no single wait is long."""

    def behave(handler: _Handler, _: Request) -> None:
        def drops() -> Iterable[dict[str, Any]]:
            while not handler.model.stopped.is_set():
                yield {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
                time.sleep(0.05)

        handler.stream(drops())

    return behave


def endless() -> Behaviour:
    """Stream as fast as possible, for ever."""

    def behave(handler: _Handler, _: Request) -> None:
        def flood() -> Iterable[dict[str, Any]]:
            while not handler.model.stopped.is_set():
                yield {"choices": [{"index": 0, "delta": {"content": "x" * 20_000}, "finish_reason": None}]}

        handler.stream(flood())

    return behave


def truncated(text: str) -> Behaviour:
    """Begin to stream and break off half-way."""

    def behave(handler: _Handler, request: Request) -> None:
        events = events_of(request, text)
        handler.stream(events[: max(1, len(events) // 2)], done=False)

    return behave


def cut_off(body: bytes) -> Behaviour:
    """Promise more bytes than are sent."""

    def behave(handler: _Handler, _: Request) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body) + 1000))
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = True

    return behave


def disconnect() -> Behaviour:
    """Close the connection without an answer."""

    def behave(handler: _Handler, _: Request) -> None:
        handler.close_connection = True

    return behave


def block(code: str, before: str = "Here is a faster version.") -> str:
    """Return an answer that keeps the contract."""
    return f"{before}\n\n```python\n{code.rstrip()}\n```\n"
