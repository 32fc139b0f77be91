"""Elements of an output whose errors are alike: those of one row whose magnitudes are similar."""

from __future__ import annotations

import math
from typing import Any

import torch

_BINADES = 48
_NEAR = 3
"""How many binades around an element's are of similar magnitude: its own, and one on each side."""


class Near:
    """Elements of one row whose magnitudes are similar: one group for each row and binade."""

    def __init__(self, values: Any, use: Any, length: int) -> None:
        n = values.numel()
        rows = -(-n // length)
        size, self._use, self._length = values.abs(), use, length
        row = torch.arange(n, device=values.device) // length
        exponent = torch.where(size > 0, torch.frexp(size).exponent, torch.full_like(row, -2000, dtype=torch.int32))
        highest = torch.full((rows,), -2000, dtype=torch.int32, device=values.device)
        highest = highest.scatter_reduce(0, row, torch.where(use, exponent, -2000), "amax")
        below = (highest[row] - exponent).clamp_(0, _BINADES - 1)
        self._group = row * _BINADES + below
        self._shape = (rows, _BINADES)
        self._row, self._size = row, size

    def rms(self, errors: Any) -> Any:
        """Return for each element the root mean square of `errors` over its group and the groups beside it."""
        weights = self._use.double()
        total, count = self._sums(errors * errors * weights), self._sums(weights)
        return (total / count.clamp(min=1)).sqrt().reshape(-1)[self._group]

    def _sums(self, values: Any) -> Any:
        table = torch.zeros(self._shape[0] * self._shape[1], dtype=torch.float64, device=values.device)
        table = table.scatter_add_(0, self._group, values).reshape(self._shape)
        padded = torch.nn.functional.pad(table, (_NEAR // 2, _NEAR // 2))
        return padded.unfold(1, _NEAR, 1).sum(-1)

    def typical(self) -> Any:
        """Return for each element the median magnitude of its row's elements that are not zero."""
        rows, length = self._shape[0], self._length
        counted = self._use & (self._size > 0)
        sizes = torch.where(counted, self._size, torch.full_like(self._size, math.nan))
        sizes = torch.nn.functional.pad(sizes, (0, rows * length - sizes.numel()), value=math.nan)
        return sizes.reshape(rows, length).nanmedian(1).values.nan_to_num(0.0)[self._row]
