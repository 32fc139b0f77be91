"""What runs below a process, read from /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EXEC_S = 0.05
_LOOKS = 2
_KNOWS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()
"""Whether the kernel lists a task's children; where it does not, all of /proc has to be read."""


@dataclass(frozen=True)
class Process:
    """One process at one moment. `resident` in bytes; `started` in clock ticks since boot (tells reused pids apart)."""

    pid: int
    parent: int
    name: str
    state: str
    started: int
    resident: int

    @property
    def ended(self) -> bool:
        """Whether it only waits to be reaped."""
        return self.state in {"Z", "X"}


def read(pid: int) -> Process | None:
    """Return the process `pid`, None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    # The name is in parentheses and may itself hold parentheses and spaces.
    start, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return Process(pid, int(fields[1]), text[start + 1 : end], fields[0], int(fields[19]), int(fields[21]) * _PAGE)


def descendants(root: int) -> dict[int, Process]:
    """Return every process below `root` by pid, parents before their children; ended ones that wait are left out."""
    children = _listed_children if _KNOWS_CHILDREN else _scan()
    found: dict[int, Process] = {}
    todo = [root]
    while todo:
        for pid in children(todo.pop()):
            process = read(pid)
            if process is not None and not process.ended and pid not in found:
                found[pid] = process
                todo.append(pid)
    return found


def _listed_children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - read ten times a second
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123 - the same
                children.extend(map(int, file.read().split()))
    except OSError:
        pass  # it ended meanwhile
    return children


class _scan:  # noqa: N801 - used like the function it stands in for
    """The children of any process, from one pass over /proc."""

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            process = read(int(entry.name)) if entry.name.isdigit() else None
            if process is not None:
                self._children.setdefault(process.parent, []).append(process.pid)

    def __call__(self, pid: int) -> list[int]:
        return self._children.get(pid, [])


def environment(pid: int) -> frozenset[bytes]:
    """Return the environment (`NAME=value`) that the program of `pid` was started with; empty when it has ended.

    In the middle of an exec a process has its new name, and neither arguments nor an environment yet: that moment is
    waited for, up to 50 ms, since who asks would take the process for somebody else's.
    """
    deadline = time.monotonic() + _EXEC_S
    empty = 0
    while True:
        try:
            if entries := Path(f"/proc/{pid}/environ").read_bytes():
                return frozenset(entries.split(b"\0"))
            # It may have got both between the two looks: once more tells.
            empty = empty + 1 if Path(f"/proc/{pid}/cmdline").read_bytes() else 0
        except OSError:
            return frozenset()
        process = read(pid)
        if empty > _LOOKS or process is None or process.ended or time.monotonic() > deadline:
            return frozenset()
        time.sleep(0.0005)


def kill(pids: Iterable[int]) -> None:
    """Kill processes; those that are already gone are no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def reap() -> dict[int, int]:
    """Collect every child of ours that has ended: pid → wait status."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def sweep(seconds: float) -> dict[int, int]:
    """Kill everything below this process until nothing is left or `seconds` have passed; return who was reaped."""
    ended: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    while True:
        below = descendants(os.getpid())
        kill(below)
        ended.update(reap())
        if not below or time.monotonic() > deadline:
            return ended
        time.sleep(0.002)


def how_it_ended(status: int) -> str:
    """Say in words what a wait status means (`was killed by SIGSEGV`, `exited with status 3`)."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"
