"""What a job's failure says when its lane ended, or had to be ended, without an answer."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tritonforge.domain.messages import Failure
from tritonforge.worker.processes import how_it_ended
from tritonforge.worker.schedule import Job

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)


def oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since boot (0 when it does not say)."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(r"^oom_kill (\d+)", text, re.MULTILINE)
    return int(match[1]) if match else 0


def out_of_time(job: Job, output: str) -> Failure:
    """The job ran longer than it may."""
    sentence = (
        f"The {job.name} job took more than its {job.seconds:g} s and was stopped; give it less work, "
        "or raise seconds under [limits] in tritonforge.toml."
    )
    return Failure("timeout", sentence, detail=output)


def out_of_memory(job: Job, resident: int, output: str) -> Failure:
    """The job and the processes it started held more memory than they may."""
    sentence = (
        f"The {job.name} job held {_size(resident)} of memory, more than its {_size(job.memory_bytes)}, and was "
        "stopped; allow it more memory, or smaller tensors."
    )
    return Failure("memory", sentence, detail=output)


def never_started(job: Job) -> Failure:
    """No lane came up for the job."""
    return Failure("crashed", f"No process could be started for the {job.name} job; the machine may be out of memory.")


def cancelled(job: Job) -> Failure:
    """The client no longer wants the job's result."""
    return Failure("cancelled", f"The {job.name} job was cancelled.")


def died(job: Job, status: int, output: str, *, oom_killed: bool) -> Failure:
    """The lane's process ended by itself with the wait status `status`, having printed `output`."""
    how = how_it_ended(status)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and oom_killed:
        sentence = f"The machine ran out of memory, so that the kernel killed the process of the {job.name} job."
        return Failure("memory", sentence, detail=output)
    file, line = _where(output)
    place = f" at {file}:{line}" if file else f" (it said: {said})" if (said := _last_line(output)) else ""
    sentence = f"The process of the {job.name} job {how} before it was done{place}."
    return Failure("crashed", sentence, file, line, detail=output)


def _where(output: str) -> tuple[str | None, int | None]:
    """The innermost frame of the traceback that faulthandler leaves when a process crashes."""
    start = output.rfind("(most recent call first)")
    match = _FRAME.search(output, start) if start >= 0 else None
    return (match["file"], int(match["line"])) if match else (None, None)


def _last_line(output: str) -> str:
    return next((line.strip()[:200] for line in reversed(output.splitlines()) if line.strip()), "")


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
