"""Inputs that the original may or may not allow: it is asked, and what it fails on is left out with its reason.

Memory with gaps is legal for a function that reads strides, an empty tensor for one that launches an empty grid, one
head more for one that knows no fixed number. The source seldom says so, but the original's own run does: it raises, it
leaves its buffers, or its results depend on what lies in gaps.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tritonforge.domain.launch import Call, Distribution, Hostile, Tensor, Value
from tritonforge.domain.messages import InputOutcome
from tritonforge.verify.defaults import of_every_size, other_defaults
from tritonforge.verify.grouping import Groups, SelfCheck
from tritonforge.verify.inputs import Variation
from tritonforge.verify.marks import marked
from tritonforge.verify.resizing import (
    Path,
    all_tensors,
    is_floating,
    is_unset,
    leaves,
    map_tensors,
    resize,
    with_leaves,
)
from tritonforge.verify.scalars import FACTORS, floats, neighbours, other_scalars, with_scalar
from tritonforge.verify.signature import Parameter
from tritonforge.verify.sizes import counting, few
from tritonforge.verify.small_extents import other_extents
from tritonforge.verify.spreading import SPREADS, Spread, spread

_WITH_GAPS: tuple[Spread, ...] = ("rows", "transposed", "elements")
_MAX_EMPTY = 4
_MAX_NEIGHBOURS = 9
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
    lighter: Call | None = None,
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
        lighter: what is changed in place of `call` where that takes long, but for small extents themselves.
    """
    little = few(groups, counting(call, groups, grid))
    extents = other_extents(call, groups, little)
    call = lighter or call

    def made(changed: Call, sizes: Sequence[int] = little) -> Call:
        chosen = groups.sized(sizes)
        return resize(changed, chosen, seed=seed)

    base = made(call)
    if base.kernel_launch:
        # Strides and lengths are arguments of their own here: other memory alone would contradict them.
        wanted = [*_sized(little, made, call), *extents, *_integers(call, made)]
    else:
        wanted = [
            *((about, spread(base, how)) for how, about in SPREADS),
            *_each_its_own(base),
            *_sized(little, made, call),
            *extents,
            *other_defaults(base, parameters),
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
    # Unless it always does: then what its order decides is the same every time, or does not matter.
    racing = bool(outcomes) and all(outcome.overlapping for outcome in outcomes if outcome.status == "equal")
    kept, skipped = [], []
    for (about, one), outcome in zip(wanted, outcomes, strict=False):
        empty = any(tensor.elements == 0 for tensor in all_tensors(one))
        if outcome.overlapping and not racing:
            skipped.append((about, "what the original writes overlaps"))
        elif outcome.status == "equal" and (outcome.outputs or empty):
            kept.append(Variation(one, about))
        else:
            skipped.append((about, why_skipped(outcome)))
    return kept, skipped


def why_skipped(outcome: InputOutcome) -> str:
    """Return why an input is left out that the original was asked about."""
    if outcome.status == "original-failed":
        return f"the original fails: {outcome.detail}"
    return f"the original does not repeat its own results: {outcome.detail}" if outcome.detail else "nothing to compare"


def _alone_in_memory(call: Call) -> list[tuple[Path, Tensor]]:
    """Return the tensors that share no memory with another argument."""
    found = [(path, value) for path, value in leaves(call) if isinstance(value, Tensor)]
    shared = Counter(value.buffer for _, value in found if value.buffer >= 0)
    return [(path, value) for path, value in found if shared[value.buffer] < 2]


def _each_its_own(base: Call) -> Iterator[tuple[str, Call]]:
    """Give each tensor memory of its own form, so that tensors of one shape have strides of their own."""
    found = [path for path, _ in _alone_in_memory(base)]
    if len(found) < 2:
        return
    changed = base
    for index, path in enumerate(found):
        changed = spread(changed, "rows", only=path, gap=3 + 2 * index)
    yield "gaps between rows, others in each argument", changed
    for first, about in ((0, ""), (1, ", the other way round")):
        changed = base
        for index, path in enumerate(found):
            changed = spread(changed, _WITH_GAPS[(first + index) % len(_WITH_GAPS)], only=path, gap=3 + 2 * index)
        yield f"memory of another kind for each argument{about}", changed


def _one_by_one(base: Call, skipped: Sequence[tuple[str, str]]) -> list[tuple[str, Call]]:
    """Spread the largest tensors alone in those ways in which all together are refused."""
    refused = {about for about, _ in skipped}
    found = _alone_in_memory(base)
    found.sort(key=lambda one: -one[1].elements)
    if len(found) < 2:
        return []
    return [
        (f"{about}, argument {path[0]} alone", spread(base, how, only=path))
        for how, about in SPREADS
        if about in refused
        for path, _ in found[:_MAX_ALONE]
    ]


def _sized(little: Sequence[int], made: Callable[..., Call], call: Call) -> Iterator[tuple[str, Call]]:
    n = len(little)
    if n:
        yield "empty: every size is 0", made(call, [0] * n)
    if 1 < n <= _MAX_EMPTY:
        for index in range(n):
            yield (
                f"empty: size {index + 1} of {n} is 0",
                made(call, [0 if i == index else s for i, s in enumerate(little)]),
            )


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
        yield f"argument {path[0]} = 0.0", map_tensors(made(with_scalar(call, path, 0.0)), of_every_size)


def _dtypes(call: Call, dtypes: frozenset[str], made: Callable[..., Call]) -> Iterator[tuple[str, Call]]:
    own = _floating_dtype(call)
    # What was recorded in one type may be written for others: a narrow one shows what takes its type from an argument.
    others = sorted(dtypes)[:_MAX_DTYPES] or (["float16"] if own == "float32" else [])
    for dtype in others:

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
