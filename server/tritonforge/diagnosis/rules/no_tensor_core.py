"""TF201: dots that run on ordinary arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.facts import tensor_ceiling_tflops, traffic
from tritonforge.diagnosis.finding import evidence, gain_of, microseconds, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.matrix_units import OrdinaryDot, ordinary_dot


def _look(case: Case) -> Iterable[Observation]:
    seen = ordinary_dot(case)
    if seen is None:
        return
    known, peak = traffic(case), tensor_ceiling_tflops(case)
    there_us = known.dot_flops / (peak * 1e6) if known is not None and peak else None
    yield Observation(
        severity="warning",
        range=case.kernel.dots[0].range,
        message=_message(seen, there_us),
        provenance=seen.provenance,
        evidence=evidence(
            ("tensor_path", case.compiled.tensor_path if case.compiled is not None else None, "1", "compiled"),
            ("tensor_active", metric(case, "tensor_active"), "1", "measured"),
            ("fma_active", metric(case, "fma_active"), "1", "measured"),
            ("dot_time", seen.dots_us, "µs", "predicted"),
            ("dot_time_on_tensor_cores", there_us, "µs", "predicted"),
        ),
        estimated_gain=gain_of(seen.dots_us / there_us) if seen.dots_us is not None and there_us else None,
    )


def _message(seen: OrdinaryDot, there_us: float | None) -> str:
    takes = f", where they need at least {microseconds(seen.dots_us)}" if seen.dots_us is not None else ""
    instead = f" instead of {microseconds(there_us)} on tensor cores" if takes and there_us is not None else ""
    busy = f", which they keep {percent(seen.arithmetic)} busy" if seen.arithmetic is not None else ""
    return (
        f"The dots run on ordinary arithmetic{takes}{instead}{busy}: fp32 needs "
        'input_precision="tf32" (or "tf32x3") for tensor cores, and a tile at least 16 on each side; both round '
        "differently."
    )


RULE = Rule("TF201", "no-tensor-core", "launch", _look)
