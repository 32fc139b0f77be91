"""The `Watch` job: what does a call's own kernel do wrong, seen in the interpreter?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from tritonforge.domain.faults import Fault
from tritonforge.domain.messages import Watch, WatchResult
from tritonforge.worker.failures import JobContext
from tritonforge.worker.fakecuda import faked
from tritonforge.worker.interpreter.failing import KernelFailed
from tritonforge.worker.interpreter.poison import ORIGINAL, Poison
from tritonforge.worker.interpreter.running import OutOfTime, Run, running
from tritonforge.worker.launching import first_configs
from tritonforge.worker.repeating import RunFailed, Where, run_call


def watch(request: Watch, context: JobContext) -> WatchResult:
    """Answer a `Watch` request in a process that interprets.

    Raises:
        JobFailed: `unsupported`, when the call's arguments cannot be rebuilt.
    """
    context.progress(f"Interpreting {request.call.function}")
    runs: list[Run] = []

    @contextlib.contextmanager
    def around(poison: Poison) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        run = Run(poison, following=True, order="reverse", deadline=time.monotonic() + request.seconds)
        runs.append(run)
        with faked(fill_empty=poison.fill), first_configs(), running(run):
            yield run.launches

    faults: list[Fault] = []
    stopped = ""
    try:
        run_call(request.program, request.call, Where("cpu", around), ORIGINAL)
    except RunFailed as failed:
        stopped = str(failed)
        cause = failed.__cause__
        if isinstance(cause, OutOfTime):
            stopped = f"it takes more than {request.seconds:g} s to interpret"
        elif isinstance(cause, KernelFailed) and cause.out_of_bounds:
            kernel = runs[-1].launches[-1][0] if runs and runs[-1].launches else ""
            faults.append(Fault("out-of-bounds", kernel, str(cause), cause.line))
    faults += [Fault(c.kind, c.kernel, c.text, c.line) for run in runs for c in run.conflicts]
    return WatchResult(tuple(dict.fromkeys(faults)), stopped)
