"""How a block gets from one register layout to another: within lanes, within warps, or between warps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tritonforge.compilation.layouts import Layout, Vector
from tritonforge.domain.blocks import Way


def way_between(source: Layout | None, target: Layout | None) -> Way | None:
    """Return the shortest way between two layouts, or None when either is not known.

    `registers` when every lane already holds what it needs, `shuffle` when its warp does, else `shared`.
    Layouts are linear over xor, so the elements that one lane holds are a coset of the span of its register vectors,
    and those of one warp a coset of the span of register and lane vectors.
    """
    if source is None or target is None or len(source.lane) != len(target.lane) or len(source.warp) != len(target.warp):
        return None
    if _within(source.register, (*target.register, *_differences(source.lane, target.lane))) and _within(
        source.register, _differences(source.warp, target.warp)
    ):
        return "registers"
    held = (*source.register, *source.lane)
    if _within(held, (*target.register, *target.lane, *_differences(source.warp, target.warp))):
        return "shuffle"
    return "shared"


def _differences(a: Sequence[Vector], b: Sequence[Vector]) -> list[Vector]:
    return [tuple(x ^ y for x, y in zip(one, other, strict=True)) for one, other in zip(a, b, strict=True)]


def _within(space: Sequence[Vector], vectors: Iterable[Vector]) -> bool:
    """Tell whether all vectors lie in the span of `space` over the field of two elements."""
    basis: list[int] = []
    for vector in space:
        left = _reduced(_flat(vector), basis)
        if left:
            basis.append(left)
    return all(_reduced(_flat(vector), basis) == 0 for vector in vectors)


def _reduced(value: int, basis: Sequence[int]) -> int:
    for one in basis:
        value = min(value, value ^ one)
    return value


def _flat(vector: Vector) -> int:
    value = 0
    for part in vector:
        value = value << 24 | part
    return value
