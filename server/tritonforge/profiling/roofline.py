"""Where a launch stands under the ceilings of its GPU.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

from tritonforge.domain.profile import Ceilings, Roofline

_FALLBACK_RATE = "fp32"


def roofline(
    *, useful_bytes: float, flops: float, dtype: str | None, time_us: float | None, ceilings: Ceilings
) -> Roofline:
    """Place one launch under its roofline.

    Args:
        useful_bytes: distinct bytes that must move to or from device memory.
        flops: floating-point operations of its dots (a multiply-add counts 2).
        dtype: operand type of its dots (`fp16`, `tf32`, …), None without dots.
        time_us: measured or predicted time; None leaves the achieved figures empty.
        ceilings: of the GPU that the time belongs to.

    The fraction is 1 at most: what a launch writes may stay in L2, and a ceiling is a measurement with an error of its
    own. Times beyond that are refused before they get here (`plausibility`).
    """
    peak = ceilings.tflops.get(dtype or _FALLBACK_RATE) or ceilings.tflops.get(_FALLBACK_RATE) or 1.0
    memory_us = useful_bytes / ceilings.copy_gbps * 1e-3
    compute_us = flops / peak * 1e-6
    achieved_gbps = achieved_tflops = fraction = None
    if time_us:
        achieved_gbps = useful_bytes / time_us * 1e-3
        achieved_tflops = flops / time_us * 1e-6
        fraction = min(1.0, max(memory_us, compute_us) / time_us)
    return Roofline(
        bytes=useful_bytes,
        flops=flops,
        achieved_gbps=achieved_gbps,
        achieved_tflops=achieved_tflops,
        ceiling_gbps=ceilings.copy_gbps,
        ceiling_tflops=peak,
        fraction=fraction,
        bound="compute" if compute_us > memory_us else "memory",
    )
