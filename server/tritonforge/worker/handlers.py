"""Which function does which job, and what a zygote prepares before it forks lanes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    Compile,
    Count,
    Describe,
    LookAtGpu,
    MeasureCeilings,
    MeasureExtents,
    Record,
    Sanitize,
    Time,
    TimeBeside,
    TimeFresh,
    Watch,
)
from tritonforge.worker.failures import JobContext


def prepare(kind: Literal["compile", "interpret"]) -> None:
    """Import torch and Triton and set up what lanes share; initialises no CUDA. Called once, before lanes are forked.

    Raises:
        JobFailed: `unsupported`, when Triton was already imported in the other mode.
    """
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote(kind)
    for module in _FIRST[kind]:
        importlib.import_module(module)


_FIRST: dict[Literal["compile", "interpret"], tuple[str, ...]] = {
    "compile": (
        "numpy.random",
        "triton.compiler.code_generator",
        "tritonforge.worker.compiling",
        "tritonforge.worker.on_device",
        "tritonforge.worker.timing.job",
    ),
    "interpret": (
        "numpy.random",
        "triton.compiler.code_generator",
        "tritonforge.worker.record",
        "tritonforge.worker.comparing_interpreted",
    ),
}
"""What nearly every lane needs: imported once, and not by each lane when it does its first job."""


def _late(module: str, function: str) -> Callable[[Any, JobContext], Any]:
    """Return a handler that imports its module when it is first called.

    A supervisor reads this table without torch, and a process that compiles cannot import what interprets.
    """

    def handle(request: Any, context: JobContext) -> Any:
        return getattr(importlib.import_module(f"tritonforge.worker.{module}"), function)(request, context)

    return handle


HANDLERS: dict[type, Callable[[Any, JobContext], Any]] = {
    Record: _late("record", "record"),
    Compile: _late("compiling", "compile_call"),
    Compare: _late("comparing_interpreted", "compare_interpreted"),
    CompareOnDevice: _late("on_device", "compare_on_device"),
    Time: _late("timing.job", "time_programs"),
    TimeFresh: _late("timing.job", "time_programs"),
    TimeBeside: _late("timing.job", "time_programs"),
    Count: _late("counting", "count"),
    Sanitize: _late("sanitizing", "sanitize"),
    MeasureCeilings: _late("ceilings", "measure_ceilings"),
    Describe: _late("machine", "describe_machine"),
    MeasureExtents: _late("measuring_extents", "measure_extents"),
    Watch: _late("watching", "watch"),
    LookAtGpu: _late("timing.state", "look_at_gpu"),
}
"""The function for each job: takes the request and the job's context, returns the request's result type."""
