"""The 19 timed H200 launches as cases: source and golden compilations, with or without their measured times."""

from __future__ import annotations

import dataclasses
import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.compilation import read
from tritonforge.diagnosis import Case, Gpu
from tritonforge.domain.codec import decode
from tritonforge.domain.counters import Counters
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.domain.profile import Ceilings, TimeDistribution
from tritonforge.prediction import gpu_for, predict, unique_bytes
from tritonforge.profiling.roofline import roofline
from tritonforge.workload.launches import to_launch

DATA = Path(__file__).parents[1] / "data"
SOURCE = (DATA / "h200" / "pathologies.py").read_text(encoding="utf-8")
LABELS: dict[str, list[str]] = json.loads((DATA / "h200" / "labels.json").read_text(encoding="utf-8"))
TIMES = json.loads((DATA / "h200" / "pathologies_times.json").read_text(encoding="utf-8"))
SPEC = gpu_for("sm_90", "H200")
assert SPEC is not None
MEASURED = Ceilings(
    SPEC.name,
    copy_gbps=TIMES["_copy_TBps"] * 1e3,
    tflops={**SPEC.tflops, "fp16": TIMES["_fp16_TFLOPs"]},
    launch_us=SPEC.launch_us,
    l2_gbps=SPEC.l2_gbps,
)


@cache
def counters() -> dict[str, Counters]:
    """What the hardware counted for each launch (read from the Nsight Compute report beside the times)."""
    texts = json.loads(lzma.decompress((DATA / "h200" / "counters.json.xz").read_bytes()))
    return {name: decode(Counters, text) for name, text in texts.items()}


@cache
def levels(triton: str) -> dict[str, dict[str, Case]]:
    """Each launch at every level of evidence: compiled, timed too, counters alone, all."""
    compiled, timed = dict(cases(triton, measured=False)), dict(cases(triton, measured=True))
    return {
        name: {
            "compiled": compiled[name],
            "timed": timed[name],
            "counters": Case(timed[name].kernel, counters=counters()[name]),
            "all": dataclasses.replace(timed[name], counters=counters()[name]),
        }
        for name in LABELS
    }


@cache
def kernels() -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in analyze(SOURCE, "pathologies.py").kernels}


@cache
def golden(triton: str) -> dict[str, CompiledLaunch]:
    texts = json.loads(lzma.decompress((DATA / "compilation" / f"pathologies-{triton}.json.xz").read_bytes()))
    return {name: decode(CompiledLaunch, text) for name, text in texts.items()}


def cases(triton: str, *, measured: bool) -> Iterator[tuple[str, Case]]:
    """Each launch by its label's name: predicted by public figures, or measured with measured ceilings."""
    assert SPEC is not None
    ceilings = MEASURED if measured else SPEC.ceilings
    for name, compiled in golden(triton).items():
        kernel = kernels()[compiled.launch.kernel]
        launch = to_launch(kernel, compiled.launch)
        compilation = read(compiled, launch_id=launch.id, kernel_file_path="/golden/pathologies.py")
        useful = unique_bytes(launch)
        median = TIMES[name]["median_ms"] * 1e3
        flops = compilation.work.total("dot_flops") * launch.programs if compilation.work else 0.0
        dtype = compilation.work.dot_dtype if compilation.work else None
        yield (
            name,
            Case(
                kernel,
                launch,
                compilation,
                predict(compilation, useful, SPEC, ceilings),
                TimeDistribution(median, (median, median), 1) if measured else None,
                roofline(useful_bytes=useful or 0, flops=flops, dtype=dtype, time_us=median, ceilings=ceilings)
                if measured
                else None,
                Gpu(SPEC.sms, ceilings),
            ),
        )
