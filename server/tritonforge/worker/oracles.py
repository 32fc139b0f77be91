"""Find out what is right on one input, and how well the original and the input allow to know it.

All of this depends on the original alone, so a lane keeps it for the next candidate.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Precision, Program, Reference, Tolerance
from tritonforge.worker.calling import identity
from tritonforge.worker.interpreter.poison import ORIGINAL
from tritonforge.worker.judging import Evidence, judge
from tritonforge.worker.loading import digest_of
from tritonforge.worker.moving import Mover
from tritonforge.worker.outcomes import Oracle, Outputs
from tritonforge.worker.references import run_reference
from tritonforge.worker.repeating import RunFailed, Where, run_call

_CACHE_BYTES = 512 << 20
_LARGEST = float(torch.finfo(torch.float32).max)
_ORDERS, _LEAST_EPS = 16.0, 2.0**-20
"""How many times the precision of its type an element may move with the order of a sum."""
_EPS = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
FAR = 100.0
"""An original further from its reference than this many times what rounding explains computes something else."""


@dataclass(frozen=True)
class _Failed:
    message: str
    out_of_bounds: bool
    n_bytes: int = 0


_cache: OrderedDict[str, Any] = OrderedDict()
_precisions: dict[str, Precision] = {}
"""By the digest of an original: its precision, with the most that it was seen to lose."""


def _kept(key: str, make: Callable[[], Any]) -> Any:
    """Return what this lane keeps under `key`, made if it has to be; a run that failed fails again."""
    if key in _cache:
        _cache.move_to_end(key)
        found = _cache[key]
    else:
        try:
            found = make()
        except RunFailed as error:
            found = _Failed(str(error), error.out_of_bounds)
        if found.n_bytes <= _CACHE_BYTES // 2:
            _cache[key] = found
            while sum(one.n_bytes for one in _cache.values()) > _CACHE_BYTES:
                _cache.popitem(last=False)
    if isinstance(found, _Failed):
        raise RunFailed(found.message, out_of_bounds=found.out_of_bounds)
    return found


@dataclass(frozen=True)
class Original:
    """The original of a comparison on one input."""

    program: Program
    call: Call
    where: Where
    told: Precision | None = None
    """What is known of its arithmetic from elsewhere."""

    def _key(self, *what: Any) -> str:
        return identity(digest_of(self.program), replace(self.call, launches=(), id=""), self.where.device, *what)

    def outputs(self) -> Outputs:
        """Return what it computes.

        Raises:
            RunFailed: when it fails.
        """
        found = _kept(self._key(), lambda: run_call(self.program, self.call, self.where, ORIGINAL))
        assert isinstance(found, Outputs)
        return found

    def ordered(self) -> Mapping[str, Any]:
        """Return by output which elements are others where the programs of its launches run in other orders.

        What only rounds otherwise (sums that atomics leave unordered) is not among them.
        """
        if self.where.ordered is None:
            return {}
        want = self.outputs()
        found = {name: torch.zeros(t.shape, dtype=torch.bool) for name, t in want.tensors.items()}
        for order in ("reverse", "shuffled"):
            run = functools.partial(self.where.ordered, self.program, self.call, order)
            try:
                other = _kept(self._key("ordered", order), run)
            except RunFailed:
                continue
            with torch._C.DisableTorchFunction():
                for name, tensor in other.tensors.items():
                    if name in found and tensor.shape == found[name].shape:
                        found[name] |= _far_apart(want.tensors[name], tensor)
        return found

    def widened(self) -> tuple[Outputs | None, str]:
        """Return what it computes in float64, or None and why that says nothing here."""
        if self.where.widened is None:
            return None, ""
        want = self.outputs()
        try:
            wide = _kept(self._key("wide"), lambda: run_call(self.program, self.call, self.where, ORIGINAL, wide=True))
        except RunFailed as error:
            return None, f"the original fails in float64 ({error})"
        why = _deviates(want, wide)
        return (None, f"in float64 the original {why}") if why else (wide, "")

    def precision(self) -> Precision:
        """Return how exact its arithmetic is, or has to be taken to be where nothing was found out."""
        known = self.told or _precisions.get(digest_of(self.program))
        wide, _ = self.widened()
        used = [_EPS[name] for name in (wide.arithmetic if wide is not None else ())]
        if used or known is not None:
            return Precision(min(used) if used or known is None else known.eps, 0.0 if known is None else known.lost)
        dtypes = {t.dtype for t in self.outputs().tensors.values()}
        return Precision(_EPS["fp64" if torch.float64 in dtypes else "fp32"])

    def found(self, lost: float) -> Precision:
        """Remember for other inputs what its arithmetic was found to lose on this one."""
        known, eps = _precisions.get(digest_of(self.program)), self.precision().eps
        found = Precision(eps, max(lost, known.lost if known else 0.0))
        _precisions[digest_of(self.program)] = found
        return Precision(eps, lost)

    def shifts(self, coin: int, *, walking: bool = False) -> Mapping[str, Any]:
        """Return by output how far it moves when inputs move by one rounding, or by walks of such, as this coin says.

        Raises:
            RunFailed: when the original fails on the moved inputs.
        """
        what = ("walked", coin) if walking else ("moved", coin)
        found = _kept(self._key(*what), lambda: self._moved(coin, walking=walking))
        assert isinstance(found, _Shifts)
        return found.tensors

    def _moved(self, coin: int, *, walking: bool) -> _Shifts:
        eps = self.precision().eps
        wide, _ = self.widened()
        if wide is not None:
            found = self._difference(wide, Mover(coin, eps, in_memory=False, walking=walking), eps)
            if any(bool(s.any()) for s in found.tensors.values()):
                return found
            # Perhaps the host function copies its arguments, which only what memory holds survives.
        return self._difference(wide, Mover(coin, eps, in_memory=True, walking=walking), eps)

    def _difference(self, wide: Outputs | None, mover: Mover, eps: float) -> _Shifts:
        base = self.outputs() if wide is None else wide
        moved = run_call(self.program, self.call, self.where, ORIGINAL, wide=wide is not None, prepare=mover)
        gain = min(eps / mover.moved, 1.0) if mover.moved else 1.0
        shifts: dict[str, Any] = {}
        now, before = _floats(moved), _floats(base)
        for name in now.keys() & before.keys():
            if now[name].shape == before[name].shape:
                shifts[name] = torch.nan_to_num(
                    (now[name].double() - before[name].double()).abs() * gain, 0.0, 0.0, 0.0
                )
        return _Shifts(shifts)

    def oracle(
        self, reference: Reference | None, tolerance: Tolerance, coins: int, walks: int = 0
    ) -> tuple[Oracle, str]:
        """Return what outputs are judged by, and what a person should know about it.

        Args:
            reference: what the user says is right.
            tolerance: tells what rounding explains.
            coins: how often inputs are moved.
            walks: how often they are moved by walks.
        """
        wide, note = self.widened()
        shifts: list[Mapping[str, Any]] = []
        walked: list[Mapping[str, Any]] = []
        for coin in range(coins + walks):
            walking = coin >= coins
            try:
                (walked if walking else shifts).append(self.shifts(coin, walking=walking))
            except RunFailed as error:
                note = note or f"the original fails when its inputs move by one rounding ({error})"
                break
        values = {} if wide is None else {n: v for n, v in wide.values.items() if type(v) is float}
        tensors = {} if wide is None else wide.wide
        found = Oracle("original" if wide is None else "widened", tensors, values, shifts, walked, self.precision())
        return (found, note) if reference is None else self._referred(reference, found, tolerance, note)

    def _referred(self, reference: Reference, found: Oracle, tolerance: Tolerance, note: str) -> tuple[Oracle, str]:
        """Put what a reference says in the place of what the original computes, where that is believable."""
        want = self.outputs()
        try:
            said = _kept(self._key("reference", reference), lambda: run_reference(reference, self.call, self.where))
        except RunFailed as error:
            return found, f"the reference fails: {error}"
        # Arguments that it leaves alone say nothing.
        names = said.wide.keys() & want.tensors.keys() - (said.given - said.changed)
        right = {n: said.wide[n] for n in names if said.wide[n].shape == want.tensors[n].shape}
        if not right:
            return found, "the reference returns and changes nothing of the shape of an output"
        far = self._far(want, right, found, tolerance)
        if far:
            return found, far
        return replace(found, kind="reference", tensors={**found.tensors, **right}), note

    def _far(self, want: Outputs, right: Mapping[str, Any], found: Oracle, tolerance: Tolerance) -> str:
        """Say how far the original is from its reference, where rounding does not explain it."""
        for name, truth in right.items():
            wanted = want.tensors[name]
            if not wanted.dtype.is_floating_point or not wanted.numel():
                continue
            shifts = [s[name] for s in found.shifts or [self.shifts(0)] if name in s]
            skip = want.poison.where(wanted) if want.poison is not None else None
            # The original in the candidate's place: its error is not its own excuse.
            judged = judge(
                truth.to(wanted.dtype), wanted, Evidence(truth, shifts, eps=found.precision.eps), tolerance, skip
            )
            if judged.excess > FAR:
                return (
                    f"the original is far from its reference, which was not used: {name} differs by up to "
                    f"{judged.worst:.2g} of its largest value, {judged.excess:.0f} times what rounding explains"
                )
        return ""


@dataclass(frozen=True)
class _Shifts:
    tensors: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


def _far_apart(one: Any, other: Any) -> Any:
    """Return a mask of the elements that are further apart than sums are whose terms are added in another order."""
    if not one.dtype.is_floating_point:
        return one != other
    eps = max(float(torch.finfo(one.dtype).eps), _LEAST_EPS)
    near = torch.isclose(one.double(), other.double(), rtol=_ORDERS * eps, atol=0.0, equal_nan=True)
    return ~near


def _floats(outputs: Outputs) -> dict[str, Any]:
    """Return every floating output as a tensor, as exact as it is known."""
    untouched = outputs.given - outputs.changed
    found = {n: t for n, t in outputs.tensors.items() if t.dtype.is_floating_point and n not in untouched}
    found = {n: outputs.wide.get(n, t) for n, t in found.items()}
    found.update({n: torch.tensor([v], dtype=torch.float64) for n, v in outputs.values.items() if type(v) is float})
    return found


def _deviates(want: Outputs, wide: Outputs) -> str:
    """Say where the original takes another way in float64; empty where it does not."""
    if want.launches != wide.launches or set(want.tensors) != set(wide.tensors):
        return "makes other launches or returns something else"
    for name, wanted in want.tensors.items():
        other = wide.tensors[name]
        if wanted.shape != other.shape or wanted.dtype != other.dtype:
            return f"returns another shape or type as {name}"
        if not wanted.dtype.is_floating_point:
            if not wanted.dtype.is_complex and not torch.equal(wanted, other):
                return f"computes other whole numbers as {name}"
        elif name in wide.wide and bool((torch.isfinite(wanted) & ~torch.isfinite(wide.wide[name])).any()):
            return f"computes NaN or Inf in {name} where it is finite"
    if any(v != wide.values.get(n) for n, v in want.values.items() if isinstance(v, (int, str))):
        return "returns another number"
    return ""
