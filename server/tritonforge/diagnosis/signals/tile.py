"""Dot tiles too small to reuse what they load.

A program that computes a BM × BN tile loads BM·BK + BK·BN elements for 2·BM·BN·BK FLOPs, so each byte is used for
2·BM·BN / ((BM + BN)·element size) FLOPs, whatever BK is. Operands come from L2 at best once per program, so tensor
cores starve when that intensity is below the ridge: tensor FLOP/s over L2 bytes/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, metric
from tritonforge.diagnosis.facts import (
    floor,
    item_bytes,
    l2_gbps,
    tensor_ceiling_tflops,
    tensors,
    traffic,
    uses_tensor_cores,
)
from tritonforge.diagnosis.sizes import tile_sizes
from tritonforge.domain.launch import Tensor
from tritonforge.domain.provenance import Provenance

_BELOW_RIDGE = 0.5
"""Share of the ridge below which a tile counts as too small: L1 and neighbours in the same SM forgive the rest."""
_ABOVE_FLOOR = 1.3
"""How much longer than the floor the tile's own L2 traffic must take before the tile is what holds the launch back."""
_FED = 0.6
"""Share of the cycles in which tensor cores work from which they are not starved."""
_BUSY = 0.5
_USUAL_RIDGE = 75.0
"""FLOP per byte of L2 traffic that recent data-centre GPUs need at 16 bits, where no GPU's figures are at hand."""
_SMALL = 64 * 64
"""Without a GPU to compare with, a tile below this many outputs is worth a hint: 32 FLOP/byte at 16 bits."""


@dataclass(frozen=True)
class SmallTile:
    """`tile` is (M, N) as far as known; `intensity` in FLOP per loaded byte; `needed` the ridge of this GPU, or None.

    `loads` are the bytes that all programs ask for, `floor_us` the least time of the launch.
    """

    tile: tuple[int, int] | None
    intensity: float
    needed: float | None
    loads: float | None
    floor_us: float | None
    gain: float | None
    provenance: Provenance


def small_tile(case: Case) -> SmallTile | None:
    """Judge the dot tile of a launch, or of the source when the tile is written out there."""
    if not case.kernel.dots:
        return None
    if _is_contradicted(case):
        return None
    if case.compiled is not None and case.compiled.work is not None:
        return _from_work(case)
    if case.counters is not None:
        return _counted(case)
    return _from_source(case) if case.compilation is None else None


def _is_contradicted(case: Case) -> bool:
    """Whether counters show tensor cores well fed, or no cache busy feeding them."""
    tensor = metric(case, "tensor_active")
    caches = [share for name in ("l1_throughput", "l2_throughput") if (share := metric(case, name)) is not None]
    return (tensor is not None and tensor >= _FED) or (bool(caches) and max(caches) < _BUSY)


def _counted(case: Case) -> SmallTile | None:
    """The intensity that was counted: FLOPs of matrix instructions over the bytes that global accesses asked for."""
    flops, sectors, tensor = metric(case, "tensor_flops"), metric(case, "global_sectors"), metric(case, "tensor_active")
    if not flops or not sectors or not tensor:
        return None
    intensity = flops / (sectors * SECTOR)
    l2, peak = l2_gbps(case), tensor_ceiling_tflops(case)
    ridge = peak * 1e3 / l2 if l2 and peak else _USUAL_RIDGE
    if intensity >= _BELOW_RIDGE * ridge:
        return None
    gain = min(_FED / tensor, ridge / intensity)
    return SmallTile(None, intensity, ridge, sectors * SECTOR, None, gain, "measured")


def intensity_of(rows: int, columns: int, size: int) -> float:
    """Return FLOP per byte of a `rows` × `columns` dot tile whose operands have `size` bytes per element."""
    return 2.0 * rows * columns / ((rows + columns) * size)


def _from_work(case: Case) -> SmallTile | None:
    work = case.compiled.work if case.compiled is not None else None
    known, least, l2, peak = traffic(case), floor(case), l2_gbps(case), tensor_ceiling_tflops(case)
    if work is None or known is None or least is None or not l2 or not peak or not uses_tensor_cores(case):
        return None
    loads = sum(known.loads.values())
    if loads <= 0 or known.dot_flops <= 0:
        return None
    intensity, ridge = known.dot_flops / loads, peak * 1e3 / l2
    traffic_us = loads / (l2 * 1e3)
    if intensity >= _BELOW_RIDGE * ridge or traffic_us < _ABOVE_FLOOR * least.time_us:
        return None
    time_us = case.time_us
    if time_us is not None and time_us < _ABOVE_FLOOR * least.time_us:
        return None
    return SmallTile(
        tile=work.dot_tile[:2] if work.dot_tile is not None else None,
        intensity=intensity,
        needed=ridge,
        loads=loads,
        floor_us=least.time_us,
        gain=min(time_us / least.time_us, ridge / intensity) if time_us is not None else None,
        provenance="derived",
    )


def _from_source(case: Case) -> SmallTile | None:
    kernel = case.kernel
    if kernel.autotune is not None:
        return None
    steps = {loop.step_tile for loop in kernel.loops}
    names = [name for _, tiles in kernel.program_axes for name in tiles if name not in steps]
    sizes = tile_sizes(case)
    if len(names) != 2 or any(name not in sizes for name in names):
        return None
    rows, columns = (sizes[name] for name in names)
    if rows * columns >= _SMALL:
        return None
    tensor_sizes = [item_bytes(t.dtype) for t in _operands(case)]
    intensity = intensity_of(rows, columns, max(tensor_sizes, default=2))
    return SmallTile((rows, columns), intensity, None, None, None, None, "source")


def _operands(case: Case) -> list[Tensor]:
    known = tensors(case.launch)
    return [known[a.pointer] for a in case.kernel.accesses if "dot" in a.feeds and a.pointer in known]
