"""The ceilings of a target's GPU: measured once, then read from the store."""

from __future__ import annotations

from tritonforge.domain.messages import Limits, MeasureCeilings
from tritonforge.domain.profile import Ceilings
from tritonforge.jobs.session import Session
from tritonforge.store import Store


async def ceilings_of(session: Session, store: Store) -> Ceilings | None:
    """Return the measured ceilings of the session's GPU, or None on a target that has none."""
    gpu = session.gpu
    if gpu is None:
        return None
    versions = {"torch": session.described.torch or "", "triton": session.described.triton or ""}
    known = store.ceilings_for(gpu.name, gpu.driver, versions)
    if known is None or known.read_gbps is None:  # kept by a version that measured less
        known = await session.worker.run(MeasureCeilings(), limits=Limits(seconds=120.0, memory_bytes=64 << 30))
        store.put_ceilings(gpu.driver, versions, known)
    return known
