"""Inputs that the original may or may not allow: it is asked, and what it fails on is left out with its reason.

Memory with gaps is legal for a function that reads strides, an empty tensor for one that launches an empty grid, one
head more for one that knows no fixed number. The source seldom says so, but the original's own run does: it raises, it
leaves its buffers, or its results depend on what lies in gaps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tritonforge.domain.launch import Call, Distribution, Hostile, Scalar, Tensor, Value
from tritonforge.domain.messages import InputOutcome
from tritonforge.verify.grouping import Groups, SelfCheck, meanings
from tritonforge.verify.inputs import Variation
from tritonforge.verify.marks import marked
from tritonforge.verify.naming import by_name, given
from tritonforge.verify.resizing import (
    all_tensors,
    is_floating,
    is_unset,
    leaves,
    map_tensors,
    resize,
    with_leaves,
)
from tritonforge.verify.scalars import FACTORS, a_quarter_less, floats, neighbours, other_scalars, with_scalar
from tritonforge.verify.signature import Parameter
from tritonforge.verify.sizes import counting, few
from tritonforge.verify.spreading import SPREADS, Spread, spread

_WITH_GAPS: tuple[Spread, ...] = ("rows", "transposed", "elements")
_MAX_EMPTY = 4
_MAX_MEANINGS = 3
_MAX_NEIGHBOURS = 9
_MAX_OPTIONAL = 3
_MAX_DTYPES = 2
_MAX_FACTORS = 3
_MAX_ALONE = 2


@dataclass(frozen=True)
class Asked:
    """What the original allows, and what was skipped: about what, and why."""

    variations: tuple[Variation, ...]
    skipped: tuple[tuple[str, str], ...] = ()


async def asked(
    call: Call,
    groups: Groups,
    self_check: SelfCheck,
    *,
    seed: int,
    grid: frozenset[int] = frozenset(),
    parameters: tuple[Parameter, ...] = (),
    dtypes: frozenset[str] = frozenset(),
) -> Asked:
    """Return the inputs beyond `variations` that the original allows.

    Args:
        call: the recorded call.
        groups: which of its sizes change together.
        self_check: runs the original against itself; only what comes out equal is kept.
        seed: the first seed; every input gets its own.
        grid: extents of the recorded grids, as in `variations`.
        parameters: those of the called function (`parameters_of`), for arguments that equal defaults or are left out.
        dtypes: floating dtypes that other recorded calls of the same function used (`other_dtypes`).
    """
    little = few(groups, counting(call, groups, grid))

    def made(changed: Call, sizes: Sequence[int] = little) -> Call:
        chosen = {place: size for group, size in zip(groups.groups, sizes, strict=True) for place in group}
        return resize(changed, chosen, seed=seed)

    base = made(call)
    if base.kernel_launch:
        # Strides and lengths are arguments of their own here: other memory alone would contradict them.
        wanted = [*_sized(call, groups, little, made), *_integers(call, made)]
    else:
        wanted = [
            *((about, spread(base, how)) for how, about in SPREADS),
            *_each_its_own(base),
            *_sized(call, groups, little, made),
            *_left_out(base, parameters),
            *marked(base, parameters),
            *_integers(call, made),
            *_factors(call, made),
            *_dtypes(call, dtypes, made),
        ]
    kept, skipped = await _allowed(call, base, wanted, self_check, seed)
    alone, _ = await _allowed(call, base, _one_by_one(base, skipped), self_check, seed + len(wanted))
    return Asked((*kept, *alone), tuple(skipped))


def other_dtypes(call: Call, calls: Sequence[Call]) -> frozenset[str]:
    """Return the floating dtypes that other calls of the same function are made with, and `call` is not."""
    own = _floating_dtype(call)
    others = {_floating_dtype(one) for one in calls if (one.file, one.function) == (call.file, call.function)}
    return frozenset(others - {own, ""}) if own else frozenset()


async def _allowed(
    call: Call, base: Call, wanted: Sequence[tuple[str, Call]], self_check: SelfCheck, seed: int
) -> tuple[list[Variation], list[tuple[str, str]]]:
    wanted = [
        (about, dataclasses.replace(one, seed=seed + index))
        for index, (about, one) in enumerate(wanted)
        if dataclasses.replace(one, seed=base.seed) not in (base, call)
    ]
    outcomes = await self_check([one for _, one in wanted]) if wanted else ()
    kept, skipped = [], []
    for (about, one), outcome in zip(wanted, outcomes, strict=False):
        empty = any(tensor.elements == 0 for tensor in all_tensors(one))
        if outcome.status == "equal" and (outcome.outputs or empty):
            kept.append(Variation(one, about))
        else:
            skipped.append((about, why_skipped(outcome)))
    return kept, skipped


def why_skipped(outcome: InputOutcome) -> str:
    """Return why an input is left out that the original was asked about."""
    if outcome.status == "original-failed":
        return f"the original fails: {outcome.detail}"
    return f"the original does not repeat its own results: {outcome.detail}" if outcome.detail else "nothing to compare"


def _each_its_own(base: Call) -> Iterator[tuple[str, Call]]:
    """Give each tensor another kind of memory than the one before: tensors of one shape get strides of their own."""
    found = [path for path, value in leaves(base) if isinstance(value, Tensor) and value.buffer < 0]
    if len(found) > 1:
        changed = base
        for index, path in enumerate(found):
            changed = spread(changed, _WITH_GAPS[index % len(_WITH_GAPS)], only=path)
        yield "memory of another kind for each argument", changed


def _one_by_one(base: Call, skipped: Sequence[tuple[str, str]]) -> list[tuple[str, Call]]:
    """Spread the largest tensors alone in those ways in which all together are refused."""
    refused = {about for about, _ in skipped}
    found = [(path, value) for path, value in leaves(base) if isinstance(value, Tensor) and value.buffer < 0]
    found.sort(key=lambda one: -one[1].elements)
    if len(found) < 2:
        return []
    return [
        (f"{about}, argument {path[0]} alone", spread(base, how, only=path))
        for how, about in SPREADS
        if about in refused
        for path, _ in found[:_MAX_ALONE]
    ]


def _sized(call: Call, groups: Groups, little: Sequence[int], made: Callable[..., Call]) -> Iterator[tuple[str, Call]]:
    n = len(little)
    if n:
        yield "empty: every size is 0", made(call, [0] * n)
    if 1 < n <= _MAX_EMPTY:
        for index in range(n):
            yield (
                f"empty: size {index + 1} of {n} is 0",
                made(call, [0 if i == index else s for i, s in enumerate(little)]),
            )
    chosen = {place: size for group, size in zip(groups.groups, little, strict=True) for place in group}
    for group in meanings(call, groups)[:_MAX_MEANINGS]:
        for new in (group[0].size + 1, 1):
            other = resize(call, {**chosen, **dict.fromkeys(group, new)}, seed=call.seed)
            yield f"an extent of {group[0].size} is {new}", other


def _left_out(call: Call, parameters: tuple[Parameter, ...]) -> Iterator[tuple[str, Call]]:
    """Leave out what equals its default, give what was left out, and give another value than the default."""
    named = by_name(call, parameters)
    tries = 0
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if default is None:
            continue
        value = named.get(name)
        if value == default:
            yield f"{name} left to its default", given(call, parameters, {**named, name: None})
        if value in (None, default):
            if isinstance(default.value, bool) and value is not None:
                continue  # flags are flipped in any case
            others = _others(default, call)
            tries += default.value is None
            if default.value is None and tries > _MAX_OPTIONAL:
                continue
            for other in others:
                # Numbers of every size: whether a limit is another one shows on both sides of it only.
                changed = map_tensors(given(call, parameters, {**named, name: other}), _of_every_size)
                yield f"{name} other than its default", changed
        elif isinstance(value, Tensor) and default.value is None:
            yield f"{name}=None", given(call, parameters, {**named, name: default})


def _others(default: Scalar, call: Call) -> tuple[Value, ...]:
    """Return other values to give where a default is: one of a number or a flag; tensors that may fit for None."""
    value = default.value
    if isinstance(value, bool):
        return (Scalar(not value),)
    if isinstance(value, int):
        return (Scalar(value + 1), Scalar(2 * value + 1)) if value > 1 else (Scalar(value + 1),)
    if isinstance(value, float):
        # A quarter less of an epsilon shows nowhere, and three times a probability may be no probability.
        return Scalar(a_quarter_less(value)), Scalar(3 * value + 0.25)
    tensors = sorted((t for t in all_tensors(call) if is_floating(t) and t.shape), key=lambda t: -t.elements)
    if value is not None or not tensors:
        return ()
    like = dataclasses.replace(tensors[0], values=Distribution(), buffer=-1, requires_grad=False)
    row = dataclasses.replace(like, shape=like.shape[-1:], strides=(1,), offset=0)
    return (row, like) if len(like.shape) > 1 else (row,)


def _integers(call: Call, made: Callable[..., Call]) -> Iterator[tuple[str, Call]]:
    for about, changed in neighbours(call)[:_MAX_NEIGHBOURS]:
        yield about, made(changed)
    extremes = map_tensors(made(call), _extreme)
    yield "integers of every size: 0, -1, least and greatest", extremes


def _extreme(tensor: Tensor) -> Tensor:
    """Give integer data the whole range of its type.

    Only narrow types, which hold data more often than not. A wide integer may be a loop's bound, and one that is two
    thousand million would never end.
    """
    narrow = {"int8", "uint8", "int16"}
    if tensor.dtype not in narrow or is_unset(tensor) or not tensor.elements:
        return tensor
    info = np.iinfo(tensor.dtype)
    return dataclasses.replace(tensor, values=Distribution("uniform", low=float(info.min), high=float(info.max)))


def _factors(call: Call, made: Callable[..., Call]) -> Iterator[tuple[str, Call]]:
    for about, change in FACTORS:
        changed = other_scalars(call, change)
        if changed is not None:
            yield about, made(changed)
    alone = floats(call)
    for path in alone[:_MAX_FACTORS] if len(alone) > 1 else ():
        # What one factor does another may undo: one at a time, and zero shows what is left out.
        yield f"argument {path[0]} = 0.0", map_tensors(made(with_scalar(call, path, 0.0)), _of_every_size)


def _of_every_size(tensor: Tensor) -> Tensor:
    """Give floating data numbers of all magnitudes, unless it is small by its type or not written at all."""
    if not is_floating(tensor) or is_unset(tensor) or not tensor.elements or tensor.dtype.startswith("float8"):
        return tensor
    return dataclasses.replace(tensor, values=Distribution("normal", mean=0.0, std=30.0))


def _dtypes(call: Call, dtypes: frozenset[str], made: Callable[..., Call]) -> Iterator[tuple[str, Call]]:
    own = _floating_dtype(call)
    for dtype in sorted(dtypes)[:_MAX_DTYPES]:

        def change(_path: object, value: Value, dtype: str = dtype) -> Value:
            if not isinstance(value, Tensor) or value.dtype != own:
                return value
            values = value.values if isinstance(value.values, (Distribution, Hostile)) else Distribution()
            return dataclasses.replace(value, dtype=dtype, values=values)

        yield f"{dtype} instead of {own}", made(with_leaves(call, change))


def _floating_dtype(call: Call) -> str:
    """Return the dtype of the largest floating tensor, or an empty text."""
    tensors = [tensor for tensor in all_tensors(call) if is_floating(tensor)]
    return max(tensors, key=lambda tensor: tensor.elements).dtype if tensors else ""
