"""Inside a lane: a forked child that does one job after the other until it is killed or its supervisor ends."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import CodecError
from tritonforge.domain.frames import Frame, FrameParser, body_of
from tritonforge.domain.frames import message as to_frame
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import JOBS, Failure
from tritonforge.domain.parts import LARGE_VALUE
from tritonforge.worker import linux
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.filecache import VARIABLE, keep_blob, kept_blob
from tritonforge.worker.rescuing import KIND
from tritonforge.worker.streams import receive_blocking, send_blocking

Handlers = Mapping[type, Callable[[Any, JobContext], Any]]
LANE_VARIABLE = "TRITONFORGE_LANE"
"""Environment variable by which processes that a lane has started are known, wherever they went."""
_PROGRESS_INTERVAL_S = 0.05
_PROGRESS_CHARACTERS = 2000
_POPEN_PREEXEC = 6


def run_lane(sock: socket.socket, output_fd: int, name: str, supervisor: int, handlers: Handlers) -> None:
    """Turn this freshly forked process into a lane and serve jobs from `sock`. Never returns."""
    try:
        _settle(output_fd, name, supervisor)
        parser = FrameParser()
        send_blocking(sock, to_frame("ready", pid=os.getpid()))
        while (frame := receive_blocking(sock, parser)) is not None:
            send_blocking(sock, perform(frame, handlers, _Context(sock, parser, frame.header.get("id"))))
    except OSError:
        pass  # the supervisor is gone
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _settle(output_fd: int, name: str, supervisor: int) -> None:
    # The intermediate parent exits at once; then this process belongs to the supervisor, which can kill it without
    # any danger of meeting a reused pid, and which lives or dies with it.
    middle = os.getppid()
    while middle != supervisor and os.getppid() == middle:
        time.sleep(0.001)
    linux.die_with_parent(supervisor)
    os.setsid()
    linux.set_process_name(name)
    os.environ[LANE_VARIABLE] = name
    null = os.open(os.devnull, os.O_RDONLY)
    for source, fd in ((null, 0), (output_fd, 1), (output_fd, 2)):
        os.dup2(source, fd)
    os.close(null)
    os.close(output_fd)
    # Whatever the locale, what users print must not raise; a line is out before the next one can crash.
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    faulthandler.enable(file=2, all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the command line, which decides
    _prefer_for_the_oom_killer()
    _bind_subprocesses_to_us()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _prefer_for_the_oom_killer() -> None:
    with contextlib.suppress(OSError):  # then the kernel chooses as it likes
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")


def _bind_subprocesses_to_us() -> None:
    """Have every subprocess (ptxas, above all) die with the lane, even when the supervisor is killed with it."""
    original = subprocess.Popen.__init__

    def bound(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > _POPEN_PREEXEC:  # given by position
            original(self, *args, **kwargs)
            return
        first = kwargs.get("preexec_fn")

        def prepare() -> None:
            linux.die_with_this_thread()
            if first is not None:
                first()

        original(self, *args, **{**kwargs, "preexec_fn": prepare})

    subprocess.Popen.__init__ = bound  # type: ignore[method-assign]


def perform(frame: Frame, handlers: Handlers, context: JobContext) -> Frame:
    """Do the job that a request frame asks for, and return its result or failure frame."""
    job_id = frame.header.get("id")
    try:
        request = body_of(frame, JOBS[frame.header["job"]], kept_blob)
    except (CodecError, KeyError) as error:
        failure = Failure("protocol", f"The worker could not read the request: {error}.", detail=_trace(error))
        return to_frame("failure", failure, id=job_id)
    try:
        handle = handlers.get(type(request))
        if handle is None:
            raise JobFailed("unsupported", f"This worker cannot do {type(request).__name__} jobs.")  # noqa: TRY301
        # What is recorded here is sent back with every job about it: the client will name it instead.
        return to_frame(
            "result", handle(request, context), keep=_keep_a_copy if VARIABLE in os.environ else None, id=job_id
        )
    except JobFailed as error:
        failure = error.failure
    except MemoryError as error:
        failure = Failure("memory", "The job ran out of memory (MemoryError).", detail=_trace(error))
    except SystemExit as error:
        failure = Failure("user-error", f"The code called sys.exit({error.code!r}).", detail=_trace(error))
    except BaseException as error:
        sentence = f"The worker failed in a way that is a bug of TritonForge: {type(error).__name__}: {error}"
        failure = Failure("internal", sentence, detail=_trace(error))
    return to_frame("failure", failure, id=job_id)


def _keep_a_copy(data: bytes) -> None:
    if len(data) >= LARGE_VALUE:
        keep_blob(data)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


class _Context:
    """The `JobContext` of one job: everything a job says goes through the supervisor."""

    def __init__(self, sock: socket.socket, parser: FrameParser, job_id: Any) -> None:
        self._sock = sock
        self._parser = parser
        self._id = job_id
        self._lock = threading.Lock()
        self._last = 0.0
        self._pid = os.getpid()

    def found(self, slot: str, call: Call) -> None:
        """Hand the supervisor a call that was recorded; it stands in for what the same slot held before."""
        if os.getpid() != self._pid:
            return  # a child that the user's program forked
        frame = to_frame(KIND, call, id=self._id, slot=slot)
        with self._lock:
            send_blocking(self._sock, frame)

    def progress(self, message: str, fraction: float | None = None) -> None:
        now = time.monotonic()
        if now - self._last < _PROGRESS_INTERVAL_S:
            return
        self._last = now
        with self._lock:
            send_blocking(
                self._sock, to_frame("progress", id=self._id, message=message[:_PROGRESS_CHARACTERS], fraction=fraction)
            )

    def output(self) -> str:
        # The supervisor drains the pipe, not a thread here: C code that prints while it holds the interpreter's lock
        # would wait for that thread for ever.
        with contextlib.suppress(OSError, ValueError):  # the code may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        linux.flush_c_streams()
        with self._lock:
            send_blocking(self._sock, to_frame("output", id=self._id))
            reply = receive_blocking(self._sock, self._parser)
        return "" if reply is None else reply.payload.decode("utf-8", "replace")
