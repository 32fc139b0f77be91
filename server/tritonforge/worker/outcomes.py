"""Compare what two programs computed: values returned, arguments changed, buffers written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tritonforge.domain.messages import Difference, Tolerance
from tritonforge.worker.interpreter.poison import Poison

_CHUNK = 1 << 23


@dataclass
class Outputs:
    """What a run left: named tensors (detached copies), other named values, and which arguments it changed."""

    tensors: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    poison: Poison | None = None
    launches: int = 0
    overwrites: str = ""
    """The returned tensor of an earlier call that this call changed, if any."""

    @property
    def n_bytes(self) -> int:
        """Return how much memory the tensors take."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


@dataclass(frozen=True)
class Comparison:
    """How two outputs differ; `problem` is empty when they agree within the tolerance."""

    problem: str = ""
    worst_error: float = 0.0
    difference: Difference | None = None
    compared: int = 0


def flatten(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a returned value with their paths."""
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from flatten(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}")
    elif value is not None:
        yield path, value


def same_bits(a: Any, b: Any) -> bool:
    """Compare bit patterns, so that NaNs equal themselves."""
    if a.numel() == 0:
        return True
    if a.dtype.is_complex:
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.dtype.itemsize]
    return bool(torch.equal(a.view(kind), b.view(kind)))


def compare_outputs(want: Outputs, got: Outputs, tolerance: Tolerance) -> Comparison:
    """Compare the candidate's outputs to the original's; the first problem is the one reported.

    The largest error over all outputs is given even then.
    """
    if want.launches and not got.launches:
        return Comparison("the candidate launches no Triton kernel here, where the original does", compared=1)
    worst, compared = 0.0, 0
    first: Comparison | None = None
    if set(want.tensors) != set(got.tensors):
        name = min(set(want.tensors) ^ set(got.tensors))
        who = "the candidate lacks" if name in want.tensors else "only the candidate has"
        return Comparison(f"{who} the output {name}")
    for name, wanted in want.tensors.items():
        one = compare_tensors(name, wanted, got.tensors[name], tolerance, (want.poison, got.poison))
        compared += 1
        worst = max(worst, one.worst_error)
        if one.problem and first is None:
            first = one
    for name, value in want.values.items():
        compared += 1
        if first is None and not _same_value(value, got.values.get(name)):
            first = Comparison(f"{name} is {got.values.get(name)!r} instead of {value!r}")
    extra = sorted(got.changed - want.changed)
    if extra and first is None:
        first = Comparison(f"the candidate changes {', '.join(extra)}, which the original leaves alone")
    if got.overwrites and not want.overwrites and first is None:
        first = Comparison("a call of the candidate changes what an earlier one returned: they share a buffer")
    if first is None:
        return Comparison("", worst, None, compared)
    return Comparison(first.problem, worst, first.difference, compared)


def _same_value(want: Any, got: Any) -> bool:
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        return want == got or (math.isnan(want) and math.isnan(got)) or math.isclose(want, got, rel_tol=1e-5)
    if type(want) is not type(got):
        return False
    # Other objects cannot be compared between two programs that each have their own classes.
    return want == got if isinstance(want, (str, bytes)) else True


def compare_tensors(
    name: str, want: Any, got: Any, tolerance: Tolerance, poisons: tuple[Poison | None, Poison | None]
) -> Comparison:
    """Compare one output under the rule of `Tolerance`.

    Where the original leaves poison (memory it never wrote), the candidate must leave its own.
    """
    want_poison, got_poison = poisons
    if tuple(want.shape) != tuple(got.shape) or want.dtype != got.dtype:
        return Comparison(
            f"{name} has shape {tuple(got.shape)} and dtype {got.dtype} instead of {tuple(want.shape)} and {want.dtype}"
        )
    if want.numel() == 0:
        return Comparison()
    if want.is_contiguous() and not got.is_contiguous():
        return Comparison(f"{name} has strides {got.stride()} instead of {want.stride()}")
    if want.dtype.is_complex:
        want, got = torch.view_as_real(want), torch.view_as_real(got)
    flat_want, flat_got = want.contiguous().reshape(-1), got.contiguous().reshape(-1)
    scale = _scale_of(flat_want, want_poison)
    worst, count, where = 0.0, 0, -1
    unwritten = written_too = 0
    for start in range(0, flat_want.numel(), _CHUNK):
        w, g = flat_want[start : start + _CHUNK], flat_got[start : start + _CHUNK]
        bad, error = _differences(w, g, tolerance, scale)
        if want_poison is not None and got_poison is not None:
            left, left_too = want_poison.where(w), got_poison.where(g)
            if bool(left.any()) or bool(left_too.any()):
                # Small integers that both wrote can look like poison; what is equal was written by both, though.
                unequal = (w != g) | _is_nan(w) | _is_nan(g)
                bad = torch.where(left, ~left_too & ~_is_nan(g), bad | (left_too & ~left)) & unequal
                error = torch.where(left | left_too, torch.zeros_like(error), error)
                unwritten += int((left_too & ~left & bad).sum())
                written_too += int((left & bad).sum())
        worst = max(worst, float(error.max()))
        n = int(bad.sum())
        if n and where < 0:
            where = start + int(torch.nonzero(bad)[0])
        count += n
    if not count:
        return Comparison("", worst, None, 1)
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(where), want.shape))
    expected, came = float(flat_want[where]), float(flat_got[where])
    difference = Difference(name, index, expected, came, count, want.numel())
    n, first = want.numel(), list(index)
    if unwritten:
        text = f"{name} holds memory that was never written at {unwritten} of {n} elements, the first at {first}"
    elif written_too:
        text = f"{name} is written at {written_too} elements that the original leaves unwritten, the first at {first}"
    else:
        text = f"{name} differs at {count} of {n} elements, the first at {first}: {came:.6g} instead of {expected:.6g}"
    return Comparison(text, worst, difference, 1)


def _is_nan(values: Any) -> Any:
    return torch.isnan(values) if values.dtype.is_floating_point else torch.zeros_like(values, dtype=torch.bool)


def _scale_of(flat: Any, poison: Poison | None) -> float:
    if not flat.dtype.is_floating_point:
        return 1.0
    scale = 0.0
    for start in range(0, flat.numel(), _CHUNK):
        w = flat[start : start + _CHUNK]
        keep = torch.isfinite(w)
        if poison is not None:
            keep &= ~poison.where(w)
        values = w[keep].double().abs()
        scale = max(scale, float(values.max()) if values.numel() else 0.0)
    return scale


def _differences(want: Any, got: Any, tolerance: Tolerance, scale: float) -> tuple[Any, Any]:
    """Return which elements differ, and each one's error relative to `scale`."""
    if not want.dtype.is_floating_point:
        bad = want != got
        return bad, bad.to(torch.float64)
    w, g = want.double(), got.double()
    finite = torch.isfinite(w) & torch.isfinite(g)
    same_special = (torch.isnan(w) & torch.isnan(g)) | (torch.isinf(w) & (w == g))
    gap = torch.where(finite, (g - w).abs(), torch.zeros_like(w))
    allowed = tolerance.ulps * ulp_of(w, want.dtype) + tolerance.relative * scale
    bad = torch.where(finite, gap > allowed, ~same_special)
    return bad, gap / scale if scale > 0 else gap


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
