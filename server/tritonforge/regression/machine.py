"""Whether a GPU is fit to be measured on: who else uses it, how warm it is, whether something slows it down."""

from __future__ import annotations

from tritonforge.domain.baseline import GpuState

BUSY = 0.05
"""Utilisation above this while nothing of ours runs is somebody else's."""
SLOWER_CLOCK = 0.03
"""A clock below the baseline's by more than this share makes times incomparable."""
_DURING = frozenset(["a hardware slowdown", "its temperature", "its temperature (hardware)", "the power brake"])
"""What never belongs to a sound measurement. A power limit may: some kernels reach it whenever they run."""


def busy(state: GpuState) -> str:
    """Return who else uses the GPU while nothing of ours runs, as a sentence; empty when nobody does."""
    if state.utilisation is not None and state.utilisation > BUSY:
        others = f" ({state.others} other processes)" if state.others else ""
        return f"another process keeps the GPU {100 * state.utilisation:.0f} % busy{others}"
    return ""


def disturbed(before: GpuState | None, now: GpuState | None) -> tuple[str, ...]:
    """Return what makes times measured in the state `now` incomparable with those of a baseline, one sentence each."""
    if now is None:
        return ()
    said = []
    grave = [reason for reason in now.held_back if reason in _DURING]
    if grave:
        hot = f" ({now.temperature} °C)" if now.temperature is not None else ""
        said.append(f"the GPU is slowed down by {' and '.join(grave)}{hot}")
    if before is not None:
        for name, one, other in (
            ("SM clock", before.sm_clock, now.sm_clock),
            ("memory clock", before.memory_clock, now.memory_clock),
        ):
            if one and other and other < (1 - SLOWER_CLOCK) * one:
                said.append(f"the {name} is {other} MHz, and was {one} MHz for the baseline")
        new = set(now.held_back) - set(before.held_back) - set(grave)
        if new and said:
            said.append(f"{' and '.join(sorted(new))} holds it back, and did not for the baseline")
    return tuple(said)
