"""Says whether what a run left is what the reference says, with the tolerance that the types explain."""

from __future__ import annotations

import copy
import math
from types import ModuleType
from typing import Any

import torch
from cases import Case, Direct
from running import Ran, compact, leaves

ROUNDINGS = 64
"""How many roundings of float32, relative to the output's scale, the original may be off by."""
CLEARLY = 8.0
"""A mutant must be off by this many times the tolerance."""


def expected(witness: ModuleType, case: Case) -> tuple[Any, ...]:
    """Return what each call should return, and what its arguments should hold afterwards."""
    results: list[Any] = []
    for call in case.calls:
        args = _dense(call.args)
        if isinstance(call, Direct):
            call.reference(*args)
            results += leaves(args)
        else:
            kwargs = _dense(call.kwargs)
            results += [*leaves(witness.reference(*args, **kwargs)), *leaves((args, kwargs))]
    return tuple(results)


def difference(ran: Ran, wanted: tuple[Any, ...], case: Case, *, times: float = 1.0) -> str:
    """Say where `ran` is off by more than `times` the tolerance; empty where it is not."""
    if ran.failure:
        return ran.failure
    if len(ran.values) != len(wanted):
        return f"{len(ran.values)} values instead of {len(wanted)}"
    for number, (got, want) in enumerate(zip(ran.values, wanted, strict=True)):
        said = _value(got, want, case.tolerance, times)
        if said:
            return f"value {number}: {said}"
    return ""


def _value(got: Any, want: Any, tolerance: float | None, times: float) -> str:
    if not isinstance(want, torch.Tensor):
        same = got == want or (isinstance(want, float) and isinstance(got, float) and math.isnan(want + got))
        return "" if same else f"{got!r} instead of {want!r}"
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return f"{getattr(got, 'shape', got)!r} instead of {want.shape}"
    floating = got.dtype.is_floating_point
    wrong = _off(got, want, tolerance, times) if floating else got != want.to(got.dtype)
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in wrong.nonzero()[0])
    return f"{place}: {got[place].item()!r} instead of {want[place].item()!r}, {int(wrong.sum())} elements in all"


def _off(got: torch.Tensor, want: torch.Tensor, tolerance: float | None, times: float) -> torch.Tensor:
    rounded = want.to(got.dtype).double()
    exact = torch.where(rounded.isfinite(), want.double(), rounded)
    finite = exact[exact.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    info = torch.finfo(got.dtype)
    share = ROUNDINGS * torch.finfo(torch.float32).eps if tolerance is None else tolerance
    allowed = times * (share * scale + 2 * info.eps * exact.abs() + info.smallest_normal * info.eps)
    off = (got.double() - exact).abs() > allowed
    special = ~exact.isfinite() | ~got.isfinite()
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    # The largest value of a type may round to Inf or not; a reference that is not rounded yet says which may.
    largest, wide = info.max * (1 - 4 * info.eps), want.dtype.itemsize > got.dtype.itemsize
    limit = (exact.abs() > largest) & (got.double().abs() > largest) & (exact.sign() == got.double().sign())
    if wide:
        limit &= want.double().abs() < info.max * (1 + 4 * info.eps)
    return torch.where(special & ~limit, ~same, off & ~limit)


def _dense(value: Any) -> Any:
    memo: dict[int, Any] = {}

    def walk(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return memo.setdefault(id(one), compact(one))
        if isinstance(one, dict):
            return {name: walk(inner) for name, inner in one.items()}
        if isinstance(one, tuple | list):
            return type(one)(walk(inner) for inner in one)
        return copy.copy(one)

    return walk(value)
