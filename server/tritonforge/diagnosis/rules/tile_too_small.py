"""TF203: the dot's tile loads too many bytes for the FLOPs it does."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import l2_gbps, tensor_ceiling_tflops
from tritonforge.diagnosis.finding import evidence, gain_of, microseconds, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.tile import SmallTile, small_tile


def _look(case: Case) -> Iterable[Observation]:
    small = small_tile(case)
    if small is None:
        return
    ceilings = case.gpu.ceilings.provenance if case.gpu is not None else "source"
    yield Observation(
        severity="hint" if small.needed is None else "warning",
        range=case.kernel.dots[0].range,
        message=_message(case, small),
        provenance=small.provenance,
        evidence=evidence(
            ("tile", _tile(small), "1", "compiled" if small.needed is not None else "source"),
            ("intensity", small.intensity, "FLOP/byte", small.provenance),
            ("intensity_needed", small.needed, "FLOP/byte", "derived"),
            (
                "tensor_ceiling",
                tensor_ceiling_tflops(case),
                "TFLOP/s",
                "measured" if ceilings == "measured" else "derived",
            ),
            ("l2_bandwidth", l2_gbps(case), "GB/s", "derived"),
            ("tile_traffic", small.loads, "bytes", "derived"),
            ("floor_time", small.floor_us, "µs", "derived"),
            ("time", case.time_us, "µs", case.time_provenance),
        ),
        estimated_gain=gain_of(small.gain),
    )


def _message(case: Case, small: SmallTile) -> str:
    tile = f"a {_tile(small)} tile" if small.tile is not None else "a tile"
    begin = f"Each program computes {tile}: {number(small.intensity)} FLOP per byte loaded"
    if small.needed is None:
        return f"{begin}, too few to keep tensor cores busy on a recent GPU; a larger tile reuses each byte more often."
    gpu = case.gpu.ceilings.gpu if case.gpu is not None else "this GPU"
    return (
        f"{begin}, while {gpu} needs about {number(small.needed)} to keep its tensor cores busy: the programs "
        f"ask L2 for {number((small.loads or 0) / 1e9)} GB to do what could be done in "
        f"{microseconds(small.floor_us or 0)}; a larger tile reuses each byte more often."
    )


def _tile(small: SmallTile) -> str | None:
    return f"{small.tile[0]}×{small.tile[1]}" if small.tile is not None else None


RULE = Rule("TF203", "tile-too-small", "source", _look, tunable=True)
