"""Grids that leave SMs without a program."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case, Gpu
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
    programs = case.programs
    if programs is None or case.gpu is None or programs >= case.gpu.sms:
        return None
    if launch_bound(case) is not None or is_at_roofline(case) or _is_over_at_once(case, programs, case.gpu):
        return None
    return IdleSms(programs, case.gpu.sms, _gain(case, programs, case.gpu.sms))


def _is_over_at_once(case: Case, programs: int, gpu: Gpu) -> bool:
    """Whether, for lack of a known time, the work looks too small to be worth spreading: shorter than a launch."""
    least = floor(case)
    return case.time_us is None and least is not None and least.time_us * gpu.sms / programs < gpu.ceilings.launch_us


def _gain(case: Case, programs: int, sms: int) -> float | None:
    least, time_us = floor(case), case.time_us
    if least is None or time_us is None or case.gpu is None:
        return None
    reachable = max(least.time_us, case.gpu.ceilings.launch_us)
    bound = min(sms / programs, time_us / reachable)
    return bound if bound > 1.0 else None
