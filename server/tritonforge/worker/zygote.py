"""A process that has imported torch and triton but not touched CUDA, and forks a lane whenever it is asked for one."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from typing import Any, Literal, cast

from tritonforge.domain.codec import encode
from tritonforge.domain.messages import Failure
from tritonforge.worker import cores, linux
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.lane import Handlers, run_lane

ZygoteKind = Literal["compile", "interpret"]
_NICENESS = 10
_MESSAGE = 1 << 16
_DETAIL = 10_000


def main(fd: int, kind: ZygoteKind, handlers_module: str, supervisor: int) -> None:
    """Import what lanes need, say so on the socket `fd`, and fork lanes until it closes. Never returns."""
    linux.die_with_parent(supervisor)
    linux.set_process_name(f"tf-{kind}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    sock = socket.socket(fileno=fd)
    started = time.monotonic()
    try:
        handlers = load(handlers_module, kind)
    except BaseException as error:
        traceback.print_exc()
        _say(sock, {"failure": encode(_import_failure(error))})
        os._exit(1)
    # Nothing that was imported is ever collected: pages stay shared with the lanes.
    gc.collect()
    gc.freeze()
    _say(sock, {"ready": time.monotonic() - started})
    try:
        while True:
            data, fds, _, _ = socket.recv_fds(sock, _MESSAGE, 2)
            if not data:
                break
            _fork(sock, json.loads(data), fds, supervisor, handlers)
    finally:
        os._exit(0)


def load(module: str, kind: ZygoteKind) -> Handlers:
    """Import the module with the handlers, and torch and triton with it, and return its `HANDLERS`.

    The module's `prepare(kind)`, where it has one, imports what lanes need; otherwise torch and triton are imported.
    """
    loaded = importlib.import_module(module)
    prepare = getattr(loaded, "prepare", None)
    if prepare is None:
        importlib.import_module("torch")
        importlib.import_module("triton")
    else:
        prepare(kind)
    return cast("Handlers", loaded.HANDLERS)


def _import_failure(error: BaseException) -> Failure:
    detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_DETAIL:]
    if isinstance(error, JobFailed):
        return error.failure
    mend = "Install torch and triton in this interpreter, or name another one as the target's `python`."
    where = f"Python {sys.version.split()[0]} at {sys.executable}"
    if isinstance(error, ModuleNotFoundError):
        return Failure("unsupported", f"{where} has no module {error.name!r}. {mend}", detail=detail)
    sentence = f"{where} cannot import what a job needs ({type(error).__name__}: {error}). {mend}"
    return Failure("unsupported", sentence, detail=detail)


def _fork(sock: socket.socket, order: dict[str, Any], fds: list[int], supervisor: int, handlers: Handlers) -> None:
    lane_fd, output_fd = fds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python ≥ 3.12 warns about forks beside threads, which torch may have started
        middle = os.fork()
        if middle == 0:
            # Forked twice, so that the lane becomes a child of the supervisor and outlives this zygote.
            if os.fork() != 0:
                os._exit(0)
            sock.close()
            if order["gpu"] is not None:
                cores.keep_to_gpu(order["gpu"])
            run_lane(socket.socket(fileno=lane_fd), output_fd, order["name"], supervisor, handlers)
    os.close(lane_fd)
    os.close(output_fd)
    os.waitpid(middle, 0)


def _say(sock: socket.socket, message: dict[str, Any]) -> None:
    try:
        sock.send(json.dumps(message).encode())
    except OSError:
        os._exit(1)
