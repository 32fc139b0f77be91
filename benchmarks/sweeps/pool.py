"""Processes that do jobs and may die of them: forked, with a time limit for each step, replaced when they end."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

Say = Callable[[Any], None]
Work = Callable[[Any, Say], Any]
"""Does one job; what it says on the way is where it was when it died."""


@dataclass(frozen=True)
class Ended:
    """How a job ended: its `result`, or why there is none. `last` is what it said last before."""

    job: Any
    result: Any = None
    error: str | None = None
    last: Any = None


class _Process:
    """One forked process, leader of its own group so that compilers which it started end with it."""

    def __init__(self, work: Work) -> None:
        context = mp.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.busy = False
        self.last: Any = None
        self.since = time.monotonic()

    def give(self, job: Any) -> None:
        self.job, self.busy, self.last, self.since = job, True, None, time.monotonic()
        self.pipe.send(job)

    def end(self) -> None:
        self.pipe.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()
        self.process.join(10)


def _serve(work: Work, pipe: Connection, other: Connection) -> None:
    os.setpgid(0, 0)
    other.close()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            answer = ("result", work(job, lambda said: pipe.send(("said", said))))
        except Exception as error:  # noqa: BLE001 - whatever a job dies of is its result
            answer = ("error", f"{type(error).__name__}: {error}"[:400])
        pipe.send(answer)


class Pool:
    """`size` processes that all do `work`; a step (from one message of a job to the next) takes `seconds` at most."""

    def __init__(self, work: Work, size: int, seconds: float) -> None:
        self.work, self.seconds = work, seconds
        self.processes = [_Process(work) for _ in range(size)]

    def run(self, jobs: Sequence[Any], until: float, *, fresh_after_error: bool = False) -> Iterator[Ended]:
        """Do jobs, and yield how each ended, in the order in which they do.

        Past `until` (by `time.monotonic`) no more are begun; those that are under way then are ended. With
        `fresh_after_error` an error ends its process, too: a broken GPU context poisons all that come after.
        """
        waiting = list(reversed(jobs))
        while True:
            late = time.monotonic() > until
            for process in self.processes:
                if not process.busy and waiting and not late:
                    process.give(waiting.pop())
            busy = [process for process in self.processes if process.busy]
            if not busy:
                return
            wait([process.pipe for process in busy], timeout=0.2)
            for process in busy:
                ended = self._listen(process, until, fresh=fresh_after_error)
                if ended is not None:
                    yield ended

    def _listen(self, process: _Process, until: float, *, fresh: bool) -> Ended | None:
        now = time.monotonic()
        try:
            while process.pipe.poll():
                kind, value = process.pipe.recv()
                if kind == "said":
                    process.last, process.since = value, now
                    continue
                process.busy = False
                if kind == "result":
                    return Ended(process.job, value, last=process.last)
                if fresh:
                    self._replace(process)
                return Ended(process.job, error=value, last=process.last)
        except (EOFError, OSError):
            process.process.join(5)
            return self._give_up(process, f"the process ended with {process.process.exitcode}")
        if now - process.since > self.seconds:
            return self._give_up(process, f"took more than {self.seconds:g} s")
        if now > until:
            return self._give_up(process, "out of time")
        return None

    def _give_up(self, process: _Process, why: str) -> Ended:
        ended = Ended(process.job, error=why, last=process.last)
        self._replace(process)
        return ended

    def _replace(self, process: _Process) -> None:
        self.processes.remove(process)
        process.end()
        self.processes.append(_Process(self.work))

    def close(self) -> None:
        """End every process."""
        for process in self.processes:
            process.end()
        self.processes = []
