"""Tiles of two axes that a loop loads: where they begin, how far they go, and what has to be a multiple of 16 bytes.

`x_ptr + rows[:, None] * stride + cols[None, :]`, where rows and columns are runs (`first + tl.arange(0, BLOCK)`), and a
mask that keeps them below a bound each, is a tile of the matrix of that many rows and columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.kernel_text import KernelText, code
from tritonforge.rewrite.structural.loops import bare
from tritonforge.rewrite.structural.masked_loops import terms
from tritonforge.rewrite.structural.moving_pointers import Moving, moving
from tritonforge.rewrite.structural.standing import OUTSIDE, Place, Standing, sum_of

_TAKEN = frozenset({"pointer", "mask", "other"})
"""What a load may be told."""

Product = tuple[str, ...]
"""Parameters and numbers, as text, whose product divides something."""


@dataclass(frozen=True)
class Axis:
    """One axis of a tile: elements `first` to `first + extent` of those below `bound` (empty where nothing says so).

    `stride` as text, empty for 1; `along`: the axis of the tile as the kernel loads it.
    """

    along: int
    first: str
    extent: str
    stride: str
    bound: str = ""


@dataclass(frozen=True)
class Tile:
    """What a load reads: a tile of the matrix at `base`, whose elements of a row (`columns`) lie side by side.

    `pointer` is the parameter that `base` is made of. `multiples` are what has to be a multiple of 16 elements, `ones`
    the parameters that have to be 1.
    """

    base: str
    pointer: str
    rows: Axis
    columns: Axis
    multiples: tuple[Product, ...]
    ones: tuple[str, ...]

    @property
    def transposed(self) -> bool:
        """Tell whether elements that lie side by side are a column of the tile as the kernel loads it."""
        return self.columns.along == 0

    @property
    def place(self) -> tuple[str, ...]:
        """What tiles of one matrix have in common, but for its bounds."""
        return self.base, self.rows.stride, self.rows.extent, self.columns.extent


@dataclass(frozen=True)
class _Run:
    """Indices along one axis: `first` are its terms with where each stands, `factors` what the run is multiplied by."""

    along: int
    first: tuple[tuple[cst.BaseExpression, Place], ...]
    extent: str
    factors: tuple[tuple[cst.BaseExpression, Place], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What tells it from other runs along its axis."""
        return (*sorted(bare(code(one)) for one, _ in self.first), self.extent)


class TileReader:
    """Reads one load of a kernel.

    Args:
        standing: the statement that loads.
        flow: shapes of the kernel's expressions.
    """

    def __init__(self, standing: Standing, flow: Flow) -> None:
        self.standing, self.flow = standing, flow
        self.text: KernelText = standing.text
        self.tl = self.text.tl

    def tile(self, load: cst.Call) -> Tile:
        """Return what `load` reads.

        Raises:
            Refused: it is no tile of a matrix, as far as the kernel's text shows.
        """
        said = {a.keyword.value for a in load.args if a.keyword is not None}
        if said - _TAKEN or len([a for a in load.args if a.keyword is None]) > len(_TAKEN):
            raise Refused(f"{code(load)} says more than a load through a descriptor can")
        other = value_of(load, "load", "other")
        if other is not None and not _is_zero(other):
            raise Refused(f"{code(load)} does not read zeros beyond its mask")
        pointer = argument(load, "load", "pointer")
        assert pointer is not None
        base: list[tuple[cst.BaseExpression, Place]] = []
        runs: dict[int, _Run] = {}
        address, where = pointer.value, self.standing.here
        moves = moving(self.standing, address.value) if isinstance(address, cst.Name) else None
        if moves is not None:
            address, where = moves.value, moves.place
        for node, at in self.flat(address, where, 2):
            rank = self.rank(node)
            if rank == 0:
                base.append((node, at))
                continue
            run = self.run(node, at)
            if run.along in runs:
                raise Refused(f"{code(pointer.value)} has two indices along an axis")
            runs[run.along] = run
        if sorted(runs) != [0, 1]:
            raise Refused(f"{code(pointer.value)} is no tile of rows and columns")
        if moves is not None:
            self.move(runs, moves)
        bounds = self.bounds(load, runs)
        for node, at in base:
            if not self.standing.steady(node, at):
                raise Refused(f"{code(node)}, where a matrix begins, is another one in each round")
        name, multiples = self.base(base)
        columns, ones = self.columns(runs)
        rows = runs[1 - columns.along]
        stride = " * ".join(code(one) for one, _ in rows.factors)
        if not all(self.standing.steady(*one) for one in rows.factors):
            raise Refused(f"{stride}, how far rows are apart, is another one in each round")
        multiples.append(self.product(rows.factors))
        return Tile(
            " + ".join(code(node) for node, _ in base),
            name,
            Axis(rows.along, self.first(rows), rows.extent, stride, bounds.get(rows.along, "")),
            Axis(columns.along, self.first(columns), columns.extent, "", bounds.get(columns.along, "")),
            tuple(dict.fromkeys(multiples)),
            ones,
        )

    # Indices.

    def move(self, runs: dict[int, _Run], moves: Moving) -> None:
        """Let the run that a pointer moves along begin where it is in a round.

        Raises:
            Refused: it moves along none of them.
        """
        # The more of the way is a stride, the surer it is whose.
        for along in sorted(runs, key=lambda axis: -len(runs[axis].factors)):
            index = moves.along([one for one, _ in runs[along].factors])
            if index is not None:
                first = ((index, self.standing.here), *runs[along].first)
                runs[along] = dataclasses.replace(runs[along], first=first)
                return
        raise Refused(f"{' * '.join(code(one) for one in moves.by)} elements are no step along an axis of a tile")

    def rank(self, node: cst.BaseExpression) -> int:
        """Return how many axes an expression has.

        Raises:
            Refused: that is not known.
        """
        shape = self.flow.of(node).shape
        if shape is None:
            raise Refused(f"the shape of {code(node)} is not known")
        return len(shape)

    def flat(self, node: cst.BaseExpression, at: Place, rank: int) -> Iterator[tuple[cst.BaseExpression, Place]]:
        """Yield the terms of a sum, those of variables with `rank` axes too, and where each stands."""
        for one in sum_of(node):
            if self.rank(one) == rank:
                inner, there = self.standing.opened(one, at)
                if inner is not one:
                    yield from self.flat(inner, there, rank)
                    continue
            yield one, at

    def run(self, node: cst.BaseExpression, at: Place) -> _Run:
        """Return what an index with two axes, one of which is spread, or with one axis, runs over.

        Raises:
            Refused: it is no run.
        """
        node, at = self.standing.opened(node, at)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            many = [one for one in (node.left, node.right) if self.rank(one)]
            if len(many) == 1:
                run = self.run(many[0], at)
                factor = node.right if many[0] is node.left else node.left
                return dataclasses.replace(run, factors=(*run.factors, (factor, at)))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            many = [one for one in sum_of(node) if self.rank(one)]
            moved = self.run(many[0], at) if len(many) == 1 else None
            if moved is not None and not moved.factors:
                by = tuple((one, at) for one in sum_of(node) if one is not many[0])
                return dataclasses.replace(moved, first=(*by, *moved.first))
        along = _spread(node)
        if along is not None and isinstance(node, cst.Subscript) and self.rank(node.value) == 1:
            return dataclasses.replace(self.run(node.value, at), along=along)
        if isinstance(node, cst.Call) and name_of(node, self.tl) == "arange":
            shape = self.flow.of(node).shape
            if shape is not None:
                return _Run(0, (), shape[0])
        raise Refused(f"{code(node)} is no run of indices")

    def first(self, run: _Run) -> str:
        """Return where a run begins, as a number of 32 bits, which is what a descriptor takes."""
        if not run.first:
            return "0"
        words = " + ".join(code(one) for one, _ in run.first)
        if any(self.standing.is_wide(*one) for one in run.first):
            return f"{words if words.isidentifier() else f'({words})'}.to({self.tl}.int32)"
        return words

    def bounds(self, load: cst.Call, runs: dict[int, _Run]) -> dict[int, str]:
        """Return what the mask of a load keeps each axis below.

        Raises:
            Refused: it says anything else.
        """
        mask = value_of(load, "load", "mask")
        found: dict[int, str] = {}
        if mask is None or code(mask) == "None":
            return found
        for term, at, along in self.conditions(mask, self.standing.here):
            said = Refused(f"the mask {code(term)} says more than where rows or columns end")
            if not isinstance(term, cst.Comparison) or len(term.comparisons) != 1:
                raise said
            (comparison,) = term.comparisons
            bound, where = comparison.comparator, at
            rank = 2 if along is None else 1
            if not isinstance(comparison.operator, cst.LessThan) or self.rank(bound) or self.rank(term.left) != rank:
                raise said
            run = self.run(term.left, at)
            run = run if along is None else dataclasses.replace(run, along=along)
            if run.words != runs[run.along].words:
                # What is taken off the end might as well be added to the index.
                end, there = self.standing.opened(bound, at)
                if isinstance(end, cst.BinaryOperation) and isinstance(end.operator, cst.Subtract):
                    run = dataclasses.replace(run, first=((end.right, there), *run.first))
                    bound, where = end.left, there
            if run.factors or run.along in found or run.words != runs[run.along].words:
                raise said
            if not self.standing.steady(bound, where):
                raise Refused(f"{code(bound)}, where a matrix ends, is another one in each round")
            found[run.along] = code(bound)
        return found

    def conditions(
        self, node: cst.BaseExpression, at: Place, along: int | None = None
    ) -> Iterator[tuple[cst.BaseExpression, Place, int | None]]:
        """Yield the terms of a mask, those of variables too, where each stands, and its axis where it has one alone."""
        for term in terms(node):
            inner, there = self.standing.opened(term, at)
            axis = _spread(inner)
            if axis is not None and isinstance(inner, cst.Subscript) and self.rank(inner.value) == 1:
                yield from self.conditions(inner.value, there, axis)
            elif inner is not term:
                yield from self.conditions(inner, there, along)
            else:
                yield term, at, along

    # What has to be a multiple of 16 bytes.

    def columns(self, runs: dict[int, _Run]) -> tuple[_Run, tuple[str, ...]]:
        """Return the run whose elements lie side by side, and the parameters that have to be 1 for that."""
        plain = [run for run in runs.values() if not run.factors]
        if len(plain) == 1:
            return plain[0], ()
        for run in runs.values():
            factor, at = run.factors[0] if len(run.factors) == 1 else (None, OUTSIDE)
            if not isinstance(factor, cst.Name) or self.text.value(factor.value) != 1:
                continue
            if self.standing.find(factor.value, at).place == OUTSIDE:
                return run, (factor.value,)
        raise Refused("nothing shows which elements of a tile lie side by side")

    def base(self, base: list[tuple[cst.BaseExpression, Place]]) -> tuple[str, list[Product]]:
        """Return the parameter that a base is made of, and what divides the distances that are added to it."""
        pointers: list[str] = []
        multiples: list[Product] = []
        for node, at in base:
            for term, there in self.summands(node, at):
                known = self.text.kernel.parameter(term.value) if isinstance(term, cst.Name) else None
                if known is not None and known.role == "pointer":
                    pointers.append(known.name)
                else:
                    multiples.append(self.product(((term, there),)))
        if len(pointers) != 1:
            raise Refused(f"{' + '.join(code(one) for one, _ in base)} is made of no parameter")
        return pointers[0], multiples

    def summands(self, node: cst.BaseExpression, at: Place) -> Iterator[tuple[cst.BaseExpression, Place]]:
        """Yield what a base is the sum of, with what a pointer was moved on by."""
        for one in sum_of(node):
            moved = list(self.moved(one, at)) if isinstance(one, cst.Name) else []
            for value, there in moved:
                yield from self.summands(value, there)
            if moved:
                yield one, at
                continue
            inner, there = self.standing.opened(one, at)
            if inner is one:
                yield one, at
            else:
                yield from self.summands(inner, there)

    def moved(self, name: cst.Name, at: Place) -> Iterator[tuple[cst.BaseExpression, Place]]:
        """Yield `x` of each `pointer += x` for a pointer that is a parameter, in front of the loops."""
        known = self.text.kernel.parameter(name.value)
        if known is None or known.role != "pointer":
            return
        found = self.standing.find(name.value, at)
        if found.place == OUTSIDE:
            return
        depth, place = found.place
        line = self.standing.way[depth][0].body[place]
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(small, cst.AugAssign) or not isinstance(small.operator, cst.AddAssign):
            raise Refused(f"{name.value} is set to something that is not followed")
        yield small.value, found.place

    def product(self, factors: tuple[tuple[cst.BaseExpression, Place], ...]) -> Product:
        """Return the parameters and numbers among factors, with those of variables.

        Raises:
            Refused: there is none.
        """
        found: list[str] = []
        for node, at in factors:
            found += self.known_factors(node, at)
        if not found:
            words = " * ".join(code(one) for one, _ in factors) or "1"
            raise Refused(f"nothing shows that {words} elements are a multiple of 16 bytes")
        return tuple(found)

    def known_factors(self, node: cst.BaseExpression, at: Place) -> list[str]:
        """Return the parameters and numbers that an expression is the product of, beside other things."""
        node, at = self.standing.opened(node, at)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            return [*self.known_factors(node.left, at), *self.known_factors(node.right, at)]
        if isinstance(node, cst.Name):
            known = self.text.kernel.parameter(node.value)
            plain = known is not None and self.standing.find(node.value, at).place == OUTSIDE
            return [node.value] if plain else []
        return [code(node)] if isinstance(node, cst.Integer) else []


def _spread(node: cst.BaseExpression) -> int | None:
    """Return the axis of `x[:, None]` and `x[None, :]` that `x` lies along."""
    if not isinstance(node, cst.Subscript):
        return None
    return {":,None": 0, "None,:": 1}.get(bare(code(node)).rpartition("[")[2].removesuffix("]"))


def _is_zero(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Float):
        return float(node.value) == 0
    return integer(node) == 0
