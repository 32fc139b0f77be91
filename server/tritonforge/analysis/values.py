"""What the flow analysis knows of a value inside a kernel, and how values combine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

NONE: frozenset[str] = frozenset()
NO_LOADS: frozenset[int] = frozenset()
SOME_BLOCK = 99
"""The rank of a value that is certainly a block, of unknown dimensions."""


class Value(NamedTuple):
    """An abstract value.

    `rank`: 0 for a scalar, dimensions of a block, None when it may be either. `bare`: the parameter that it is.
    `bases`: parameters added up in it, leftmost first (what an address may be built on). `sizes`: constexpr parameters
    it is computed from. `factors`: parameters multiplied into it. `per`: sizes that something was divided by
    (`cdiv(K, BLOCK_K)`). `loads`: loads whose lanes it carries. `loops`: loops whose iterations change it. `axes`:
    program axes it comes from. `static`: known at compile time. `items`: parts of a tuple.
    """

    rank: int | None = 0
    bare: str | None = None
    bases: tuple[str, ...] = ()
    sizes: frozenset[str] = NONE
    factors: frozenset[str] = NONE
    per: frozenset[str] = NONE
    loads: frozenset[int] = NO_LOADS
    loops: frozenset[int] = NO_LOADS
    axes: frozenset[int] = NO_LOADS
    static: bool = False
    items: tuple[Value, ...] | None = None


SCALAR = Value()
STATIC = Value(static=True)
UNKNOWN = Value(rank=None)


def joined_rank(a: int | None, b: int | None) -> int | None:
    """Return the rank of two operands broadcast together."""
    if a is None or b is None:
        known = a if b is None else b
        return SOME_BLOCK if known else None
    return max(a, b)


def elementwise(values: Iterable[Value]) -> Value:
    """Combine operands of an operation that works lane by lane and gives no address."""
    rank: int | None = 0
    sizes, factors, per = NONE, NONE, NONE
    loads, loops, axes = NO_LOADS, NO_LOADS, NO_LOADS
    static = True
    for v in values:
        if v.items is not None:
            v = elementwise(v.items)  # noqa: PLW2901 - a tuple counts as its parts
        rank = v.rank if rank == 0 else joined_rank(rank, v.rank)
        sizes |= v.sizes
        factors |= v.factors
        per |= v.per
        loads |= v.loads
        loops |= v.loops
        axes |= v.axes
        static = static and v.static
    return Value(rank, None, (), sizes, factors, per, loads, loops, axes, static)


def merge(a: Value, b: Value) -> Value:
    """Combine the values that two paths of control flow leave in one name."""
    if a is b or a == b:
        return a
    items = None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(merge(x, y) for x, y in zip(a.items, b.items, strict=True))
    return Value(
        joined_rank(a.rank, b.rank),
        a.bare if a.bare == b.bare else None,
        tuple(dict.fromkeys(a.bases + b.bases)),
        a.sizes | b.sizes,
        a.factors | b.factors,
        a.per | b.per,
        a.loads | b.loads,
        a.loops | b.loops,
        a.axes | b.axes,
        a.static and b.static,
        items,
    )


def reduced_rank(rank: int | None, *, whole: bool, keep: bool) -> int | None:
    """Return the rank after a reduction over one axis, or over the `whole` block."""
    if keep or rank == 0:
        return rank
    if whole or rank == 1:
        return 0
    if rank is None or rank == SOME_BLOCK:
        return None
    return rank - 1
