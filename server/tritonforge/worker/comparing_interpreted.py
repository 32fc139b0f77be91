"""Run comparisons in Triton's interpreter, on the CPU, with every access checked."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tritonforge.domain.messages import Compare, CompareResult
from tritonforge.worker.comparing import Where, compare
from tritonforge.worker.failures import JobContext
from tritonforge.worker.fakecuda import faked
from tritonforge.worker.interpreter.poison import Poison
from tritonforge.worker.interpreter.running import Run, running
from tritonforge.worker.interpreter.shadow import Shadow
from tritonforge.worker.interpreter.shims import operations
from tritonforge.worker.interpreter.widening import widening
from tritonforge.worker.interpreter.witnessing import witnessing
from tritonforge.worker.launching import first_configs
from tritonforge.worker.rerunning import in_order, run_again


def compare_interpreted(request: Compare, context: JobContext) -> CompareResult:
    """Answer a `Compare` request in a process that interprets."""
    where = Where(
        "cpu",
        _around,
        operations=operations,
        widened=lambda: widening(Shadow()),
        witnessing=witnessing,
        further=run_again,
    )
    return compare(request, context, replace(where, ordered=functools.partial(in_order, where=where)))


@contextlib.contextmanager
def _around(poison: Poison) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    run = Run(poison, following=True)
    with faked(fill_empty=poison.fill), first_configs(), running(run):
        yield run.launches
