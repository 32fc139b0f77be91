"""The process that a profiler watches: repeats a call's launches, each once (or, to be sampled, often enough)."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonforge.domain.codec import decode, encode
from tritonforge.domain.messages import Count, Failure, Time
from tritonforge.worker.failures import JobFailed

if TYPE_CHECKING:
    from tritonforge.worker.timing.taking import Taken

REQUEST, LAUNCHES, FAILURE, SAMPLES = "request.json", "launches.json", "failure.json", "samples.hatchet"
"""Files of the folder through which a job and this process speak."""
_GOODBYE_S = 10.0
_SAMPLED_S = 0.1
_FEWEST, _MOST = 10, 500


def main(folder: str) -> None:
    """Do what the folder's request says, and leave the launches, or the failure, beside it."""
    place = Path(folder)
    status = 0
    try:
        request = decode(Count, json.loads((place / REQUEST).read_text(encoding="utf-8")))
        _count(request, place)
    except JobFailed as error:
        _leave(place, error.failure)
        status = 1
    except BaseException as error:
        traceback.print_exc()
        _leave(place, Failure("internal", f"The profiled process failed: {type(error).__name__}: {error}"))
        status = 1
    # A profiler collects its last results when the process ends in good order, which the program's threads may prevent.
    patience = threading.Timer(_GOODBYE_S, os._exit, (status,))
    patience.daemon = True
    patience.start()
    sys.exit(status)


def _leave(place: Path, failure: Failure) -> None:
    (place / FAILURE).write_text(json.dumps(encode(failure)), encoding="utf-8")


def _count(request: Count, place: Path) -> None:
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote("compile")
    from tritonforge.worker.on_device import need_gpu
    from tritonforge.worker.recording import launch_key
    from tritonforge.worker.timing.taking import NotRun, take

    need_gpu()
    try:
        taken = take(request.program, Time((request.program,), request.call, request.kernels))
    except NotRun as error:
        raise JobFailed("memory" if error.memory else "user-error", str(error)) from error
    first: dict[str, Taken] = {}
    for one in taken:
        first.setdefault(launch_key(one.launch), one)
    distinct = list(first.values())[: request.most]
    if request.level == "ncu":
        _profiled_once(distinct)
    else:
        _sampled(distinct, place)
    (place / LAUNCHES).write_text(json.dumps(encode([one.launch for one in distinct])), encoding="utf-8")


def _profiled_once(launches: Sequence[Taken]) -> None:
    import torch

    cuda = torch.cuda.cudart()
    for one in launches:
        one.reset()
        torch.cuda.synchronize()
        cuda.cudaProfilerStart()
        one.start()
        torch.cuda.synchronize()
        cuda.cudaProfilerStop()


def _sampled(launches: Sequence[Taken], place: Path) -> None:
    import torch

    repeats = [_repeats(one) for one in launches]
    try:
        proton = _start_proton(str(place / SAMPLES.removesuffix(".hatchet")))
        for index, (one, times) in enumerate(zip(launches, repeats)):  # noqa: B905 - of equal length
            for _ in range(times):
                one.reset()
                with proton.scope(f"launch{index}"):
                    one.start()
        torch.cuda.synchronize()
        proton.finalize()
    except (ImportError, RuntimeError, ValueError, TypeError) as error:
        raise JobFailed("unsupported", f"Proton: {' '.join(str(error).split())[:300]}") from error


def _start_proton(name: str) -> Any:
    from triton import profiler

    try:
        profiler.start(name, backend="cupti", mode="pcsampling")
    except TypeError:  # Triton 3.2 had a backend of its own for it
        profiler.start(name, backend="cupti_pcsampling")
    return profiler


def _repeats(one: Taken) -> int:
    """Return how often a launch has to run for enough samples."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    one.reset()
    start.record()
    one.start()
    end.record()
    end.synchronize()
    seconds = max(float(start.elapsed_time(end)) / 1e3, 1e-6)
    return min(_MOST, max(_FEWEST, math.ceil(_SAMPLED_S / seconds)))
