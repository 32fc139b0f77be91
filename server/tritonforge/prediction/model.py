"""From a compilation to a predicted time, and the order of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tritonforge.domain.compilation import Compilation, Prediction
from tritonforge.domain.profile import Ceilings
from tritonforge.prediction import parts
from tritonforge.prediction.constants import FITTED, Constants
from tritonforge.prediction.gpus import GpuSpec
from tritonforge.prediction.load import Load, load_of
from tritonforge.prediction.traffic import Footprint

OVERLAP = FITTED.overlap
"""Parts run side by side, but not perfectly: they add up as a norm of this power (1: their sum, ∞: the largest)."""
LOWEST, HIGHEST = 0.70, 1.85
"""The interval, as shares of the predicted time. Of the configurations of kernels that the constants were not fitted to
95 % lie in it, and at least 75 % of any one kernel's (see docs/prediction.md)."""
RELATIVE_LOWEST = 0.80
"""The same among configurations of one kernel: measured over predicted, relative to that kernel's median, is at least
this for 95 % of them. What is predicted to be slower than the best by more cannot be expected to beat it."""
SPREAD_GUESSED = 4.0
"""It reaches from time/4 to 4·time where a trip count or a branch had to be guessed, or no disassembly was there."""


def predict(
    compilation: Compilation,
    footprint: Footprint | int | None,
    spec: GpuSpec,
    ceilings: Ceilings | None = None,
    constants: Constants = FITTED,
) -> Prediction | None:
    """Predict the time of one launch on a GPU, from what the compiler made of it.

    `footprint`: distinct bytes that the launch's tensors hold, of each argument (`traffic.footprint_of`) or all
    together (`traffic.unique_bytes`), None when unknown.
    `ceilings`: measured ones replace the published bandwidth, matrix rates and launch overhead. None when nothing is
    known of the launch's work, or it does not compile.
    """
    held = Footprint(footprint) if isinstance(footprint, int) else footprint
    load = load_of(compilation, spec.sms, held)
    return predict_load(load, compilation, spec, ceilings, constants) if load is not None else None


def predict_load(
    load: Load, compilation: Compilation, spec: GpuSpec, ceilings: Ceilings | None, constants: Constants
) -> Prediction:
    """Predict the time of a launch that is described already (see `predict`)."""
    measured = ceilings is not None and ceilings.provenance == "measured"
    figures = ceilings or spec.ceilings
    gbps = figures.copy_gbps if measured else figures.copy_gbps * constants.dram_share
    dtype = load.work.dot_dtype or "fp16"
    tflops = figures.tflops.get(dtype) or spec.tflops.get(dtype) or spec.tflops.get("fp16")
    achieved = measured and dtype in figures.tflops
    found = {
        "dram": parts.dram(load, spec, gbps),
        "l2": parts.l2(load, spec, constants),
        "shared": parts.shared(load, spec),
        "tensor": parts.tensor(load, compilation, spec, tflops, constants, achieved=achieved),
        "alu": parts.alu(load, spec),
        "special": parts.special(load, spec),
        "spill": parts.spill(load, compilation, spec, gbps, constants),
        "atomic": parts.atomic(load, spec, constants),
        "latency": parts.latency(load, compilation, spec, constants),
    }
    power = constants.overlap
    time = figures.launch_us + sum(value**power for value in found.values()) ** (1 / power)
    found["launch"] = figures.launch_us
    sure = load.work.exact and compilation.instructions
    lowest, highest = (LOWEST, HIGHEST) if sure else (1 / SPREAD_GUESSED, SPREAD_GUESSED)
    floor = figures.launch_us / 2
    return Prediction(
        time_us=time,
        interval=(max(floor, time * lowest), time * highest),
        parts={name: value for name, value in found.items() if value > 0},
        dominant=max(found, key=lambda name: found[name]),
        gpu=spec.name,
    )


def rank(predictions: Mapping[str, Prediction] | Sequence[tuple[str, Prediction]]) -> list[str]:
    """Return the names of predictions, the fastest first; equal times keep their order."""
    items = list(predictions.items()) if isinstance(predictions, Mapping) else list(predictions)
    return [name for name, _ in sorted(items, key=lambda item: item[1].time_us)]
