"""Dots that use an older generation's matrix instructions where the GPU has better ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.pace import has_headroom, pace
from tritonforge.domain.blocks import Dot
from tritonforge.prediction.parts import OLD_PATH_SHARE

_BEST: dict[str, Literal["wgmma", "tcgen05"]] = {"sm_90": "wgmma", "sm_100": "tcgen05", "sm_103": "tcgen05"}
"""What each architecture's full matrix rate needs; on others (sm_80 to sm_89, sm_120) `mma` is all there is."""
_ROWS, _WARPGROUP = 64, 4
"""Rows of the smallest tile, and warps that issue it together (PTX, wgmma.mma_async: m64nNk16, one warpgroup)."""
_WORTH = 1.1


@dataclass(frozen=True)
class OldPath:
    """`dot` runs as `mma` though the GPU has `best`; `why` is what stands in the way, `gain` bounds what it costs."""

    dot: Dot
    best: str
    why: Literal["rows", "warps", "operands"]
    gain: float


def old_path(case: Case) -> OldPath | None:
    """Judge the dot that does the most, where tensor cores set the pace.

    Silent elsewhere (a faster instruction would wait as well), for formats that have `mma` only (fp64, scaled dots),
    and where the problem itself has fewer rows than the native tile.
    """
    compiled = case.compiled
    if compiled is None or not compiled.dots or not has_headroom(case) or pace(case) != "tensor":
        return None
    arch = compiled.arch.rstrip("af")
    best = _BEST.get(arch)
    dots = [d for d in compiled.dots if d.path in {"mma", "wgmma", "tcgen05"}]
    if best is None or not dots:
        return None
    dot = max(dots, key=lambda d: d.tile[0] * d.tile[1] * d.tile[2] * (d.executions or 1.0))
    if dot.path != "mma" or "f64" in {dot.a_dtype, dot.b_dtype}:
        return None
    gain = _gain(case, OLD_PATH_SHARE[arch])
    if gain < _WORTH:
        return None
    why: Literal["rows", "warps", "operands"] = (
        "rows" if dot.tile[0] < _ROWS else "warps" if compiled.num_warps % _WARPGROUP else "operands"
    )
    return OldPath(dot, best, why, gain)


def _gain(case: Case, share: float) -> float:
    """The time now over the time with the part of the tensor cores shortened to `share`, others as they are."""
    prediction = case.prediction
    if prediction is None or "tensor" not in prediction.parts:
        return 1.0 / share
    others = [us for name, us in prediction.parts.items() if name not in {"tensor", "launch"}]
    now = prediction.parts["tensor"]
    return now / max(now * share, *others) if others else 1.0 / share
