"""Runs a script over many items in several processes, and goes on when one of them dies or hangs."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_RUNNING: set[subprocess.Popen[str]] = set()


@atexit.register
def _end_all() -> None:
    for process in tuple(_RUNNING):
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def over(
    script: str,
    groups: Sequence[Sequence[str]],
    *,
    options: Sequence[str] = (),
    jobs: int,
    seconds: float,
    done: Callable[[dict[str, Any]], None],
    within: float = math.inf,
    pinned: bool = False,
) -> None:
    """Run `script` on all items of `groups`; a group stays in one process.

    Args:
        script: a file next to this one; it prints a JSON line with `item` and `started` when it begins with an item,
            and one with `item` and its result.
        groups: the items, `kernel/id`.
        options: what else to say on its command line.
        jobs: how many processes run at once.
        seconds: a process that says nothing for this long is killed; the item that it had begun gets no result but
            `error`, and the others are run in another process.
        done: is called with each result, from several threads but one at a time.
        within: after so many seconds nothing more is begun, and what still runs is ended without a result.
        pinned: each process has a core to itself, so that its times say something although others run.
    """
    until = time.monotonic() + within
    waiting: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
    for group in groups:
        waiting.put(group)
    lock = threading.Lock()

    def report(result: dict[str, Any]) -> None:
        with lock:
            done(result)

    def work(core: int | None) -> None:
        while time.monotonic() < until:
            try:
                group = list(waiting.get_nowait())
            except queue.Empty:
                return
            while group and time.monotonic() < until:
                group = _run(script, group, options, seconds, report, until=until, core=core)

    cores = sorted(os.sched_getaffinity(0)) if pinned else []
    threads = [
        threading.Thread(target=work, args=(cores[number % len(cores)] if cores else None,), daemon=True)
        for number in range(max(jobs, 1))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run(
    script: str,
    items: list[str],
    options: Sequence[str],
    seconds: float,
    report: Callable[[dict[str, Any]], None],
    *,
    until: float,
    core: int | None,
) -> list[str]:
    """Run the script once and return the items that it did not get to."""
    process = subprocess.Popen(
        [sys.executable, HERE / script, *options, *items], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    _RUNNING.add(process)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})  # before it has started a thread or a process
    timer = _Timer(process, seconds, until)
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read() if process.stderr else ""))
    reader.start()
    left, current = list(items), items[0]
    assert process.stdout
    for line in process.stdout:
        timer.feed()
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("started"):
            current = said["item"]
        elif said.get("item") in left:
            left.remove(said["item"])
            report(said)
    process.wait()
    reader.join()
    timer.stop()
    _RUNNING.discard(process)
    if left and time.monotonic() < until:
        stuck = current if current in left else left[0]
        left.remove(stuck)
        last = ("".join(errors).strip().splitlines() or [""])[-1]
        why = f"said nothing for {seconds:g} s" if timer.fired else f"ended with {process.returncode}: {last}"
        report({"item": stuck, "accepted": False, "valid": False, "error": True, "reason": why, "observed": why})
    return left


class _Timer:
    """Kills a process, and all that it started, that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float, until: float) -> None:
        self._process, self._seconds, self._until = process, seconds, until
        self.fired = False
        self.feed()

    def feed(self) -> None:
        """Start anew."""
        self.stop()
        self._timer = threading.Timer(max(0.0, min(self._seconds, self._until - time.monotonic())), self._fire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Wait no longer."""
        if hasattr(self, "_timer"):
            self._timer.cancel()

    def _fire(self) -> None:
        self.fired = True
        _kill(self._process)
