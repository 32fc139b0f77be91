"""How the programs of a launch fill the SMs of a GPU."""

from __future__ import annotations

import math

from tritonforge.domain.compilation import Waves


def waves(programs: int, programs_per_sm: int, sms: int) -> Waves | None:
    """Return how `programs` programs, all alike, fill `sms` SMs that hold `programs_per_sm` each.

    None when any of the numbers is not positive.
    """
    if min(programs, programs_per_sm, sms) < 1:
        return None
    slots = programs_per_sm * sms
    full, tail = divmod(programs, slots)
    return Waves(
        slots=slots,
        waves=programs / slots,
        full=full,
        tail_programs=tail,
        busy_sms=min(1.0, programs / sms),
        efficiency=programs / (math.ceil(programs / slots) * slots),
    )
