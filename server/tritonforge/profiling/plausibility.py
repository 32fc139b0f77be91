"""Times that cannot be: faster than the GPU's memory or units allow. They are errors of measurement, not results."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.profile import Ceilings

TOLERANCE = 1.05
"""Ceilings are measured too: a result may be so much above them before it counts as impossible."""


def refusal(
    time_us: float,
    *,
    useful_bytes: float,
    flops: float,
    dtype: str | None,
    ceilings: Sequence[Ceilings],
    l2_bytes: float = 0.0,
) -> str | None:
    """Return why a measured time cannot be true, or None where it can.

    Call it for exact work alone: bytes and FLOPs that were guessed prove nothing.

    Args:
        time_us: measured from a cold L2.
        useful_bytes: distinct bytes that must be read from or written to device memory.
        flops: floating-point operations of the dots.
        dtype: operand type of the dots, None without.
        ceilings: of the GPU, measured and public; the highest counts, as a library's rate is not the most there is.
        l2_bytes: size of L2. What is written may still be there when the kernel ends, so that much need not have moved.
    """
    fastest = max((one for c in ceilings for one in (c.copy_gbps, c.read_gbps or 0.0)), default=0.0) * TOLERANCE
    moved = max(0.0, useful_bytes - l2_bytes)
    if fastest and time_us > 0 and moved / time_us * 1e-3 > fastest:
        return (
            f"measurement refused: {time_us:.4g} us for {useful_bytes / 1e6:.4g} MB would be "
            f"{useful_bytes / time_us * 1e-3:.0f} GB/s, more than this GPU's memory gives ({fastest / TOLERANCE:.0f})"
        )
    peak = max((c.tflops.get(dtype, 0.0) for c in ceilings), default=0.0) * TOLERANCE if dtype else 0.0
    if peak and time_us > 0 and flops / time_us * 1e-6 > peak:
        return (
            f"measurement refused: {time_us:.4g} us for {flops / 1e9:.4g} GFLOP would be "
            f"{flops / time_us * 1e-6:.0f} TFLOP/s, more than this GPU reaches in {dtype} ({peak / TOLERANCE:.0f})"
        )
    return None
