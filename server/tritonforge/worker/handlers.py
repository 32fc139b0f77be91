"""Which function does which job, and what a zygote prepares before it forks lanes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Literal

from tritonforge.domain.messages import Compile, Record
from tritonforge.worker.failures import JobContext


def prepare(kind: Literal["compile", "interpret"]) -> None:
    """Import torch and Triton and set up what lanes share; initialises no CUDA. Called once, before lanes are forked.

    Raises:
        JobFailed: `unsupported`, when Triton was already imported in the other mode.
    """
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote(kind)


def _record(request: Any, context: JobContext) -> Any:
    from tritonforge.worker.record import record

    return record(request, context)


def _compile(request: Any, context: JobContext) -> Any:
    from tritonforge.worker.compiling import compile_call

    return compile_call(request, context)


HANDLERS: dict[type, Callable[[Any, JobContext], Any]] = {Record: _record, Compile: _compile}
"""The function for each job: takes the request and the job's context, returns the request's result type."""
del os, sys
