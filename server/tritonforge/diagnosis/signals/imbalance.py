"""SMs that have nothing left to do while others still work: uneven programs, or a last wave that is nearly empty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric, sms
from tritonforge.diagnosis.signals.pace import pace
from tritonforge.domain.provenance import Provenance

_UNEVEN = 0.75
"""Mean over longest activity of SMs below which waiting for the last one costs a quarter of the time or more."""
_FEW_WAVES = 8
_SHARED = frozenset(["dram", "l2", "spill", "atomic"])
"""Parts of the time model that belong to all SMs together."""


@dataclass(frozen=True)
class Imbalance:
    """`busy` is the mean share (0–1) of the longest SM's cycles that an SM works.

    `expected` is what equal programs in whole waves would give: where that explains `busy`, the `cause` is the `tail`,
    else programs differ in `work`. `waves` is how many rounds of resident programs an SM runs. `sure` tells that
    it does not hang on all programs of a round ending together.
    """

    busy: float
    expected: float | None
    waves: float | None
    cause: Literal["tail", "work"]
    provenance: Provenance
    sure: bool = True


def imbalance(case: Case) -> Imbalance | None:
    """Judge by the counted activity of SMs; silent when the grid has fewer programs than there are SMs."""
    mean, most = metric(case, "sm_cycles"), metric(case, "sm_cycles_most")
    programs, there = case.programs, sms(case)
    if mean is None or not most or programs is None or there is None or programs < there:
        return None
    busy = mean / most
    if busy >= _UNEVEN:
        return None
    expected = _even(programs, there)
    return Imbalance(busy, expected, _waves(case), "tail" if expected <= busy + 0.1 else "work", "measured")


def tail(case: Case) -> Imbalance | None:
    """Judge the last wave by the compiled occupancy, for lack of counted activity.

    Rounds are whole only while programs keep in step. Where an SM holds several at once, those that it starts as others
    end are spread over the SMs, and what one SM must get more of than another is a single program. And where the GPU
    as a whole sets the pace (memory, L2), the last programs have its bandwidth for themselves. So the finding is sure
    only where neither is possible, and `busy` is then what single programs leave.
    """
    if metric(case, "sm_cycles_most") is not None:
        found = imbalance(case)
        return found if found is not None and found.cause == "tail" else None
    programs, there, waves = case.programs, sms(case), _waves(case)
    if programs is None or there is None or waves is None or programs < there or waves > _FEW_WAVES:
        return None
    busy = waves / math.ceil(waves)
    if busy >= _UNEVEN or waves <= 1:
        return None
    even = _even(programs, there)
    sure = even < _UNEVEN and pace(case) not in _SHARED
    return Imbalance(even if sure else busy, even, waves, "tail", "compiled", sure)


def _even(programs: int, there: int) -> float:
    """Mean over longest activity when all programs take equally long and each SM gets the next one when it is free."""
    return programs / (there * math.ceil(programs / there))


def _waves(case: Case) -> float | None:
    counted = metric(case, "waves_per_sm")
    if counted:
        return counted
    occupancy, there = case.compiled.occupancy if case.compiled is not None else None, sms(case)
    if occupancy is None or there is None or case.programs is None or occupancy.programs_per_sm <= 0:
        return None
    return case.programs / (there * occupancy.programs_per_sm)
