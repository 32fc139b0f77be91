"""Inputs that take long or may never end: the original is asked about each alone, within bounds of time and memory.

These are the recorded call itself, where it can be interpreted; more iterations of a loop than were recorded; and
whole numbers over the whole range of their type or beyond 32 bits, which may turn out to be the bound of a loop.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Awaitable, Callable, Iterator

import numpy as np

from tritonforge.domain.launch import Call, Distribution, ExactValues, Tensor, Value
from tritonforge.domain.messages import InputOutcome
from tritonforge.jobs.together import all_of
from tritonforge.verify.asking import Asked, why_skipped
from tritonforge.verify.grouping import Groups
from tritonforge.verify.inputs import Variation
from tritonforge.verify.resizing import SMALLEST, Path, all_tensors, is_unset, leaves, resize, with_leaves
from tritonforge.verify.scalars import free_integers, with_scalar
from tritonforge.verify.sizes import SECONDS_EACH, counted, counting, few, heavy, takes

Alone = Callable[[Call], Awaitable[InputOutcome]]
"""Runs the original against itself on one call; what it takes too much time or memory for has failed."""

LONGEST = 6.0
"""Seconds: one run of the original that takes longer is left to a GPU."""

_HOPELESS = 25.0
"""Seconds, by a single program: more than that need not be asked about."""

_PROGRAMS = 600
_PROGRAMS_NAMED = 1100
_ELEMENTS = 1 << 21
_LONG = 256
_MAX_LONGER = 2
_MAX_WIDE = 3
_MAX_INTEGERS = 3
_ON_A_GPU = "it takes too long in the interpreter: it runs on a GPU only"


async def costly(call: Call, groups: Groups, alone: Alone, *, seed: int, grid: frozenset[int] = frozenset()) -> Asked:
    """Return the inputs that are asked about, each alone in a job of its own.

    Args:
        call: the recorded call, with its launches where they are known.
        groups: which of its sizes change together.
        alone: runs the original on one input, within bounds.
        seed: the first seed; every input gets its own.
        grid: extents of the recorded grids, as in `variations`.
    """
    kept: list[Variation] = []
    skipped: list[tuple[str, str]] = []
    if call.kernel_launch is None and groups.groups and not _can_be_interpreted(call, groups):
        skipped.append(("as recorded", _ON_A_GPU))
    every = [
        (about, dataclasses.replace(one, seed=seed + index, launches=()))
        for index, (about, one) in enumerate(_wanted(call, groups, grid))
    ]
    # What surely takes too long need not be asked about.
    long = {at for at, (_, one) in enumerate(every) if _surely_long(one, groups)}
    skipped += [(about, _ON_A_GPU) for at, (about, _) in enumerate(every) if at in long]
    wanted = [one for at, one in enumerate(every) if at not in long]
    answers = await all_of(ask_one(one, alone) for _, one in wanted)
    for (about, one), (reason, _) in zip(wanted, answers, strict=True):
        if reason:
            skipped.append((about, reason))
        else:
            kept.append(Variation(one, about))
    return Asked(tuple(kept), tuple(skipped))


def _surely_long(call: Call, groups: Groups) -> bool:
    each = zip(groups.alone, groups.sizes_of(call), strict=False)
    return any(one * size * SECONDS_EACH > LONGEST for one, size in each)


async def ask_one(call: Call, alone: Alone) -> tuple[str, bool]:
    """Return why the original does not allow an input, empty when it does, and whether only its cost forbids it."""
    outcome = await alone(call)
    if outcome.status == "equal" and outcome.seconds > LONGEST:
        return _ON_A_GPU, True
    if outcome.status == "equal" and outcome.outputs:
        return "", False
    return why_skipped(outcome), outcome.check == TOO_MUCH


TOO_MUCH = "cost"
"""The `check` of an outcome that says that the original was ended for its time or memory."""


def affordable(call: Call, programs: int) -> bool:
    """Tell whether an input may be worth asking about."""
    return programs <= _PROGRAMS_NAMED and _elements(call) <= _ELEMENTS


def _elements(call: Call) -> int:
    return sum(tensor.elements for tensor in all_tensors(call))


def _can_be_interpreted(call: Call, groups: Groups) -> bool:
    programs = sum(math.prod(launch.grid) * launch.count for launch in call.launches)
    return (
        bool(call.launches)
        and programs <= _PROGRAMS
        and takes(call, groups) <= _HOPELESS
        and not heavy(call, groups, frozenset())
        and _elements(call) <= _ELEMENTS
    )


def _wanted(call: Call, groups: Groups, grid: frozenset[int]) -> Iterator[tuple[str, Call]]:
    if call.kernel_launch is None and groups.groups and _can_be_interpreted(call, groups):
        yield "as recorded", call
    yield from _longer(call, groups, grid)
    if call.kernel_launch is None:
        yield from _wide(call, groups, grid)
        yield from _integers(call, groups, grid)


def _longer(call: Call, groups: Groups, grid: frozenset[int]) -> Iterator[tuple[str, Call]]:
    """Make each size that no grid counts longer than it was recorded, with the others next to nothing."""
    over_programs = counted(call, groups, grid)
    free = [index for index in range(len(groups.groups)) if index not in over_programs]
    free = sorted((i for i in free if groups.groups[i][0].size > _LONG), key=lambda i: -groups.groups[i][0].size)
    for at in free[:_MAX_LONGER]:
        sizes = [2 + index % 2 for index in range(len(groups.groups))]
        recorded = groups.groups[at][0].size
        sizes[at] = (recorded + recorded // 8 + 517) | 1
        chosen = groups.sized(sizes)
        longer = resize(call, chosen, seed=0)
        if _elements(longer) <= _ELEMENTS:
            yield "a longer loop than recorded, with a tail", longer


def _wide(call: Call, groups: Groups, grid: frozenset[int]) -> Iterator[tuple[str, Call]]:
    """Give each tensor of wide integers, one at a time, the whole range of its type.

    Where it holds indices, the original leaves its buffers on it; where it bounds a loop, the loop takes too long.
    """
    base = resize(call, groups.sized(few(groups, counting(call, groups, grid))), seed=0)
    found = [path for path, value in leaves(base) if isinstance(value, Tensor) and _may_be_data(value)]
    for at in found[:_MAX_WIDE]:

        def change(path: Path, value: Value, at: Path = at) -> Value:
            return _whole_range(value) if path == at and isinstance(value, Tensor) else value

        yield f"argument {at[0]}: integers over the whole range of their type", with_leaves(base, change)


def _integers(call: Call, groups: Groups, grid: frozenset[int]) -> Iterator[tuple[str, Call]]:
    """Give each integer that is no size a value in proportion to what the sizes became, and one beyond 32 bits.

    A capacity that stays far above every index is never reached, and a seed or a bound may not fit into 32 bits.
    """
    little = few(groups, counting(call, groups, grid))
    base = resize(call, groups.sized(little), seed=0)
    shrunk = [(group[0].size, size) for group, size in zip(groups.groups, little, strict=True)]
    for path, number in free_integers(call)[:_MAX_INTEGERS]:
        if number >= SMALLEST and shrunk:
            recorded, now = min(shrunk, key=lambda one: abs(math.log(one[0] / number)))
            for other in sorted({max(number * now // recorded, 1), max(now * 2 // 3, 1)}):
                yield f"argument {path[0]} = {other}, as small as the sizes are", with_scalar(base, path, other)
        far = number + (1 << 32)
        yield f"argument {path[0]} = {far}, beyond 32 bits", with_scalar(base, path, far)


def _may_be_data(tensor: Tensor) -> bool:
    if tensor.dtype not in {"int32", "int64"} or is_unset(tensor) or not tensor.elements:
        return False
    policy = tensor.values
    if isinstance(policy, Distribution):
        return policy.kind not in {"offsets", "permutation"} and policy.order == "random"
    if not isinstance(policy, ExactValues):
        return True
    values = np.frombuffer(zlib.decompress(policy.data), dtype=np.dtype(tensor.dtype))
    # What only grows says where rows, segments or sequences begin.
    return not (values.size > 1 and values[0] < values[-1] and bool((np.diff(values) >= 0).all()))


def _whole_range(tensor: Tensor) -> Tensor:
    info = np.iinfo(tensor.dtype)
    return dataclasses.replace(tensor, values=Distribution("uniform", low=float(info.min), high=float(info.max)))
