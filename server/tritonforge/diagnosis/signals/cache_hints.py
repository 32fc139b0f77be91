"""Operands that stream through L2 once and push out others that are read again and again."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.facts import tensor_bytes, tensors, traffic
from tritonforge.diagnosis.signals.pace import has_headroom, pace
from tritonforge.domain.kernel import Access

_STREAMED = 1.2
"""Times an operand is asked for up to which it counts as read once."""
_REUSED = 4.0
_L2_BYTES = 40 << 20
"""L2 of the data-centre GPUs from the A100 on, at least."""
_EVICTED = 1.2
"""Counted bytes from memory over useful ones from which reused data was pushed out."""


@dataclass(frozen=True)
class MissingHint:
    """`access` streams `streamed` bytes once, while `reused` (`reused_bytes` large) is read `times` over."""

    access: Access
    streamed: float
    reused: str
    reused_bytes: float
    times: float
    evicted: float | None


def missing_hint(case: Case) -> MissingHint | None:
    """Return the streamed load that a hint would keep from pushing out what is reused.

    Only where it can matter: the stream is larger than L2, what is reused fits into half of it, and no access of
    the kernel has a hint yet. Silent where counters show that nothing was pushed out, and where memory is not busy.
    """
    known = traffic(case)
    if known is None or not has_headroom(case) or any(access.hints for access in case.kernel.accesses):
        return None
    if pace(case) not in {"dram", "l2"}:
        return None
    counted = metric(case, "dram_bytes")
    evicted = counted / known.useful if counted is not None and known.useful else None
    if evicted is not None and evicted < _EVICTED:
        return None
    sizes = {name: tensor_bytes(tensor) for name, tensor in tensors(case.launch).items()}
    loads = {name: moved for name, moved in known.loads.items() if name is not None and sizes.get(name)}
    reused = {n: m / sizes[n] for n, m in loads.items() if m >= _REUSED * sizes[n] and sizes[n] <= _L2_BYTES / 2}
    streams = {n: m for n, m in loads.items() if m <= _STREAMED * sizes[n] and sizes[n] > _L2_BYTES}
    if not reused or not streams:
        return None
    stream = max(streams, key=lambda n: streams[n])
    again = max(reused, key=lambda n: sizes[n])
    access = next((a for a in case.kernel.accesses if a.kind == "load" and a.pointer == stream), None)
    if access is None or sizes[again] < _L2_BYTES / 16:
        return None
    return MissingHint(access, streams[stream], again, sizes[again], reused[again], evicted)
