"""From a compilation to a predicted time, and the order of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tritonforge.domain.compilation import Compilation, Prediction
from tritonforge.domain.profile import Ceilings
from tritonforge.prediction import parts
from tritonforge.prediction.gpus import GpuSpec
from tritonforge.prediction.load import load_of

OVERLAP = 6.0
"""Parts run side by side, but not perfectly: they add up as a norm of this power (1: their sum, ∞: the largest)."""
SPREAD = 2.0
"""The interval reaches from time/SPREAD to time·SPREAD. All 19 launches of the calibration set lie within a factor 1.5,
but they are what the constants were chosen on."""
SPREAD_GUESSED = 4.0
"""The same where a trip count or a branch had to be guessed, or no disassembly was there."""


def predict(
    compilation: Compilation, launch_bytes: int | None, spec: GpuSpec, ceilings: Ceilings | None = None
) -> Prediction | None:
    """Predict the time of one launch on a GPU, from what the compiler made of it.

    `launch_bytes`: distinct bytes that the launch's tensors hold (`traffic.unique_bytes`), None when unknown.
    `ceilings`: measured ones replace the published bandwidth, matrix rates and launch overhead. None when nothing is
    known of the launch's work, or it does not compile.
    """
    load = load_of(compilation, spec.sms)
    if load is None:
        return None
    measured = ceilings is not None and ceilings.provenance == "measured"
    figures = ceilings or spec.ceilings
    gbps = figures.copy_gbps if measured else figures.copy_gbps * parts.DRAM_SHARE
    dtype = load.work.dot_dtype or "fp16"
    tflops = figures.tflops.get(dtype) or spec.tflops.get(dtype) or spec.tflops.get("fp16")
    achieved = measured and dtype in figures.tflops
    found = {
        "dram": parts.dram(load, launch_bytes, spec, gbps),
        "l2": parts.l2(load, spec),
        "tensor": parts.tensor(load, compilation, spec, tflops, achieved=achieved),
        "alu": parts.alu(load, spec),
        "special": parts.special(load, spec),
        "spill": parts.spill(load, compilation, spec, gbps),
        "atomic": parts.atomic(load, spec),
        "latency": parts.latency(load, compilation, spec),
    }
    time = figures.launch_us + sum(value**OVERLAP for value in found.values()) ** (1 / OVERLAP)
    found["launch"] = figures.launch_us
    spread = SPREAD if load.work.exact and compilation.instructions else SPREAD_GUESSED
    floor = figures.launch_us / 2
    return Prediction(
        time_us=time,
        interval=(max(floor, time / spread), time * spread),
        parts={name: value for name, value in found.items() if value > 0},
        dominant=max(found, key=lambda name: found[name]),
        gpu=spec.name,
    )


def rank(predictions: Mapping[str, Prediction] | Sequence[tuple[str, Prediction]]) -> list[str]:
    """Return the names of predictions, the fastest first; equal times keep their order."""
    items = list(predictions.items()) if isinstance(predictions, Mapping) else list(predictions)
    return [name for name, _ in sorted(items, key=lambda item: item[1].time_us)]
