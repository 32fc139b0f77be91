"""What the compiler's first IR says of a launch that bears on right or wrong: how far it reaches, in which formats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extreme:
    """How far the accesses of one line go through one pointer, in elements from where the parameter points.

    `lowest` and `highest` are of programs at the corners of the grid, in the first and last iterations of loops, and
    really reached there. `masked` tells that there is a mask. `kind` is `load`, `store` or `atomic`. `passed` is the
    largest value that a 32-bit operation on the way to the address would have to hold where that is more than it can,
    else 0; `passed_line` is where it stands. `widest` is the largest that a 32-bit operation on the way holds.
    """

    line: int
    kind: str
    pointer: str
    masked: bool
    lowest: int
    highest: int
    program: tuple[int, int, int]
    passed: int = 0
    passed_line: int = 0
    widest: int = 0


@dataclass(frozen=True)
class DotFormat:
    """One dot: types of its operands and result as the IR names them (`f16`, `f32`), and `precision` (`tf32`, `ieee`).

    `sources` are the parameters whose elements, loaded as 32-bit floats, are operands without any arithmetic in
    between; `rounded` tells that an operand was computed, so that it may hold more digits than the format keeps.
    `contraction`: how many products each element of the result sums up.
    """

    line: int
    operand: str
    result: str
    precision: str
    contraction: int
    sources: tuple[str, ...] = ()
    rounded: bool = False
    rows: int = 0
    """Rows of the result."""
    chained: bool = False
    """Whether it adds to what another dot of the same iteration has added to a loop's accumulator."""
    transposed: bool = False
    """Whether an operand is the result of a dot, transposed."""


@dataclass(frozen=True)
class SumFormat:
    """A sum over `extent` elements in a floating type of 16 bits or fewer: by a reduction, else (`loop`) by a loop."""

    line: int
    element: str
    extent: int
    loop: bool = False


@dataclass(frozen=True)
class Semantics:
    """The extremes and formats of one launch."""

    extremes: tuple[Extreme, ...] = ()
    dots: tuple[DotFormat, ...] = ()
    sums: tuple[SumFormat, ...] = ()
