"""The `MeasureExtents` job: how much of its buffers does a launch touch?"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import BufferExtent, CallExtents, ExtentsResult, MeasureExtents
from tritonforge.worker.calling import identity
from tritonforge.worker.failures import JobContext
from tritonforge.worker.fakecuda import faked
from tritonforge.worker.interpreter.bounds import Buffer
from tritonforge.worker.interpreter.extents import Extents
from tritonforge.worker.interpreter.poison import ORIGINAL, Poison
from tritonforge.worker.interpreter.running import OutOfTime, Run, running
from tritonforge.worker.launching import first_configs
from tritonforge.worker.loading import digest_of
from tritonforge.worker.repeating import RunFailed, Where, run_call

_KEPT = 256
_known: OrderedDict[str, CallExtents] = OrderedDict()


def measure_extents(request: MeasureExtents, context: JobContext) -> ExtentsResult:
    """Answer a `MeasureExtents` request in a process that interprets.

    Raises:
        JobFailed: `unsupported`, when an input cannot be rebuilt.
    """
    digest = digest_of(request.program)
    found: list[CallExtents] = []
    for i, call in enumerate(request.inputs):
        context.progress(f"Measuring launch {i + 1} of {len(request.inputs)}", i / len(request.inputs))
        key = identity(digest, replace(call, launches=(), id=""))
        if key not in _known:
            _known[key] = _measure(request, call)
            while len(_known) > _KEPT:
                _known.popitem(last=False)
        found.append(_known[key])
    return ExtentsResult(tuple(found))


def _measure(request: MeasureExtents, call: Call) -> CallExtents:
    guards: list[Extents] = []

    def follow(buffers: list[Buffer]) -> Extents:
        guards.append(Extents(buffers))
        return guards[-1]

    @contextlib.contextmanager
    def around(poison: Poison) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        run = Run(poison, deadline=time.monotonic() + request.seconds, guard=follow)
        with faked(fill_empty=poison.fill), first_configs(), running(run):
            yield run.launches

    try:
        run_call(request.program, call, Where("cpu", around), ORIGINAL)
    except RunFailed as failed:
        if isinstance(failed.__cause__, OutOfTime):
            return CallExtents(error=f"it takes more than {request.seconds:g} s to interpret")
        return CallExtents(error=str(failed))
    if len(guards) != 1:
        return CallExtents(error=f"it makes {len(guards)} launches")
    names = [name for name, value in call.keywords if isinstance(value, Tensor)]
    return CallExtents(tuple(_extent(name, guards[0]) for name in names), guards[0].overlapping)


def _extent(name: str, guard: Extents) -> BufferExtent:
    found = guard.touched(name)
    if found is None:
        return BufferExtent(name, 0, read=False, written=False)
    high, touched = found
    return BufferExtent(name, high, read=touched.read, written=touched.written)
