"""Find out what is right on one input, and how well the original and the input allow to know it.

All of this depends on the original alone, so a lane keeps it for the next candidate.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program, Reference, Tolerance
from tritonforge.worker.calling import Runnable, identity
from tritonforge.worker.interpreter.poison import ORIGINAL
from tritonforge.worker.judging import Evidence, judge
from tritonforge.worker.loading import digest_of
from tritonforge.worker.outcomes import Oracle, Outputs
from tritonforge.worker.rebuilding import Rebuilt, real_device
from tritonforge.worker.repeating import RunFailed, Where, run_call

_CACHE_BYTES = 512 << 20
_EPS = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
FAR = 100.0
"""An original further from its reference than this many times what rounding explains computes something else."""


@dataclass(frozen=True)
class _Failed:
    message: str
    out_of_bounds: bool
    n_bytes: int = 0


_cache: OrderedDict[str, Any] = OrderedDict()


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

    def eps(self) -> float:
        """Return the eps of the precision that it accumulates in, or has to be taken to accumulate in."""
        wide, _ = self.widened()
        used = [_EPS[name] for name in (wide.arithmetic if wide is not None else ())]
        if used:
            return min(used)
        dtypes = {t.dtype for t in self.outputs().tensors.values()}
        return _EPS["fp64" if torch.float64 in dtypes else "fp32"]

    def shifts(self, coin: int) -> Mapping[str, Any]:
        """Return by output how far it moves when inputs move by one rounding, up or down as this coin says.

        Raises:
            RunFailed: when the original fails on the moved inputs.
        """
        found = _kept(self._key("moved", coin), lambda: self._moved(coin))
        assert isinstance(found, _Shifts)
        return found.tensors

    def _moved(self, coin: int) -> _Shifts:
        eps = self.eps()
        wide, _ = self.widened()
        if wide is not None:
            found = self._difference(wide, _Mover(coin, eps, in_memory=False), eps)
            if any(bool(s.any()) for s in found.tensors.values()):
                return found
            # Perhaps the host function copies its arguments, which only what memory holds survives.
        return self._difference(wide, _Mover(coin, eps, in_memory=True), eps)

    def _difference(self, wide: Outputs | None, mover: _Mover, eps: float) -> _Shifts:
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

    def oracle(self, reference: Reference | None, tolerance: Tolerance, coins: int) -> tuple[Oracle, str]:
        """Return what outputs are judged by, and what a person should know about it.

        Args:
            reference: what the user says is right.
            tolerance: tells what rounding explains.
            coins: how often inputs are moved.
        """
        want = self.outputs()
        wide, note = self.widened()
        shifts: list[Mapping[str, Any]] = []
        for coin in range(coins):
            try:
                shifts.append(self.shifts(coin))
            except RunFailed as error:
                note = note or f"the original fails when its inputs move by one rounding ({error})"
                break
        values = {} if wide is None else {n: v for n, v in wide.values.items() if type(v) is float}
        tensors = {} if wide is None else wide.wide
        found = Oracle("original" if wide is None else "widened", tensors, values, shifts, self.eps())
        if reference is None:
            return found, note
        try:
            said = _kept(self._key("reference", reference), lambda: run_reference(reference, self.call, self.where))
        except RunFailed as error:
            return found, f"the reference fails: {error}"
        right = {n: t for n, t in said.wide.items() if n in want.tensors and t.shape == want.tensors[n].shape}
        if not right:
            return found, "the reference returns and changes nothing of the shape of an output"
        far = self._far(want, right, found, tolerance)
        if far:
            return found, far
        return replace(found, kind="reference", tensors={**tensors, **right}), note

    def _far(self, want: Outputs, right: Mapping[str, Any], found: Oracle, tolerance: Tolerance) -> str:
        """Say how far the original is from its reference, where rounding does not explain it."""
        for name, truth in right.items():
            wanted = want.tensors[name]
            if not wanted.dtype.is_floating_point or not wanted.numel():
                continue
            shifts = [s[name] for s in found.shifts or [self.shifts(0)] if name in s]
            skip = want.poison.where(wanted) if want.poison is not None else None
            # The original in the candidate's place: its error is not its own excuse.
            judged = judge(truth.to(wanted.dtype), wanted, Evidence(truth, shifts, found.eps), tolerance, skip)
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


class _Mover:
    """Moves every floating argument up or down by one rounding, as coins of a fixed seed say.

    In memory an argument can only move by what its type can hold: then all move by the coarsest eps among them, and
    `moved` says by what. Otherwise the shadow of the run stands for the moved values.
    """

    def __init__(self, coin: int, eps: float, *, in_memory: bool) -> None:
        self.coin, self.moved, self.in_memory = coin, eps, in_memory

    def __call__(self, rebuilt: Rebuilt, shadow: Any) -> None:
        generator = torch._C.Generator()
        generator.manual_seed(1 + self.coin)
        targets = [_distinct(t.detach()) for t in rebuilt.tensors.values()]
        targets = [t for t in targets if t.dtype.is_floating_point and t.numel() and t.dtype.itemsize > 1]
        finest = max([self.moved, *(float(torch.finfo(t.dtype).eps) for t in targets)])
        for target in targets:
            coins = torch.randint(0, 2, target.shape, generator=generator, dtype=torch.int8).to(real_device(target))
            signs, wide = coins.double() * 2 - 1, target.double()
            if self.in_memory or float(torch.finfo(target.dtype).eps) <= self.moved:
                by = finest if self.in_memory else self.moved
                target.copy_(torch.where(torch.isfinite(wide), wide * (1 + by * signs), wide).to(target.dtype))
            elif shadow is not None:
                shadow.seed(target, torch.where(torch.isfinite(wide), wide * (1 + self.moved * signs), wide))
        if self.in_memory:
            self.moved = finest


def _distinct(tensor: Any) -> Any:
    """Return one slice of what is broadcast."""
    for axis, (n, s) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if s == 0 and n > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _floats(outputs: Outputs) -> dict[str, Any]:
    """Return every floating output as a tensor, as exact as it is known."""
    found = {n: outputs.wide.get(n, t) for n, t in outputs.tensors.items() if t.dtype.is_floating_point}
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
        elif bool((torch.isfinite(wanted) & ~torch.isfinite(wide.wide[name])).any()):
            return f"computes NaN or Inf in {name} where it is finite"
    if any(v != wide.values.get(n) for n, v in want.values.items() if isinstance(v, (int, str))):
        return "returns another number"
    return ""


def run_reference(reference: Reference, call: Call, where: Where) -> Outputs:
    """Call a reference with the arguments of a call, floating tensors in float64.

    Raises:
        RunFailed: when it cannot be called or raises.
    """
    named = replace(call, file=reference.program.file, function=reference.function, kernel_launch=None)
    wide: dict[int, Any] = {}

    def prepare(rebuilt: Rebuilt, _shadow: Any) -> None:
        for path, tensor in rebuilt.tensors.items():
            if tensor.dtype.is_floating_point:
                wide[id(tensor)] = tensor.detach().double().requires_grad_(tensor.requires_grad)
                rebuilt.tensors[path] = wide[id(tensor)]

    def adapt(found: Runnable) -> Runnable:
        def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            return found.run(_replaced(arguments, wide), _replaced(keywords, wide))

        return replace(found, run=run)

    outputs = run_call(reference.program, named, where, ORIGINAL, prepare=prepare, adapt=adapt)
    outputs.wide = {n: t.double() for n, t in outputs.tensors.items() if t.dtype.is_floating_point}
    return outputs


def _replaced(value: Any, by: Mapping[int, Any]) -> Any:
    if id(value) in by:
        return by[id(value)]
    if type(value) in {list, tuple}:
        return type(value)(_replaced(item, by) for item in value)
    if isinstance(value, dict):
        return {name: _replaced(item, by) for name, item in value.items()}
    return value
