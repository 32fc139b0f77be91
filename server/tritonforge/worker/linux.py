"""The few Linux calls that the standard library lacks."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    _libc.prctl(option, argument, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def die_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Have the kernel send `with_signal` to this process when `parent` ends; exit at once when it already has."""
    _prctl(_PR_SET_PDEATHSIG, with_signal)
    if os.getppid() != parent:
        os._exit(1)


def die_with_this_thread() -> None:
    """Have the kernel kill this process when the thread that started it ends (for use between fork and exec)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_process_name(name: str) -> None:
    """Name this process, and those it forks without exec, in `ps` and `/proc` (15 characters at most)."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def flush_c_streams() -> None:
    """Write out what C code printed but the C library still holds."""
    _libc.fflush(None)


def available_cores() -> int:
    """How many cores this process may use: its affinity, and the quota of its container."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not needed here yet
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # cgroup v1, or none: affinity it is
    return cores
