"""Move the arguments of a call by about one rounding, to see how much its results depend on such."""

from __future__ import annotations

from typing import Any

import torch

from tritonforge.worker.rebuilding import Rebuilt, real_device

_STEP = 0.25
"""The error of one rounding to nearest, root mean square, in units of eps: at most 0.29, and 0.21 over a binade."""
_SAMPLE, _DISTINCT = 4096, 8
_FINE, _SOME = 2.0**-20, 16
"""Types with an eps as fine as this move by so many roundings where they can only move in whole ones."""


class Mover:
    """Moves every floating argument by about one rounding, a normal deviate of a fixed seed times eps.

    Deviates and not coins: where two terms matter, every second pair of coins would cancel. The shadow of a run in
    float64 stands for the moved values. In memory an argument can only move by what its type can hold: then all move by
    the coarsest eps among them, or some more of a fine one, and `moved` says by what.

    `walking`: deviates add up along each dimension, as errors do where terms are added one by one: such a sum is the
    exact one of terms that moved by a random walk (Higham, *Accuracy and Stability of Numerical Algorithms*, §4.2).
    Where there are few distinct values the same rounding repeats, and errors drift one way.
    """

    def __init__(self, coin: int, eps: float, *, in_memory: bool, walking: bool = False) -> None:
        self.coin, self.moved, self.in_memory, self.walking = coin, eps, in_memory, walking

    def __call__(self, rebuilt: Rebuilt, shadow: Any) -> None:
        """Move the arguments, in the run's shadow or in memory."""
        generator = torch._C.Generator()
        generator.manual_seed(1 + self.coin)
        targets = [_distinct(t.detach()) for t in rebuilt.tensors.values()]
        targets = [t for t in targets if t.dtype.is_floating_point and t.numel() and t.dtype.itemsize > 1]
        if self.in_memory:
            coarsest = max([self.moved, *(float(torch.finfo(t.dtype).eps) for t in targets)])
            self.moved = coarsest * (_SOME if coarsest <= _FINE else 1)
        for target in targets:
            wide = target.double()
            if not self.walking:
                deviates = _deviates(target.shape, generator)
            else:
                deviates = _walk(target.shape, generator, drifting=_is_of_few(wide))
            deviates = deviates.to(real_device(target))
            values = torch.where(torch.isfinite(wide), wide * (1 + self.moved * deviates), wide)
            if shadow is not None and not self.in_memory and target.dtype in shadow.carries:
                shadow.seed(target, values)
            else:
                target.copy_(values.to(target.dtype))


def _deviates(shape: Any, generator: Any) -> Any:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _walk(shape: Any, generator: Any, *, drifting: bool) -> Any:
    walk = torch.zeros(shape, dtype=torch.float64)
    for axis, extent in enumerate(shape):
        if extent > 1:
            steps = _deviates([n if at != axis else 1 for at, n in enumerate(shape)] if drifting else shape, generator)
            walk += _STEP * steps.expand(shape).cumsum(axis)
    return walk


def _is_of_few(values: Any) -> bool:
    return bool(values.reshape(-1)[:_SAMPLE].unique().numel() <= _DISTINCT)


def _distinct(tensor: Any) -> Any:
    """Return one slice of what is broadcast."""
    for axis, (n, s) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if s == 0 and n > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor
