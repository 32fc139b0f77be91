"""Compare what two programs computed: values returned, arguments changed, buffers written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tritonforge.domain.messages import Difference, OracleKind, Precision, Tolerance
from tritonforge.worker.interpreter.poison import Poison
from tritonforge.worker.judging import Evidence, Judgement, judge
from tritonforge.worker.outputs import Outputs, flatten, identical, is_nan, same_bits

__all__ = ["Comparison", "Oracle", "Outputs", "compare_outputs", "compare_tensors", "flatten", "identical", "same_bits"]

_SINGLE = Precision(2.0**-23)


@dataclass(frozen=True)
class Undefined:
    """Elements that say nothing of a candidate, because the original does not define them on this input.

    `unwritten`: those that it leaves unwritten; `ordered`: a mask for each output of those that the order of its
    programs decides.
    """

    unwritten: bool = False
    ordered: Mapping[str, Any] = field(default_factory=dict)


NOTHING = Undefined()


@dataclass(frozen=True)
class Oracle:
    """What outputs are judged by: float64 values by the name of the output (the original's, where there are none).

    `shifts`: how far they move when inputs do, by name, once for each time; `walks`: when they move by walks.
    `precision`: the original's. `flushed`: whether it runs where subnormals of fp32 may be flushed to zero.
    """

    kind: OracleKind = "original"
    tensors: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    shifts: Sequence[Mapping[str, Any]] = ()
    walks: Sequence[Mapping[str, Any]] = ()
    precision: Precision = _SINGLE
    flushed: bool = False

    def evidence_for(self, name: str, want: Any) -> Evidence:
        """Return what is known of the output `name`, of which the original computed `want`."""
        known = self.tensors.get(name)
        shifts, walks = ([s[name] for s in each if name in s] for each in (self.shifts, self.walks))
        lost = self.precision.lost if known is None else 0.0
        value = want if known is None else known
        return Evidence(value, shifts, walks, self.precision.eps, known is None, lost, self.flushed)


@dataclass(frozen=True)
class Comparison:
    """How two outputs differ; `problem` is empty when they agree within the tolerance.

    Errors are against the oracle: the largest over the largest value, and in norm; `original_*` are the original's.
    `excess`: by which factor a tolerance would have to be larger; infinite where none would do.
    """

    problem: str = ""
    worst_error: float = 0.0
    difference: Difference | None = None
    compared: int = 0
    excess: float = 0.0
    norm_error: float = 0.0
    original_error: float = 0.0
    original_norm_error: float = 0.0
    lost: float = 0.0
    """What the original's arithmetic lost, see `Precision`."""
    defined: bool = True
    """Whether the original defines anything of what it writes."""


def compare_outputs(
    want: Outputs, got: Outputs, tolerance: Tolerance, oracle: Oracle | None = None, undefined: Undefined | None = None
) -> Comparison:
    """Compare the candidate's outputs to the original's, by the oracle; the first problem is the one reported.

    The largest errors over all outputs are given even then. Outputs of no elements are not counted as compared.
    `undefined`: elements that the original does not define.
    """
    oracle, undefined = oracle or Oracle(), undefined or Undefined()
    something = any(t.numel() for t in want.tensors.values()) or bool(want.values)
    if want.launches and not got.launches and (something or not want.tensors):
        return _hopeless("the candidate launches no Triton kernel here, where the original does", compared=1)
    if set(want.tensors) != set(got.tensors):
        name = min(set(want.tensors) ^ set(got.tensors))
        who = "the candidate lacks" if name in want.tensors else "only the candidate has"
        return _hopeless(f"{who} the output {name}")
    poisons = want.poison, got.poison
    untouched = (want.given - want.changed) & (got.given - got.changed)
    each = [
        compare_tensors(
            n, w, got.tensors[n], tolerance, poisons=poisons, evidence=oracle.evidence_for(n, w), undefined=undefined
        )
        for n, w in want.tensors.items()
        if n not in untouched
    ]
    written = [n for n, w in want.tensors.items() if n not in untouched and w.numel()]
    defined = bool(want.values) or not written or any(one.compared or one.problem for one in each)
    each += [Comparison(compared=int(want.tensors[n].numel() > 0)) for n in untouched]
    each += [_compare_values(n, v, got.values.get(n), tolerance, oracle) for n, v in want.values.items()]
    extra = sorted(got.changed - want.changed)
    if extra:
        each.append(_hopeless(f"the candidate changes {', '.join(extra)}, which the original leaves alone"))
    if got.overwrites and not want.overwrites:
        each.append(_hopeless("a call of the candidate changes what an earlier one returned: they share a buffer"))
    if not want.tensors and not want.values:
        each.append(_hopeless("nothing can be compared: no tensor is returned, taken or given to a kernel"))
    first = next((one for one in each if one.problem), Comparison())
    return Comparison(
        first.problem,
        max((one.worst_error for one in each), default=0.0),
        first.difference,
        sum(one.compared for one in each),
        max((one.excess for one in each), default=0.0),
        max((one.norm_error for one in each), default=0.0),
        max((one.original_error for one in each), default=0.0),
        max((one.original_norm_error for one in each), default=0.0),
        max((one.lost for one in each), default=0.0),
        defined,
    )


def _hopeless(problem: str, compared: int = 0, difference: Difference | None = None) -> Comparison:
    return Comparison(problem, compared=compared, excess=math.inf, difference=difference)


def _compare_values(name: str, want: Any, got: Any, tolerance: Tolerance, oracle: Oracle) -> Comparison:
    """Compare something else that was returned: a float by the rule for tensors, whole numbers and text exactly."""
    if type(want) is float and type(got) is float:
        first, second = (torch.tensor([v], dtype=torch.float64) for v in (want, got))
        dtype = next((t for t in (torch.float16, torch.bfloat16) if _fits(first, t) and _fits(second, t)), None)
        known = torch.tensor([oracle.values.get(name, want)], dtype=torch.float64)
        shifts, walks = (
            [torch.as_tensor(s[name]).reshape(1) for s in each if name in s] for each in (oracle.shifts, oracle.walks)
        )
        verdict = judge(
            first.to(dtype or torch.float32),
            second.to(dtype or torch.float32),
            Evidence(known, shifts, walks, oracle.precision.eps, name not in oracle.values),
            tolerance,
        )
        return _said(name, (), verdict, (want, got), tolerance) if verdict.where >= 0 else _passed(verdict)
    exact = (bool, int, str, bytes)
    # Other objects cannot be compared between two programs that each have their own classes.
    if type(want) is type(got) and (want == got or not isinstance(want, exact)):
        return Comparison(compared=1)
    return _hopeless(f"{name} is {got!r} instead of {want!r}", compared=1)


def _fits(value: Any, dtype: Any) -> bool:
    return bool(torch.equal(value.to(dtype).double().nan_to_num(), value.nan_to_num()))


def compare_tensors(
    name: str,
    want: Any,
    got: Any,
    tolerance: Tolerance,
    *,
    poisons: tuple[Poison | None, Poison | None] = (None, None),
    evidence: Evidence | None = None,
    undefined: Undefined = NOTHING,
) -> Comparison:
    """Compare one output: floating ones as `judging` has it, others exactly.

    Where the original leaves poison (memory it never wrote), the candidate must leave its own, and what is in
    `undefined` is not compared.
    """
    if tuple(want.shape) != tuple(got.shape) or want.dtype != got.dtype:
        return _hopeless(
            f"{name} has shape {tuple(got.shape)} and dtype {got.dtype} instead of {tuple(want.shape)} and {want.dtype}"
        )
    if want.numel() == 0:
        return Comparison()
    if want.is_contiguous() and not got.is_contiguous():
        return _hopeless(f"{name} has strides {got.stride()} instead of {want.stride()}", compared=1)
    if want.dtype.is_complex:
        want, got = torch.view_as_real(want), torch.view_as_real(got)
        evidence = None
    skip, unwritten = _written(name, want, got, poisons, may_be=undefined.unwritten)
    if unwritten is not None:
        return unwritten
    ordered = undefined.ordered.get(name)
    if ordered is not None and ordered.shape == want.shape:
        skip = ordered if skip is None else skip | ordered
    if (undefined.unwritten or ordered is not None) and skip is not None and bool(skip.all()):
        return Comparison()
    if want.dtype.is_floating_point:
        found = judge(want, got, evidence or Evidence(want, inexact=True), tolerance, skip)
        if found.where < 0 and found.norm_ratio <= tolerance.norm:
            return _passed(found)
        came = float(got.reshape(-1)[found.where]) if found.where >= 0 else math.nan
        return _said(name, tuple(want.shape), found, (found.expected, came), tolerance)
    unequal = want != got
    if skip is not None:
        unequal &= ~skip
    count = int(unequal.sum())
    if not count:
        return Comparison(compared=1)
    index = tuple(int(i) for i in torch.nonzero(unequal)[0])
    expected, came = float(want[index]), float(got[index])
    text = f"{name} differs at {count} of {want.numel()} elements, the first at {list(index)}: "
    text += f"{came:.17g} instead of {expected:.17g}, which must be equal"
    difference = Difference(name, index, expected, came, count, want.numel(), 0.0)
    return Comparison(text, 1.0, difference, 1, math.inf)


def _passed(found: Judgement) -> Comparison:
    return Comparison(
        worst_error=found.worst,
        compared=1,
        excess=found.excess,
        norm_error=found.norm,
        original_error=found.original_worst,
        original_norm_error=found.original_norm,
        lost=found.lost,
    )


def _unravelled(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element at `place` in row-major order (torch's own function imports sympy)."""
    index: list[int] = []
    for extent in reversed(shape):
        place, at = divmod(place, extent)
        index.insert(0, at)
    return tuple(index)


def _said(
    name: str, shape: tuple[int, ...], found: Judgement, numbers: tuple[float, float], rule: Tolerance
) -> Comparison:
    """Say what is wrong with a floating output; `numbers` are what was expected and what came."""
    expected, came = numbers
    elements, difference = math.prod(shape), None
    if found.where >= 0:
        index = _unravelled(found.where, shape)
        text = f"{name} differs at {found.count} of {elements} elements, the first at {list(index)}: "
        text += f"{came:.6g} instead of {expected:.6g}"
        text += "" if found.special else f", {abs(came - expected):.2g} off where {found.allowed:.2g} is allowed"
        allowed = None if found.special else found.allowed
        difference = Difference(name, index, expected, came, found.count, elements, allowed)
        excess = math.inf if found.special else max(found.excess, found.norm_ratio / rule.norm)
    else:
        text = (
            f"{name} is less exact than the original everywhere: its error in norm is {found.norm:.2g} of the output's "
            f"(the original's: {found.original_norm:.2g}), {found.norm_ratio:.2g} times what rounding explains, where "
            f"{rule.norm:g} times are allowed"
        )
        excess = found.norm_ratio / rule.norm
    said = _passed(found)
    return replace(said, problem=text, difference=difference, excess=excess)


def _written(
    name: str, want: Any, got: Any, poisons: tuple[Poison | None, Poison | None], *, may_be: bool
) -> tuple[Any, Comparison | None]:
    """Return a mask of what both left unwritten (None for nothing), and what is wrong where only one did.

    `may_be`: the candidate may write what the original does not.
    """
    want_poison, got_poison = poisons
    if want_poison is None or got_poison is None:
        return None, None
    left, left_too = want_poison.where(want), got_poison.where(got)
    if not bool(left.any()) and not bool(left_too.any()):
        return None, None
    # Small integers that both wrote can look like poison; what is equal was written by both, though.
    unequal = (want != got) | is_nan(want) | is_nan(got)
    missing = left_too & ~left & unequal
    # An original that copies what it never wrote hands on NaNs, with or without their payload.
    added = left & ~left_too & ~is_nan(got) & unequal
    wrong = [(missing, "holds memory that was never written at {} of {} elements, the first at {}")]
    if not may_be:
        wrong.append((added, "is written at {} of {} elements that the original leaves unwritten, the first at {}"))
    for bad, said in wrong:
        count = int(bad.sum())
        if count:
            index = tuple(int(i) for i in torch.nonzero(bad)[0])
            text = f"{name} {said.format(count, want.numel(), list(index))}"
            numbers = float(want[index]), float(got[index])
            return left | left_too, _hopeless(text, 1, Difference(name, index, *numbers, count, want.numel()))
    return left & unequal, None
