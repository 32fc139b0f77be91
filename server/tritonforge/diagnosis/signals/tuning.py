"""Kernels whose tile sizes and warps are fixed once and for all."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import busiest
from tritonforge.diagnosis.signals.roofline import NEAR_ROOFLINE, Standing, standing
from tritonforge.diagnosis.sizes import fixed_values, tile_sizes


@dataclass(frozen=True)
class Untuned:
    """`fixed` holds (parameter, value as written) of what could be tuned; `standing` is the headroom, when known."""

    fixed: tuple[tuple[str, str], ...]
    standing: Standing | None


def untuned(case: Case) -> Untuned | None:
    """Judge whether a kernel has something to tune that every launch fixes.

    Silent when an autotuner or a heuristic chooses, when a value is computed or handed in by a caller (someone else may
    tune there), when nothing is tunable, and when the launch has no headroom.
    """
    kernel = case.kernel
    if kernel.autotune is not None or kernel.heuristics or not kernel.launch_sites:
        return None
    sizes = tile_sizes(case)
    fixed = tuple(
        (name, str(sizes.get(name, values[0].text))) for name in kernel.tiles if (values := fixed_values(kernel, name))
    )
    if not fixed:
        return None
    top = busiest(case)
    if top is not None and top[0] in {"dram", "tensor"} and top[1] >= NEAR_ROOFLINE:
        return None
    known = standing(case)
    if known is not None and known.fraction >= NEAR_ROOFLINE:
        return None
    return Untuned(fixed, known)
