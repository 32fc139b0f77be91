"""The supervisor's side of its zygotes and lanes: starting them, and what is known of each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tritonforge.domain.codec import CodecError, decode
from tritonforge.domain.frames import Frame
from tritonforge.domain.messages import Failure, Lane
from tritonforge.worker.schedule import Job
from tritonforge.worker.streams import Stream, Tail
from tritonforge.worker.zygote import ZygoteKind

PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_MESSAGE = 1 << 18
ZYGOTE_OF: dict[Lane, ZygoteKind] = {"compile": "compile", "device": "compile", "interpret": "interpret"}


@dataclass
class Zygote:
    """A zygote process. `ready` once it can fork; `failure` when it said why it cannot."""

    kind: ZygoteKind
    process: subprocess.Popen[bytes]
    control: socket.socket
    tail: Tail
    started: float
    ready: bool = False
    failure: Failure | None = None
    hung_up: bool = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def hear(self) -> None:
        """Read what it says of itself; sets `hung_up` when it has nothing more to say."""
        try:
            data = self.control.recv(_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.hung_up = True
            return
        said = json.loads(data)
        self.ready = "ready" in said
        if "failure" in said:
            try:
                self.failure = decode(Failure, said["failure"])
            except CodecError as error:
                self.failure = Failure("internal", f"A zygote failed without saying why: {error}.")

    def close(self, status: int) -> None:
        """Let go of a zygote that was reaped with `status`."""
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.control.close()
        self.tail.close()


@dataclass
class LaneProcess:
    """A lane. `pid` is None until it has said that it is there; `dying` is when it was killed or found dead."""

    name: str
    kind: Lane
    stream: Stream
    tail: Tail
    pid: int | None = None
    job: Job | None = None
    deadline: float = 0.0
    dying: float | None = None
    status: int | None = None
    gpu: int | None = None
    """The GPU that it keeps to, by its place among those of the machine; None where it has whatever is there."""
    used: bool = False
    """Whether it was given a job before."""
    found: dict[str, Frame] = field(default_factory=dict)
    """What its job has found so far, by slot."""
    seen: set[tuple[int, int]] = field(default_factory=set)
    """(pid, start time) of every process seen below this lane: they stay its own when they leave it."""

    def close(self) -> None:
        """Let go of its descriptors."""
        os.close(self.stream.read_fd)
        self.tail.close()


def start_zygote(kind: ZygoteKind, handlers_module: str, extra_path: list[str]) -> Zygote:
    """Start a Python that imports the handlers and then waits for orders to fork."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    tail = Tail()
    # `-c` puts the current folder first on the path, where a user's `json.py` would stand in for the real one.
    program = (
        f"import sys; sys.path[:] = [{PACKAGE_ROOT!r}, *filter(None, sys.path), *{extra_path!r}]; "
        f"from tritonforge.worker.zygote import main; "
        f"main({theirs.fileno()}, {kind!r}, {handlers_module!r}, {os.getpid()})"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=tail.write_fd,
        stderr=tail.write_fd,
        pass_fds=[theirs.fileno()],
        env=_environment(kind),
    )
    theirs.close()
    tail.close_write_end()
    return Zygote(kind, process, ours, tail, time.monotonic())


def _environment(kind: ZygoteKind) -> dict[str, str]:
    env = dict(os.environ)
    env.pop("TRITON_INTERPRET", None)
    if kind == "interpret":
        env["TRITON_INTERPRET"] = "1"
    # As many lanes as cores run at once: one thread each.
    env.setdefault("OMP_NUM_THREADS", "1")
    return env


def fork_lane(zygote: Zygote, kind: Lane, name: str, gpu: int | None = None) -> LaneProcess:
    """Have `zygote` fork a lane, which keeps to the GPU number `gpu` if one is given.

    Raises:
        OSError: when the zygote is gone.
    """
    ours, theirs = socket.socketpair()
    tail = Tail()
    try:
        with theirs:
            order = json.dumps({"name": name, "gpu": gpu}).encode()
            socket.send_fds(zygote.control, [order], [theirs.fileno(), tail.write_fd])
    except OSError:
        ours.close()
        tail.close()
        raise
    tail.close_write_end()
    fd = ours.detach()
    return LaneProcess(name, kind, Stream(fd, fd), tail, gpu=gpu)


def why_it_died(zygote: Zygote, how: str) -> Failure:
    """Return the failure for jobs that waited for a zygote which ended (`how`, in words) before it was ready."""
    if zygote.failure is not None:
        return zygote.failure
    text = zygote.tail.text()
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    sentence = (
        f"Python {sys.version.split()[0]} at {sys.executable} {how} while it imported torch and triton"
        f"{f' (it said: {last})' if last else ''}. "
        "Reinstall them there, or name another interpreter as the target's `python`."
    )
    return Failure("unsupported", sentence, detail=text)
