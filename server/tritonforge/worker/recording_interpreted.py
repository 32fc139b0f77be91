"""Record a program whose launches depend on what its kernels compute: run them, in Triton's interpreter.

A process that compiles cannot interpret, so this is a process of its own. It records as the other does, but each kernel
that is launched also runs, until `SECONDS` are over; from then on kernels are described only.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritonforge.domain.messages import Record, RecordResult
from tritonforge.worker.failures import JobFailed

SECONDS = 45.0
_PROGRAM = (
    "import pickle, sys; path, request, answer = pickle.loads(open(sys.argv[1], 'rb').read()); sys.path[:] = path; "
    "from tritonforge.worker.recording_interpreted import main; main(request, answer)"
)


def record_interpreted(request: Record) -> RecordResult | None:
    """Record in a process that interprets, or return None when that does not get anywhere."""
    with tempfile.TemporaryDirectory(prefix="tritonforge-record-") as folder:
        question, answer = Path(folder, "question"), Path(folder, "answer")
        question.write_bytes(pickle.dumps((sys.path, request, str(answer))))
        with contextlib.suppress(OSError):
            subprocess.run([sys.executable, "-u", "-c", _PROGRAM, str(question)], check=False)
        try:
            found = pickle.loads(answer.read_bytes())  # noqa: S301 - what our own process wrote
        except (OSError, pickle.UnpicklingError, EOFError):
            return None
    return found if isinstance(found, RecordResult) else None


class _NoOutput:
    """The context of a recording inside another: its output is already the other's."""

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Say nothing."""

    def output(self) -> str:
        """Return nothing."""
        return ""


def main(request: Record, answer: str) -> None:
    """Record and leave the result in the file `answer`."""
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote("interpret")
    from tritonforge.worker.recording_run import record_with

    with contextlib.suppress(JobFailed):
        result = record_with(request, _NoOutput(), interpreting)
        Path(answer).write_bytes(pickle.dumps(result))


@contextlib.contextmanager
def interpreting(take: Any) -> Iterator[None]:
    """Hand every launch to `take`, and then run it."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction

    from tritonforge.worker.fakecuda.patches import Patches
    from tritonforge.worker.interpreter.running import OutOfTime, Run, run_interpreted, running
    from tritonforge.worker.launching import LaunchEvent, Tuned, bind, resolve_grid, run_in_turn, user_frame

    tuned = Tuned()
    run = Run(deadline=time.monotonic() + SECONDS)

    def launch(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        if not warmup:
            bound, options = bind(self, args, kwargs)
            resolved = resolve_grid(grid, bound)
            if 0 in resolved:
                return None
            take(LaunchEvent(self, args, kwargs, bound, options, resolved, user_frame(), tuned.depth > 0))
            if time.monotonic() > run.deadline:
                return None
        with contextlib.suppress(OutOfTime):
            return run_interpreted(self, *args, grid=grid, warmup=warmup, **kwargs)
        return None

    patches = Patches()
    patches.set(InterpretedFunction, "run", launch)
    patches.set(Autotuner, "run", functools.partialmethod(run_in_turn, tuned, 0))
    try:
        with running(run):
            yield
    finally:
        patches.restore()
