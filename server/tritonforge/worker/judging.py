"""Is a candidate's output as good as the original's? Pure functions over tensors.

Let o be the oracle's value (float64), w the original's and g the candidate's. An element of g is accepted when

    |g − o| ≤ r·ulp(o) + max(k·own, k·moved, q·walked, c·eps·max(|o|, typical), c·η, s·ulp(o)) + relative·largest

* r·ulp(o), r = 1/2, is the last rounding, to the output's type. Where o itself is a number of that type it may have
  been rounded too, and r is 1.
* own = max(|w − o| − r·ulp(o), 0) is what the original's arithmetic lost before that rounding.
* moved is how far o goes when every input moves by one rounding of the precision that the original accumulates in: the
  conditioning of the element (Higham, *Accuracy and Stability of Numerical Algorithms*, §1.5–1.6).
* walked is the standard deviation of what o loses where its sums are added one term at a time, in the order of memory:
  how far it goes when inputs move by random walks (see `moving`). Sums over n terms of one sign lose √n times as much
  so as in a tree, and a candidate may take any order, whichever the original takes; but an original that compensates
  its sums loses next to nothing, and neither may a candidate: walked counts only up to sixteen times own.
* c·eps is a few roundings of the same precision, of the element or of what is typical (the median) around it: a result
  that is small because larger terms cancel is as inexact as its neighbours.
* η is the smallest subnormal of that precision: each step that underflows loses up to half of it (Higham, §2.1). On a
  GPU, where `exp2`, reciprocals and square roots of fp32 flush subnormals to zero, it is 2⁻¹²⁶ at the scale of the
  largest element: a softmax loses a weight below that, times what it weighs.
* s, a thirty-second where the output's type is narrower than what the original accumulates in, else 0. There the last
  rounding hides what arithmetic loses, except of elements near the middle of two numbers: what those lost, over what
  moved says, is taken for the others' as well.

A lucky element must not forbid its neighbours what they need, so own and moved are the root mean square over elements
of one row whose magnitude is similar (within a factor of 8), if the element's own is not larger: errors of rounding
depend on magnitude, and rows can be conditioned differently. In norm, the root mean square of |g − o| over what is
expected of each element (1/√3 of r·ulp for a last rounding) is at most `norm`, more for few elements, whose mean says
little: what is refused is an error small but everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.messages import Tolerance
from tritonforge.worker.nearby import Near

_CHUNK = 1 << 22
_LEAST_ROW, _LARGEST_ROW = 16, 1 << 16
_LEAST_SHOWN = 4
"""Elements that have to show a loss before it says something of the others."""
_HIDDEN = 1 / 32
"""The share of an output's last place that arithmetic may lose unseen."""
_FLUSHED = 2.0**-126
"""The smallest normal number of fp32."""
_DOUBLE = 2.0**-52
_MOST_OVER = 16.0
"""How many times its own error an original's sums may lose in another order."""
_FEW = 3.0
"""What few elements are allowed in norm: 1 + 3/√n times as much, so that a single one is judged by itself."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one output: all tensors dense, of its shape.

    `oracle` in float64, or as it is where nothing better is known. `shifts`: how far it moves when inputs do, one
    tensor for each coin that said which way; `walks`: the same for walks, where those were taken. `eps`: that of the
    precision which the original accumulates in. `inexact`: the oracle is no better than the original, whose error is
    unknown then: both are allowed what arithmetic loses. `lost`: what it is known to lose elsewhere, see `Precision`.
    `flushed`: whether arithmetic may flush subnormals to zero.
    """

    oracle: Any
    shifts: Sequence[Any] = ()
    walks: Sequence[Any] = ()
    eps: float = 2.0**-23
    inexact: bool = False
    lost: float = 0.0
    flushed: bool = False


@dataclass
class Judgement:
    """`count` elements of `got` are refused, the `first` of them is `where` (flat); `allowed` is what held for it.

    Errors are largest |·| and root mean squares over the largest and the RMS of the finite oracle. `excess` is the
    largest error over what was allowed, `norm_ratio` what `Tolerance.norm` bounds. `lost`: see `Precision`.
    """

    count: int = 0
    where: int = -1
    allowed: float = 0.0
    expected: float = 0.0
    excess: float = 0.0
    norm_ratio: float = 0.0
    worst: float = 0.0
    original_worst: float = 0.0
    norm: float = 0.0
    original_norm: float = 0.0
    lost: float = 0.0
    special: bool = False
    """Whether the first refused element differs in being finite, NaN or Inf."""


def judge(want: Any, got: Any, evidence: Evidence, tolerance: Tolerance, skip: Any = None) -> Judgement:
    """Judge one floating output; elements of the mask `skip` say nothing.

    Args:
        want: what the original computed, of any strides.
        got: what the candidate computed, of the same shape and dtype.
        evidence: the oracle's values and their conditioning.
        tolerance: the constants of the rule above.
        skip: True where memory was left unwritten.
    """
    found, squares = Judgement(), _Squares()
    dtype, length = want.dtype, row_length(tuple(want.shape))
    flat = [want.reshape(-1), got.reshape(-1), evidence.oracle.reshape(-1)]
    moved, walked = ([s.reshape(-1) for s in shifts] for shifts in (evidence.shifts, evidence.walks))
    skipped = None if skip is None else skip.reshape(-1)
    largest = _largest(flat[2], skipped)
    for start, stop in _chunks(flat[0].numel(), length):
        w, g, o = (t[start:stop].double() for t in flat)
        use = torch.isfinite(o)
        if skipped is not None:
            use &= ~skipped[start:stop]
        block = _Block(w, g, o, use, dtype)
        near = Near(o, use, length)
        went = [_root_mean_square([s[start:stop].double() for s in each], near, use) for each in (moved, walked)]
        least = max(_smallest(evidence.eps), _FLUSHED * largest if evidence.flushed and evidence.eps > _DOUBLE else 0.0)
        allowed, unit, lost = _allowance(block, near, went, evidence, tolerance, least=least)
        allowed, unit = allowed + tolerance.relative * largest, unit + tolerance.relative * largest
        bad, error, special = _refused(block, allowed)
        if skipped is not None:
            bad &= ~skipped[start:stop]
        squares.add(block, error, unit, lost)
        ratio = torch.where(use & (error > 0), error / allowed, torch.zeros_like(error))
        found.excess = max(found.excess, float(ratio.max()))
        n = int(bad.sum())
        if n and found.where < 0:
            at = int(torch.nonzero(bad)[0])
            found.where, found.allowed, found.special = start + at, float(allowed[at]), bool(special[at])
            found.expected = float(w[at] if special[at] else o[at])
        found.count += n
    squares.settle(found, largest)
    return found


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many consecutive elements are judged by each other: a row, several short ones, or part of a long one.

    What has one dimension is one row.
    """
    length = 1
    for extent in reversed(shape):
        length *= max(extent, 1)
        if length >= _LEAST_ROW:
            break
    return min(length, _LARGEST_ROW)


def _chunks(n: int, length: int) -> Iterator[tuple[int, int]]:
    step = max(_CHUNK // length, 1) * length
    for start in range(0, n, step):
        yield start, min(start + step, n)


def _largest(oracle: Any, skipped: Any) -> float:
    largest = 0.0
    for start in range(0, oracle.numel(), _CHUNK):
        o = oracle[start : start + _CHUNK].double()
        use = torch.isfinite(o)
        if skipped is not None:
            use &= ~skipped[start : start + _CHUNK]
        values = o[use].abs()
        largest = max(largest, float(values.max()) if values.numel() else 0.0)
    return largest


@dataclass(frozen=True)
class _Block:
    """Flat float64 values of some rows; `use` says which elements have a finite oracle, `dtype` is the output's."""

    want: Any
    got: Any
    oracle: Any
    use: Any
    dtype: Any


def _root_mean_square(shifts: Sequence[Any], near: Near, use: Any) -> Any:
    """Return how far elements go, over several coins and over similar elements where that is more; 0 without coins."""
    if not shifts:
        return torch.zeros_like(use, dtype=torch.float64)
    square = torch.stack([s * s for s in shifts]).mean(0)
    shift = torch.where(use, square, torch.zeros_like(square)).sqrt()
    return torch.maximum(shift, near.rms(shift))


def _allowance(
    block: _Block, near: Near, went: Sequence[Any], evidence: Evidence, tolerance: Tolerance, *, least: float
) -> tuple[Any, Any, Any]:
    """Return the error that is allowed for each element, the one that is expected (a standard deviation), and its own.

    The last is what the original's arithmetic lost, relative to the element's magnitude. `went`: how far each goes when
    inputs move by roundings, and by walks. `least`: what a step that underflows loses.
    """
    moved, walked = went
    use, want, dtype = block.use, block.want, block.dtype
    o = torch.where(use, block.oracle, torch.zeros_like(block.oracle))
    ulp = ulp_of(o, dtype)
    rounding = torch.where(round_to(o, dtype) == o, ulp, ulp / 2)
    lost = torch.where(use & torch.isfinite(want), ((want - o).abs() - rounding).clamp_(min=0), torch.zeros_like(o))
    magnitude = torch.maximum(o.abs(), near.typical())
    own = torch.maximum(torch.maximum(lost, near.rms(lost)), evidence.lost * magnitude)
    around = evidence.eps * magnitude
    narrow = bool(torch.finfo(dtype).eps > evidence.eps)
    if narrow:
        own = torch.maximum(own, _unhidden(lost, (moved * moved + around * around).sqrt()))
    around = around.clamp(min=least)
    arithmetic = torch.maximum(tolerance.multiple * torch.maximum(own, moved), tolerance.roundings * around)
    walked = torch.minimum(walked, _MOST_OVER * own)
    arithmetic = torch.maximum(arithmetic, tolerance.orders * walked)
    if narrow:
        arithmetic = torch.maximum(arithmetic, _HIDDEN * ulp)
    sides = 2.0 if evidence.inexact else 1.0
    unit = (rounding * rounding / 3 + sides * (own * own + moved * moved + walked * walked + around * around)).sqrt()
    share = torch.where(magnitude > 0, lost / magnitude, torch.zeros_like(lost))
    return rounding + sides * arithmetic, unit, share


def _unhidden(lost: Any, unit: Any) -> Any:
    """Return what elements whose loss the last rounding hides will have lost: in units, what those that show it lost.

    These show anything between none and all of their loss, so that its root mean square is √3 times what is shown.
    """
    shown = (lost > 0) & (unit > 0)
    if int(shown.sum()) < _LEAST_SHOWN:
        return torch.zeros_like(lost)
    ratio = lost[shown] / unit[shown]
    return unit * (3 * (ratio * ratio).mean()).sqrt()


def _refused(block: _Block, allowed: Any) -> tuple[Any, Any, Any]:
    """Return which elements are refused, their errors, and which of them for being NaN, Inf or finite."""
    want, got, oracle = block.want, block.got, block.oracle
    error = (got - oracle).abs()
    finite = torch.isfinite(oracle)
    # What overflows when it is rounded: half an ulp above the largest number of the type.
    info = torch.finfo(block.dtype)
    limit = info.max * (1 + info.eps / 4)
    overflows = torch.isinf(got) & (got.sign() == oracle.sign()) & (oracle.abs() + allowed >= limit)
    same = (torch.isnan(want) & torch.isnan(got)) | (torch.isinf(want) & (want == got))
    close = finite & torch.isfinite(got) & (error <= allowed)
    fine = close | (finite & overflows) | (same & ~torch.isfinite(want))
    special = ~torch.isfinite(got) | ~finite
    return ~fine, torch.where(torch.isfinite(error), error, torch.zeros_like(error)), special


class _Squares:
    """Sums for the root mean squares, over all chunks."""

    def __init__(self) -> None:
        self.got = self.want = self.scale = self.ratio = self.lost = 0.0
        self.n = self.n_want = 0
        self.worst = self.want_worst = 0.0

    def add(self, block: _Block, error: Any, unit: Any, lost: Any) -> None:
        zero, oracle = torch.zeros_like(error), block.oracle
        both, wanted = block.use & torch.isfinite(block.got), block.use & torch.isfinite(block.want)
        error, own = torch.where(both, error, zero), torch.where(wanted, (block.want - oracle).abs(), zero)
        ratio = torch.where(both & (error > 0), error / unit, zero)
        self.n, self.n_want = self.n + int(both.sum()), self.n_want + int(wanted.sum())
        self.lost += float((lost * lost).sum())
        self.got += float((error * error).sum())
        self.want += float((own * own).sum())
        self.ratio += float((ratio * ratio).sum())
        self.scale += float(torch.where(both, oracle * oracle, zero).sum())
        self.worst, self.want_worst = max(self.worst, float(error.max())), max(self.want_worst, float(own.max()))

    def settle(self, found: Judgement, largest: float) -> None:
        n = max(self.n, 1)
        scale = math.sqrt(self.scale / n) or 1.0
        found.norm = math.sqrt(self.got / n) / scale
        found.original_norm = math.sqrt(self.want / max(self.n_want, 1)) / scale
        found.worst = self.worst / (largest or 1.0)
        found.original_worst = self.want_worst / (largest or 1.0)
        found.lost = math.sqrt(self.lost / max(self.n_want, 1))
        found.norm_ratio = math.sqrt(self.ratio / n) / (1 + _FEW / math.sqrt(n))


def _smallest(eps: float) -> float:
    """Return the smallest subnormal number of arithmetic as exact as `eps`: TF32 has the range of float32."""
    types = {2.0**-10: torch.float16, 2.0**-7: torch.bfloat16, 2.0**-52: torch.float64}
    info = torch.finfo(types.get(eps, torch.float32))
    return float(info.tiny) * float(info.eps)


def round_to(values: Any, dtype: Any) -> Any:
    """Round float64 values to a dtype's numbers, as float64; what overflows becomes Inf."""
    return values.to(dtype).double()


def ulp_of(values: Any, dtype: Any) -> Any:
    """Return the spacing of `dtype`'s numbers at each (float64) value: 2^(e - p), e at least the smallest normal's.

    p is the number of stored mantissa bits, -log2(eps) of the dtype.
    """
    info = torch.finfo(dtype)
    bits = round(-math.log2(info.eps))
    lowest = round(math.log2(info.tiny))
    finite = torch.where(torch.isfinite(values), values, torch.zeros_like(values))
    exponent = torch.frexp(finite.abs()).exponent - 1
    exponent = torch.where(finite == 0, torch.full_like(exponent, lowest), exponent.clamp(min=lowest))
    return torch.exp2((exponent - bits).double())
