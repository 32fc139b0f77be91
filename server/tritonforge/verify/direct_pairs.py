"""Which launches of two kernels belong together, and whether one kernel can be launched in the other's place."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import RecordedLaunch, Scalar, Tensor, Value
from tritonforge.verify.direct_plan import has_nested_tensors

MOST_LAUNCHES = 2
"""Launches that are varied: those of one kind (dtypes, flags, meaning) give the same variations."""


def comparable(
    original: Kernel,
    candidate: Kernel,
    launches_before: Sequence[RecordedLaunch],
    launches_after: Sequence[RecordedLaunch],
) -> str:
    """Say why two kernels cannot be launched in each other's place, as it stands after `skipped: `; empty if they can.

    Args:
        original: the kernel as its source shows it.
        candidate: the kernel that stands for it.
        launches_before: what the recorded calls launch of the original, in order.
        launches_after: what the same calls launch of the candidate.
    """
    before, after = of(original, launches_before), of(candidate, launches_after)
    mine, theirs = ([(p.name, p.constexpr) for p in k.parameters] for k in (original, candidate))
    if mine != theirs:
        return f"the candidate's kernel takes ({_listed(theirs)}), not ({_listed(mine)})"
    if not before:
        return "the recorded calls do not launch the original"
    if len(before) != len(after):
        return f"the recorded calls launch the candidate's kernel {len(after)} times, not {len(before)} times"
    if candidate.atomics and not original.atomics:
        return "the candidate's kernel adds to what it finds in memory, where the original does not"
    tuned = {*original.heuristics, *(p.name for p in original.parameters if p.role in ("tile", "option"))}
    for one, other in zip(before, after, strict=True):
        if one.grid != other.grid:
            return f"the candidate's grid is {list(other.grid)}, not {list(one.grid)}"
        for (name, mine_), (_, theirs_) in zip(one.arguments, other.arguments, strict=False):
            if _described(mine_) != _described(theirs_):
                return f"the candidate's kernel gets another {name}"
        for (name, mine_), (_, theirs_) in zip(one.constexprs, other.constexprs, strict=False):
            if name not in tuned and mine_ != theirs_:
                return f"the candidate changes {name}, which says what is computed"
        if has_nested_tensors(one):
            return "the kernel takes tensors inside of other arguments (a descriptor, a tuple)"
    return ""


def distinct(
    before: Sequence[RecordedLaunch], after: Sequence[RecordedLaunch]
) -> list[tuple[RecordedLaunch, RecordedLaunch]]:
    """Return the first launches of each kind, as pairs."""
    kinds: dict[object, tuple[RecordedLaunch, RecordedLaunch]] = {}
    for one, other in zip(before, after, strict=True):
        kinds.setdefault(tuple((name, _kind(value)) for name, value in one.arguments), (one, other))
    return list(kinds.values())[:MOST_LAUNCHES]


def _kind(value: Value) -> object:
    if isinstance(value, Tensor):
        return value.dtype, tuple(n > 1 for n in value.shape), tuple(s > 1 for s in value.strides)
    return type(value.value).__name__ if isinstance(value, Scalar) else value


def _described(value: Value) -> object:
    if isinstance(value, Tensor):
        return value.shape, value.strides, value.dtype
    return value


def of(kernel: Kernel, launches: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """Return the launches of a kernel."""
    return [one for one in launches if one.kernel == kernel.name]


def _listed(parameters: Sequence[tuple[str, bool]]) -> str:
    return ", ".join(f"{name}: constexpr" if constexpr else name for name, constexpr in parameters)
