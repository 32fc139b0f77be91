"""Grids that leave SMs without a program."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import sms
from tritonforge.diagnosis.facts import floor
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import is_at_roofline


@dataclass(frozen=True)
class IdleSms:
    """`programs` of the grid against `sms` of the GPU; `gain` is a bound: every SM at work, or the floor."""

    programs: int
    sms: int
    gain: float | None

    @property
    def busy(self) -> float:
        """Share of SMs (0–1) that can have a program at all."""
        return self.programs / self.sms


def idle_sms(case: Case) -> IdleSms | None:
    """Judge whether the grid has fewer programs than the GPU has SMs.

    Silent for launches that are over before another program could help (launch-bound) or that are fast enough anyway.
    """
    programs, there = case.programs, sms(case)
    if programs is None or there is None or programs >= there:
        return None
    if launch_bound(case) is not None or is_at_roofline(case) or _is_over_at_once(case, programs, there):
        return None
    return IdleSms(programs, there, _gain(case, programs, there))


def _is_over_at_once(case: Case, programs: int, there: int) -> bool:
    """Whether, for lack of a known time, the work looks too small to be worth spreading: shorter than a launch."""
    least = floor(case)
    if case.time_us is not None or least is None or case.gpu is None:
        return False
    return least.time_us * there / programs < case.gpu.ceilings.launch_us


def _gain(case: Case, programs: int, there: int) -> float | None:
    least, time_us = floor(case), case.time_us
    if least is None or time_us is None or case.gpu is None:
        return None
    reachable = max(least.time_us, case.gpu.ceilings.launch_us)
    bound = min(there / programs, time_us / reachable)
    return bound if bound > 1.0 else None
