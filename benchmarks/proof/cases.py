"""What a witness file builds its inputs from: calls of the host function and direct launches of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Host:
    """One call of the host function. Tensors are on the CPU and keep their strides."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Direct:
    """One launch of a kernel, for inputs that the host function never makes.

    `reference` takes `args` (tensors made contiguous, logical shapes kept) and changes the outputs among them in place.
    `only` are the program ids that run, all of them when empty: grids of millions are reached with a few programs.
    """

    kernel: str
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]
    reference: Callable[..., None]
    only: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Case:
    """Calls made one after the other in one process; all results are compared once the last has returned.

    `tolerance`: what the original may be off by, relative to the largest finite value of the reference, where the
    default (some roundings of float32) is too strict for this input; a mutant must be off by eight times as much.
    """

    calls: Sequence[Host | Direct]
    tolerance: float | None = None


def case(value: object) -> Case:
    """Return what an input function built as a `Case`: a bare tuple is the arguments of one host call."""
    if isinstance(value, Case):
        return value
    if isinstance(value, Host | Direct):
        return Case((value,))
    if isinstance(value, tuple):
        return Case((Host(value),))
    raise TypeError(f"an input is a tuple, a Host, a Direct or a Case, not {type(value).__name__}")


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Return normal values that are the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def randint(low: int, high: int, shape: Sequence[int], dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Return whole numbers in [low, high) that are the same in every run."""
    return torch.randint(low, high, tuple(shape), generator=torch.Generator().manual_seed(seed), dtype=dtype)


def spread(values: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Return `values` with other strides, in elements.

    Memory between them is never touched, so that strides of gigabytes cost little: offsets that do not fit in an int32
    are reached with a handful of rows.
    """
    placed = torch.empty_strided(tuple(values.shape), tuple(strides), dtype=values.dtype)
    return placed.copy_(values)
