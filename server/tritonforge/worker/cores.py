"""Who runs on which cores and which GPU, where a machine measures on several GPUs, or while it compiles."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, MutableMapping

_PER_GPU = 2
"""Cores of a lane that measures: one for the code that launches, one for the driver's threads."""
_LEAST_FOR_ONE = 8
"""Cores below which a single GPU is measured on alone: what compiles would lose too many of them."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def divided(cores: Collection[int], gpus: int) -> tuple[tuple[frozenset[int], ...], frozenset[int]] | None:
    """Divide cores into those of each GPU's lane and those of all else; None when there are not enough of them.

    Half of the cores, at least, stay for compiling and interpreting, which takes most of the time of a search.
    """
    if gpus < 1 or len(cores) < max(_LEAST_FOR_ONE, 2 * _PER_GPU * gpus):
        return None
    listed = sorted(cores)
    rest = len(listed) - _PER_GPU * gpus
    own = tuple(frozenset(listed[start : start + _PER_GPU]) for start in range(rest, len(listed), _PER_GPU))
    return own, frozenset(listed[:rest])


def pin(pid: int, cores: Collection[int]) -> None:
    """Keep a process on `cores`; where that is not allowed, it stays where it is."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(pid, cores)


def keep_to_gpu(number: int, environment: MutableMapping[str, str] | None = None) -> None:
    """Let this process, which has not initialised CUDA, see the `number`-th of the GPUs that it sees now, alone."""
    variables = os.environ if environment is None else environment
    name = next((name for name in _VISIBLE if variables.get(name)), _VISIBLE[0])
    listed = [entry.strip() for entry in variables.get(name, "").split(",") if entry.strip()]
    variables[name] = listed[number] if number < len(listed) else str(number)
