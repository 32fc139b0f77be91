"""Whether a measured time of an assessed launch can be true."""

from __future__ import annotations

from tritonforge.diagnosis.assessment import Assessed, Yardstick
from tritonforge.diagnosis.facts import tensors, traffic
from tritonforge.domain.profile import TimeDistribution
from tritonforge.profiling.plausibility import refusal


def refused(assessed: Assessed, time: TimeDistribution, judge: Yardstick | None) -> str | None:
    """Return why the time must be an error of measurement, or None where it may be true or nothing exact is known.

    Bytes behind an index prove nothing: the same rows may be read again and again.
    """
    work, known = assessed.compilation.work, traffic(assessed.case)
    if judge is None or work is None or known is None or not work.exact:
        return None
    gathers = any(t.elements > 1 and t.dtype.startswith(("int", "uint")) for t in tensors(assessed.launch).values())
    return refusal(
        time.median,
        useful_bytes=0.0 if gathers else known.useful,
        flops=known.dot_flops,
        dtype=work.dot_dtype,
        ceilings=(judge.ceilings, judge.spec.ceilings),
        l2_bytes=float(judge.spec.l2_bytes),
    )
