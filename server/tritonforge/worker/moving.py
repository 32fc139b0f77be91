"""Move the arguments of a call by about one rounding, to see how much its results depend on such."""

from __future__ import annotations

from typing import Any

import torch

from tritonforge.worker.rebuilding import Rebuilt, real_device

_FINE, _SOME = 2.0**-20, 16
"""Types with an eps as fine as this move by so many roundings where they can only move in whole ones."""


class Mover:
    """Moves every floating argument by about one rounding, a normal deviate of a fixed seed times eps.

    Deviates and not coins: where two terms matter, every second pair of coins would cancel. The shadow of a run in
    float64 stands for the moved values. In memory an argument can only move by what its type can hold: then all move by
    the coarsest eps among them, or some more of a fine one, and `moved` says by what.
    """

    def __init__(self, coin: int, eps: float, *, in_memory: bool) -> None:
        self.coin, self.moved, self.in_memory = coin, eps, in_memory

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
            deviates = torch.randn(target.shape, generator=generator, dtype=torch.float64).to(real_device(target))
            wide = target.double()
            values = torch.where(torch.isfinite(wide), wide * (1 + self.moved * deviates), wide)
            if shadow is not None and not self.in_memory and target.dtype in shadow.carries:
                shadow.seed(target, values)
            else:
                target.copy_(values.to(target.dtype))


def _distinct(tensor: Any) -> Any:
    """Return one slice of what is broadcast."""
    for axis, (n, s) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if s == 0 and n > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor
