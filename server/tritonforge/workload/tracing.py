"""`trace`: run a command with recording injected, and read what its processes left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tritonforge.domain.launch import Call
from tritonforge.domain.trace import Spool, Trace, TracedFailure
from tritonforge.store import Store
from tritonforge.targets.command_run import run_command
from tritonforge.workload.recorded import keep
from tritonforge.workload.tracing_injection import Injection, injected
from tritonforge.workload.tracing_kernels import Resolved, Sources
from tritonforge.workload.tracing_reading import read_trace

RECORDING = ("worker.tracing.recording",)
"""What is started in each process."""

_CRASHES = {
    int(signal.SIGKILL): "SIGKILL, which the system sends when memory runs out",
    **{
        int(number): number.name
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
    },
}
"""Signals that end a program which did not mean to end, with what is to be said of them."""


@dataclass(frozen=True)
class Traced:
    """What came of a traced command, which ran for `wall_s` seconds.

    `kept` are the calls of each kernel that can be repeated.
    """

    exit_code: int
    trace: Trace
    kept: tuple[tuple[Resolved, tuple[Call, ...]], ...]
    wall_s: float


def trace_command(
    command: Sequence[str],
    root: Path,
    *,
    arch: str = "sm_90",
    also: tuple[str, ...] = (),
    look: Callable[[Injection, Sequence[Spool], Sources], None] | None = None,
) -> Traced:
    """Run `command`; what it launches is recorded, and it never notices.

    Args:
        command: the program and its arguments.
        root: the workspace that files are named by, and whose functions are host functions.
        arch: what a GPU is pretended to be where there is none.
        also: further modules to start in each process.
        look: called when the command has ended, before what its processes left is removed, with what was read of it.

    Raises:
        CommandNotStarted: with the exit code that a shell gives.
    """
    with injected(start=(*RECORDING, *also), options={"root": str(root), "arch": arch}) as injection:
        began = time.monotonic()
        code, left = run_command(
            command,
            injection.environment(os.environ),
            marker=injection.marker,
            tidy=lambda: shutil.rmtree(injection.folder, ignore_errors=True),
        )
        wall_s = time.monotonic() - began
        spools, sources = injection.spools(), Sources(root)
        if look is not None:
            look(injection, spools, sources)
        trace, kept = read_trace(tuple(command), sources, spools)
        failures = (*_around(command, injection, code, left), *trace.failures)
        return Traced(code, replace(trace, failures=failures, python=injection.processes()), kept, wall_s)


def store_calls(traced: Traced, root: Path, store: Store) -> None:
    """Remember the calls of kernels that lie in the workspace, so that every command finds them."""

    def read(file: str) -> str | None:
        try:
            return (root / file).read_text("utf-8", "replace")
        except OSError:
            return None

    for resolved, calls in traced.kept:
        keep(store, resolved.kernel, calls, "trace", read)


def _around(command: Sequence[str], injection: Injection, code: int, left: int) -> list[TracedFailure]:
    """Return why processes of the command may be missing."""
    failures = [TracedFailure("", f"recording could not be started: {reason}") for reason in injection.failed()]
    if code - 128 in _CRASHES:
        how = _CRASHES[code - 128]
        failures.append(TracedFailure("", f"the command was ended by {how}; what it launched before is here"))
    if left:
        many, what = ("1 process", "it launches") if left == 1 else (f"{left} processes", "they launch")
        failures.append(TracedFailure("", f"{many} of the command still ran when it ended; what {what} is not here"))
    if not injection.processes():
        failures.append(TracedFailure("", _why_unseen(command)))
    return failures


def _why_unseen(command: Sequence[str]) -> str:
    """Return why no Python process was seen, in words that follow "nothing was recorded:"."""
    options = [a for a in command[1:] if a.startswith("-") and a[1:].isalpha()]
    for letter, how in (("I", "isolated"), ("E", "without its environment"), ("S", "without the site module")):
        if any(letter in option for option in options):
            return f"nothing was recorded: -{letter} starts Python {how}, and recording comes in that way"
    return (
        "nothing was recorded: the command started no Python that takes PYTHONPATH from its environment (a launcher "
        "that clears the environment, a container or another machine keeps recording out)"
    )
