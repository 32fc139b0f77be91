"""The outermost process of a worker: it starts the supervisor, and clears up when that dies however it dies."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import NoReturn

from tritonforge.worker import linux, processes
from tritonforge.worker.client_stream import ClientStream
from tritonforge.worker.options import Options
from tritonforge.worker.supervisor import Supervisor

_SWEEP_S = 2.0


def main(read_fd: int, write_fd: int, options: Options, scratch: str = "") -> NoReturn:
    """Serve a client over the two descriptors until it is gone; `scratch` is a folder to remove then.

    The kernel kills the direct children of a process that dies, at most. So there are two processes, each of which
    clears up after the other: this one has nothing to do but wait, and inherits all that a dead supervisor leaves.
    """
    linux.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guard = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        os._exit(_supervise(read_fd, write_fd, options, guard))
    # Only the supervisor holds the pipe, so that its death is the end of the stream.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for fd in {read_fd, write_fd, null} - {0, 1, 2}:
        os.close(fd)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: _pass_on(received, supervisor))
    _, status = os.waitpid(supervisor, 0)
    processes.sweep(_SWEEP_S)
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(max(0, os.waitstatus_to_exitcode(status)))


def _supervise(read_fd: int, write_fd: int, options: Options, guard: int) -> int:
    try:
        linux.die_with_parent(guard, signal.SIGTERM)
        linux.adopt_orphans()
        linux.set_process_name("tf-supervisor")
        own = os.dup(read_fd)  # not inherited by what we start
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        return Supervisor(ClientStream(own, write_fd), options).run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 70


def _pass_on(number: int, supervisor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, number)
