"""Draw hostile values: the families of floating values on which wrong kernels differ from right ones.

Each family is drawn for one piece of a tensor as float64 and rounded to the tensor's type at the end. What is large is
scaled to the type, so that the values themselves never overflow: they are at most the square root of the square root of
the largest number where they are multiplied (`mixed-magnitudes`), and a 64th of it where they are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.launch import Family, Hostile

_EXPONENT_LIMIT = 30


@dataclass(frozen=True)
class _Piece:
    """What is to be drawn: `n` values for tensors of `dtype`; a block is `run` long."""

    n: int
    run: int
    round: int
    dtype: Any
    generator: Any

    @property
    def info(self) -> Any:
        return torch.finfo(self.dtype)

    @property
    def accumulated(self) -> Any:
        """Return the type that kernels add such values up in: float32 for everything narrower."""
        return torch.finfo(torch.float64 if self.dtype == torch.float64 else torch.float32)

    def normal(self) -> Any:
        return torch.randn(self.n, generator=self.generator, device=self.generator.device, dtype=torch.float64)

    def uniform(self, low: float, high: float) -> Any:
        drawn = torch.rand(self.n, generator=self.generator, device=self.generator.device, dtype=torch.float64)
        return drawn.mul_(high - low).add_(low)

    def signs(self) -> Any:
        return (self.uniform(0.0, 1.0) < 0.5).double().mul_(2.0).sub_(1.0)

    def choice(self, values: list[float]) -> Any:
        """Return `n` of `values`, each as likely as the others."""
        table = torch.tensor(values, dtype=torch.float64, device=self.generator.device)
        return table[self.uniform(0.0, len(values)).long().clamp_(max=len(values) - 1)]

    def place(self, length: int) -> int:
        """Return where a stretch of `length` values starts."""
        room = max(self.n - length + 1, 1)
        return int(torch.randint(room, (1,), generator=self.generator, device=self.generator.device))

    def block(self, length: int) -> int:
        """Return where a block of `length` values starts: at the beginning in the first round, later from then on.

        A first block that is all NaN or Inf is what a running result starts from, and no seed may leave it out.
        """
        later = min(self.round, 1) * length
        return later if self.n > later else 0

    def one(self) -> float:
        return float(torch.randn(1, generator=self.generator, device=self.generator.device, dtype=torch.float64))


def draw_hostile(policy: Hostile, shape: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    """Draw a dense tensor of the floating type `dtype`, on the generator's device."""
    n = math.prod(shape)
    if not n:
        return torch.empty(shape, dtype=dtype, device=generator.device)
    if policy.pieces == "axis":
        moved = (shape[policy.axis], *shape[: policy.axis], *shape[policy.axis + 1 :])
        pieces = [_drawn(policy, i, n // moved[0], dtype, generator) for i in range(moved[0])]
        return torch.cat(pieces).reshape(moved).movedim(0, policy.axis).to(dtype)
    length = {"whole": n, "rows": shape[-1] if shape else 1, "runs": max(policy.run, 1)}[policy.pieces]
    pieces = [
        _drawn(policy, i, min(length, n - start), dtype, generator) for i, start in enumerate(range(0, n, length))
    ]
    return torch.cat(pieces).reshape(shape).to(dtype)


def _drawn(policy: Hostile, index: int, n: int, dtype: Any, generator: Any) -> Any:
    turn, which = divmod(index, len(policy.families))
    return _FAMILIES[policy.families[which]](_Piece(n, max(policy.run, 1), turn, dtype, generator))


def _mixed_magnitudes(piece: _Piece) -> Any:
    limit = min(math.log2(piece.info.max) / 4, _EXPONENT_LIMIT)
    return piece.signs() * torch.exp2(piece.uniform(-limit, limit))


def _small(piece: _Piece) -> Any:
    """Ordinary values of one small magnitude, 1e-4 to 1e-2: their squares are about what is added to a variance."""
    return piece.normal().mul_(10.0 ** (-3.0 + math.tanh(piece.one())))


def _subnormal(piece: _Piece) -> Any:
    tiny, smallest = float(piece.info.tiny), float(piece.info.tiny) * float(piece.info.eps)
    drawn = piece.signs() * piece.uniform(smallest, tiny)
    drawn[piece.place(1)] = smallest
    drawn[piece.place(1)] = tiny
    return drawn


def _signed_zeros(piece: _Piece) -> Any:
    return torch.where(piece.uniform(0.0, 1.0) < 0.5, piece.signs() * 0.0, piece.normal())


def _offset(piece: _Piece) -> Any:
    """A mean of 1.4 / sqrt(eps) with a spread of about 1: E[x²] - E[x]² in the accumulator's type is all rounding."""
    mean = min(1.4 / math.sqrt(piece.accumulated.eps), piece.info.max / 64)
    return math.copysign(mean, piece.one()) + piece.normal() * max(1.0, 4 * mean * piece.info.eps)


def _cancellation(piece: _Piece) -> Any:
    """Huge pairs of opposite sign and ordinary values between them, in random order."""
    pairs = piece.n // 3
    huge = min(0.25 / piece.accumulated.eps, piece.info.max / 64)
    drawn = piece.normal()
    # Rounded first, so that what is opposite stays opposite.
    drawn[:pairs] = (piece.uniform(0.5, 1.0)[:pairs] * huge).to(piece.dtype).double()
    drawn[pairs : 2 * pairs] = -drawn[:pairs]
    return drawn[torch.randperm(piece.n, generator=piece.generator, device=piece.generator.device)]


def _large_maxima(piece: _Piece) -> Any:
    """Values whose exp is just finite, then some whose exp is infinite: right where a maximum is subtracted first."""
    limit = math.log(piece.accumulated.max)
    drawn = piece.uniform(limit - 8.0, limit - 0.8)
    far = piece.uniform(1.2 * limit, min(8 * limit, piece.info.max))
    start = piece.n - piece.n // 3
    drawn[start:] = far[start:]
    return drawn.clamp_(max=piece.info.max)


def _negative(piece: _Piece) -> Any:
    """Values whose exp is zero: right where a maximum that starts from zero, or none, is wrong."""
    limit = 1.2 * math.log(piece.accumulated.max)
    return piece.uniform(limit, limit + 16.0).clamp_(max=piece.info.max).neg_()


def _powers_of_two(piece: _Piece) -> Any:
    """Powers of two, their neighbours, halves, and the ties of rounding to bfloat16 and to float16 or TF32."""
    eps = float(piece.info.eps)
    kinds = [1.0, 1.0 + eps, 1.0 - eps / 2, 1.5]
    kinds += [1.0 + tie for tie in (2.0**-8, 2.0**-11) if tie > eps]
    powers = torch.exp2(torch.floor(piece.uniform(-4.0, 5.0)))
    return piece.signs() * piece.choice(kinds) * powers


def _special(value: float, length: Callable[[_Piece], int]) -> Callable[[_Piece], Any]:
    def drawn(piece: _Piece) -> Any:
        values = piece.normal()
        size = min(length(piece), piece.n)
        start = piece.block(size) if 1 < size < piece.n else piece.place(size)
        values[start : start + size] = value
        return values

    return drawn


def _one(_piece: _Piece) -> int:
    return 1


def _block(piece: _Piece) -> int:
    return piece.run


def _all(piece: _Piece) -> int:
    return piece.n


_FAMILIES: dict[Family, Callable[[_Piece], Any]] = {
    "normal": _Piece.normal,
    "mixed-magnitudes": _mixed_magnitudes,
    "small": _small,
    "subnormal": _subnormal,
    "signed-zeros": _signed_zeros,
    "zeros": lambda piece: piece.normal().mul_(0.0).abs_(),
    "constant": lambda piece: torch.full_like(piece.normal(), piece.one()),
    "ascending": lambda piece: piece.normal().sort().values,
    "descending": lambda piece: piece.normal().sort(descending=True).values,
    "offset": _offset,
    "cancellation": _cancellation,
    "large-maxima": _large_maxima,
    "ties": lambda piece: piece.choice([piece.one(), piece.one(), piece.one()]),
    "negative": _negative,
    "powers-of-two": _powers_of_two,
    "one-nan": _special(math.nan, _one),
    "one-inf": _special(math.inf, _one),
    "one-negative-inf": _special(-math.inf, _one),
    "nan-block": _special(math.nan, _block),
    "inf-block": _special(math.inf, _block),
    "negative-inf-block": _special(-math.inf, _block),
    "all-nan": _special(math.nan, _all),
    "all-inf": _special(math.inf, _all),
    "all-negative-inf": _special(-math.inf, _all),
}
