"""Run a command of the user's as a shell would: its own stdio, signals passed on, its exit code, nothing left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tritonforge.domain.errors import TritonForgeError

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_FROM_TERMINAL = 0x80
"""`si_code` of a signal that the kernel itself sent: the terminal gave it to the command as well."""

_LEFT_S = 5.0
_GRACE_S = 2.0


class CommandNotStarted(TritonForgeError):
    """The command could not be started; `exit_code` is what a shell returns for that."""

    def __init__(self, message: str, mend: str, code: int) -> None:
        super().__init__(message, mend)
        self.exit_code = code


def run_command(
    command: Sequence[str], environment: Mapping[str, str], *, marker: str, tidy: Callable[[], None]
) -> tuple[int, int]:
    """Run `command` to its end; return its exit code (128 + n when signal n ended it) and how many processes it left.

    Signals sent to this process are passed on; those of the terminal reach the command by themselves. `marker` is a
    text that only the command's processes have in their environment: those that outlive it in this session are waited
    for a moment (a shell would not see daemons either). Should this process be killed, a watcher ends all of them and
    calls `tidy`.

    Raises:
        CommandNotStarted: when there is no such command, or it cannot be executed.
    """
    pending: list[int] = []
    with _collecting(pending), _watched(marker, tidy):
        try:
            process = subprocess.Popen(list(command), env=dict(environment))
        except FileNotFoundError:
            raise _not_found(command[0]) from None
        except (PermissionError, OSError) as error:
            raise CommandNotStarted(
                f"{command[0]} cannot be executed ({error.strerror or error}).", "", NOT_EXECUTABLE
            ) from None
        code = _wait(process, pending)
        left = _wait_for_left(marker)
    return (code if code >= 0 else 128 - code), left


def _not_found(name: str) -> CommandNotStarted:
    mend = "Check its spelling and PATH."
    if name.endswith(".py") and Path(name).is_file():
        mend = f"It is a Python file: write python {name}."
    elif os.sep in name and shutil.which(name) is None:
        mend = "Check its path."
    return CommandNotStarted(f"command not found: {name}.", mend, NOT_FOUND)


@contextlib.contextmanager
def _collecting(pending: list[int]) -> Iterator[None]:
    """Keep the signals that are to be passed on from ending this process."""
    before = {}
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup, for the command too
            before[number] = signal.signal(number, lambda n, _f: pending.append(n))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(process: subprocess.Popen[bytes], pending: list[int]) -> int:
    waited = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        while True:
            for number in pending:
                process.send_signal(number)
            pending.clear()
            code = process.poll()
            if code is not None:
                return code
            if sys.platform == "linux":
                # The timeout is for a SIGCHLD that somebody ignores.
                came = signal.sigtimedwait(waited, 1.0)
                if came is not None and came.si_signo != signal.SIGCHLD and came.si_code != _FROM_TERMINAL:
                    process.send_signal(came.si_signo)
            else:
                time.sleep(0.05)
    finally:
        # What came meanwhile was for the command.
        while sys.platform == "linux" and signal.sigtimedwait(waited, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_left(marker: str) -> int:
    """Wait for processes of the command that outlive it in this session; return how many still run."""
    deadline = time.monotonic() + _LEFT_S
    session = os.getsid(0)
    pause = 0.005
    while True:
        left = [pid for pid in processes_of(marker) if _session(pid) == session]
        if not left or time.monotonic() > deadline:
            return len(left)
        time.sleep(pause)
        pause = min(0.1, pause * 2)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def processes_of(marker: str) -> list[int]:
    """Return the processes that were started with `marker` in their environment, this one left out."""
    found: list[int] = []
    needle = marker.encode()
    for entry in os.listdir("/proc") if Path("/proc").is_dir() else ():  # noqa: PTH208 - hundreds, several times a second
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:  # noqa: PTH123 - the same
                    if needle in file.read():
                        found.append(int(entry))
            except OSError:
                continue
    return found


@contextlib.contextmanager
def _watched(marker: str, tidy: Callable[[], None]) -> Iterator[None]:
    """Have a process in another session notice when this one is killed: it ends what is left, and tidies up."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        _watch(ours, theirs, marker, tidy)
    os.close(ours)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.write(theirs, b"done")
        os.close(theirs)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(watcher, 0)


def _watch(ours: int, theirs: int, marker: str, tidy: Callable[[], None]) -> None:
    try:
        os.setsid()
        os.close(theirs)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        if os.read(ours, 4):
            return
        for number, seconds in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
            deadline = time.monotonic() + seconds
            for pid in processes_of(marker):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            while processes_of(marker) and time.monotonic() < deadline:
                time.sleep(0.02)
        tidy()
    finally:
        os._exit(0)
