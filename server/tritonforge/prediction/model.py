"""From a compilation to a predicted time."""

from __future__ import annotations

import math
from collections.abc import Iterable

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
"""It reaches from time/4 to 4·time where something had to be guessed: a trip count, a branch, instructions, how many
programs an SM holds, the figures of a GPU of which others stand in, or how an AMD GPU goes about it at all."""


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
    `ceilings`: measured ones replace the published bandwidth, matrix rates and launch overhead; what is no positive
    number in them is not known. None when nothing is known of the launch's work, when what is known cannot be, or when
    it does not compile.
    """
    held = Footprint(footprint) if isinstance(footprint, int) else footprint
    load = load_of(compilation, spec.sms, held)
    if load is None:
        return None
    found = predict_load(load, compilation, spec, ceilings, constants)
    return found if math.isfinite(found.time_us) else None


def predict_load(
    load: Load, compilation: Compilation, spec: GpuSpec, ceilings: Ceilings | None, constants: Constants
) -> Prediction:
    """Predict the time of a launch that is described already (see `predict`); NaN where that cannot be."""
    figures = ceilings or spec.ceilings
    measured = figures.provenance == "measured"
    gbps, known = _first(figures.copy_gbps, spec.dram_gbps)
    gbps *= 1.0 if measured and known else constants.dram_share
    dtype = load.work.dot_dtype or "fp16"
    tflops, known = _first(figures.tflops.get(dtype), spec.tflops.get(dtype) or spec.tflops.get("fp16"))
    achieved = measured and known
    launch, _ = _first(figures.launch_us, spec.launch_us)
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
    time = launch + _norm(found.values(), constants.overlap)
    found["launch"] = launch
    facts = load.work.exact and compilation.instructions and compilation.occupancy
    sure = facts and not spec.stand_in and spec.arch.startswith("sm_")
    lowest, highest = (LOWEST, HIGHEST) if sure else (1 / SPREAD_GUESSED, SPREAD_GUESSED)
    floor = launch / 2
    return Prediction(
        time_us=time,
        interval=(max(floor, time * lowest), time * highest),
        parts={name: value for name, value in found.items() if value > 0},
        dominant=max(found, key=lambda name: found[name]),
        gpu=spec.name,
    )


def _first(value: float | None, otherwise: float | None) -> tuple[float, bool]:
    """Return `value` where it is a positive number, else `otherwise`, and which of them it is."""
    good = value is not None and 0 < value < math.inf
    return (value or 0.0) if good else (otherwise or 0.0), good


def _norm(values: Iterable[float], power: float) -> float:
    """Return the norm of parts in µs; NaN when one of them is none: negative, infinite, not a number."""
    values = list(values)
    largest = max(values)
    if not all(0 <= value < math.inf for value in values):
        return math.nan
    return largest * sum((value / largest) ** power for value in values) ** (1 / power) if largest else 0.0
