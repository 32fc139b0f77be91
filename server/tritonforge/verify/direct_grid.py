"""How a grid follows from the sizes and tiles of a launch, so that other sizes get the grid that their host would give.

What the source of the launch says comes first, where it can be followed and gives the recorded numbers. Otherwise it is
what explains the numbers of every recorded launch: a size, a size over a tile, products of two of those.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel, LaunchSite
from tritonforge.domain.launch import RecordedLaunch, Scalar, tensors_of

Names = Mapping[str, int]

FEW_ROWS = 3
"""Programs along an axis whose length no argument tells the kernel, where it is as long as a tensor is."""


@dataclass(frozen=True)
class Axis:
    """One axis of a grid: its extent for given values of the parameters, and which of them it reads.

    `grows` names the size that alone makes it longer, if one does. `rows`: a length that the kernel is not told is in
    it, of that many recorded, of which `few` are enough. What nothing explains stays as recorded.
    """

    extent: Callable[[Names], int]
    reads: frozenset[str] = frozenset()
    grows: str = ""
    whole: bool = False
    """Whether the axis has a program for each unit of `grows`."""
    rows: int = 0
    few: int = 0
    ties: tuple[frozenset[str], ...] = ()
    """Sizes of which only one is followed, but the numbers do not say which: they must stay equal."""


def integers(launch: RecordedLaunch) -> dict[str, int]:
    """Return the integer arguments and constexprs of a launch, without flags."""
    named = (*launch.arguments, *launch.constexprs)
    return {name: v.value for name, v in named if isinstance(v, Scalar) and type(v.value) is int}


def axes_of(
    kernel: Kernel, launch: RecordedLaunch, evidence: Sequence[RecordedLaunch], sizes: Sequence[str]
) -> tuple[Axis, Axis, Axis]:
    """Explain the three axes of the grid of `launch`.

    Args:
        kernel: the kernel as its source shows it, with its launch sites.
        launch: the launch whose grid is explained.
        evidence: launches of the same kernel, which an explanation must fit too where their arguments let it.
        sizes: the arguments that may be sizes: integers that are no strides.
    """
    written = _written(kernel, launch)
    same = [one for one in evidence if one.call_site == launch.call_site] or [launch]
    found: list[Axis] = []
    for index in range(3):
        own = written[index] if written else None
        told = own is not None and not own.rows and all(_gives(own, one, index) for one in (launch, *same))
        # What explains several extents is no coincidence.
        several = len({one.grid[index] for one in (launch, *same)}) > 1
        if own is not None and (told or (own.rows in _lengths(launch) and not several)):
            found.append(own)
            continue
        taken = frozenset().union(*(axis.reads for axis in found))
        explained = _explained(launch, same, index, [s for s in sizes if s not in taken])
        found.append(explained or (own if own is not None and own.rows else _kept(launch, index)))
    return found[0], found[1], found[2]


def read_by_grid(kernel: Kernel, launch: RecordedLaunch) -> tuple[frozenset[str], frozenset[str]]:
    """Return the parameters that the source of the launch's grid names, and those of them that are a whole axis."""
    axes = [axis for axis in _written(kernel, launch) or () if axis is not None]
    return frozenset().union(*(a.reads for a in axes)), frozenset(a.grows for a in axes if a.whole)


def _gives(axis: Axis, launch: RecordedLaunch, index: int) -> bool:
    try:
        return axis.extent(integers(launch)) == launch.grid[index]
    except (KeyError, ZeroDivisionError, ValueError):
        return False


def _explained(
    launch: RecordedLaunch, evidence: Sequence[RecordedLaunch], index: int, sizes: Sequence[str]
) -> Axis | None:
    if all(one.grid[index] == 1 for one in (launch, *evidence)):
        return Axis(lambda _names: 1)
    for rank in _ranks(launch, sizes):
        fitting = [axis for axis in rank if all(_gives(axis, one, index) for one in (launch, *evidence))]
        if fitting:
            alike = frozenset(axis.reads & frozenset(sizes) for axis in fitting)
            ties = (frozenset().union(*alike),) if len(alike) > 1 else ()
            first = fitting[0]
            return Axis(first.extent, first.reads, first.grows, first.whole, ties=ties)
    return None


def _kept(launch: RecordedLaunch, index: int) -> Axis:
    """Return an axis that nothing explains: as recorded, or shorter where it is as long as a tensor."""
    recorded = launch.grid[index]
    if recorded not in _lengths(launch):
        return Axis(lambda _names: recorded)
    few = min(recorded, FEW_ROWS)
    return Axis(lambda _names: few, rows=recorded, few=few)


def _lengths(launch: RecordedLaunch) -> frozenset[int]:
    """Return the extents of the launch's tensors, and how many rows they have."""
    shapes = [t.shape for _, value in launch.arguments for t in tensors_of(value)]
    return frozenset(n for shape in shapes for n in (*shape, *(math.prod(shape[:i]) for i in range(2, len(shape) + 1))))


def _ranks(launch: RecordedLaunch, sizes: Sequence[str]) -> Iterator[list[Axis]]:
    """Yield explanations, the simplest first; those of one rank are equally good."""
    values = integers(launch)
    own = [name for name in sizes if values.get(name, 0) > 1]
    tiles = [name for name, v in launch.constexprs if isinstance(v, Scalar) and type(v.value) is int and v.value > 1]
    yield [Axis(_value(name), frozenset((name,)), name, whole=True) for name in own]
    by_name = [(size, tile) for size in own for tile in tiles if _belong(size, tile)]
    quotients = [(size, tile) for size in own for tile in tiles]
    # How many rows a program walks may be an argument like any other.
    walked = [(size, other) for size in own for other in own if values[other] < values[size]]
    for pairs in (by_name, quotients, walked):
        yield [Axis(_quotient(size, tile), frozenset((size, tile)), size) for size, tile in pairs]
    for pairs in (by_name, quotients):
        factors: list[tuple[Callable[[Names], int], frozenset[str]]] = [
            *((_quotient(size, tile), frozenset((size, tile))) for size, tile in pairs),
            *((_value(name), frozenset((name,))) for name in own),
        ]
        yield [
            Axis(_product(a, b), reads_a | reads_b)
            for (a, reads_a), (b, reads_b) in itertools.combinations(factors, 2)
            if not (reads_a & reads_b & frozenset(own))
        ]


def _belong(size: str, tile: str) -> bool:
    """Tell whether a tile is named after a size, as `BLOCK_M` after `M` or `BLOCK_N` after `n_cols`."""
    last = tile.lower().rpartition("_")[2]
    words = size.lower().split("_")
    return bool(last) and (last in words or size.lower().removeprefix("n_").startswith(last))


def _value(name: str) -> Callable[[Names], int]:
    return lambda names: names[name]


def _quotient(size: str, tile: str) -> Callable[[Names], int]:
    return lambda names: -(-names[size] // names[tile])


def _product(a: Callable[[Names], int], b: Callable[[Names], int]) -> Callable[[Names], int]:
    return lambda names: a(names) * b(names)


def site_of(kernel: Kernel, launch: RecordedLaunch) -> LaunchSite | None:
    """Return the place in the source that made a launch."""
    sites = [s for s in kernel.launch_sites if (s.host or "") == launch.call_site.function]
    on_line = [s for s in sites if s.range.start.line <= launch.call_site.line <= s.range.end.line]
    return next(iter(on_line or sites), None)


def _written(kernel: Kernel, launch: RecordedLaunch) -> tuple[Axis | None, ...] | None:
    """Read the axes off the source of the launch's site; None for an axis, or for all, that cannot be followed."""
    site = site_of(kernel, launch)
    if site is None:
        return None
    try:
        body = ast.parse(site.grid.strip(), mode="eval").body
    except SyntaxError:
        return None
    if isinstance(body, ast.Lambda):
        body = body.body
    items = body.elts if isinstance(body, (ast.Tuple, ast.List)) else [body]
    one: list[ast.expr] = [ast.Constant(1)] * 3
    return tuple(
        _Reading(site, kernel).axis(item, launch, extent)
        for item, extent in zip([*items, *one][:3], launch.grid, strict=True)
    )


class _Reading:
    """Follows one axis of a grid in the source of a launch site."""

    def __init__(self, site: LaunchSite, kernel: Kernel) -> None:
        # What is passed in a star goes by the parameters' own names, if by any; the recorded numbers tell.
        self._named = {p.name: p.name for p in kernel.parameters}
        self._named.update({_plain(text): name for name, text in site.arguments})
        self._named.update({_plain(v.text): n for n, v in site.constexprs if not v.text.lstrip("-").isdigit()})
        self._constexprs = {p.name for p in kernel.parameters if p.constexpr}
        self._reads: set[str] = set()
        self._untold = ""

    def axis(self, node: ast.expr, launch: RecordedLaunch, recorded: int) -> Axis | None:
        """Return the axis, None when the source does not say enough.

        One name that is no argument of the kernel (a batch) is found from the number of programs.
        """
        try:
            extent = self._build(node)
        except KeyError:
            return None
        own = [name for name in self._reads if name not in self._constexprs]
        grows = own[0] if len(own) == 1 else ""
        reads, whole = frozenset(self._reads), ast.unparse(node) in self._named
        if not self._untold:
            return Axis(extent, reads, grows, whole)
        try:
            rows = next((n for n in range(1, recorded + 1) if extent({**integers(launch), "": n}) == recorded), None)
        except (KeyError, ZeroDivisionError):
            return None
        if rows is None:
            return None
        few = min(rows, 1 if self._reads else FEW_ROWS)
        return Axis(lambda names: extent({**names, "": few}), reads, grows, rows=rows, few=few)

    def _build(self, at: ast.expr) -> Callable[[Names], int]:
        text = ast.unparse(at)
        if isinstance(at, ast.Constant) and type(at.value) is int:
            number = at.value
            return lambda _names: number
        if isinstance(at, ast.Subscript) and isinstance(at.slice, ast.Constant) and at.slice.value in self._constexprs:
            return self._read(str(at.slice.value))
        if text in self._named:
            return self._read(self._named[text])
        if isinstance(at, ast.BinOp) and type(at.op) in _OPERATORS:
            left, right, apply = self._build(at.left), self._build(at.right), _OPERATORS[type(at.op)]
            return lambda names: apply(left(names), right(names))
        if isinstance(at, ast.Call) and not at.keywords:
            function = _FUNCTIONS.get(ast.unparse(at.func).rpartition(".")[2])
            if function is not None:
                given = [self._build(a) for a in at.args]
                return lambda names: function(*(g(names) for g in given))
        if self._untold not in ("", text) or not (isinstance(at, _PLACES) or text.endswith((".numel()", ".size(0)"))):
            raise KeyError(text)
        self._untold = text
        return _value("")

    def _read(self, name: str) -> Callable[[Names], int]:
        self._reads.add(name)
        return _value(name)


def _plain(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except SyntaxError:
        return text


_PLACES = (ast.Name, ast.Attribute, ast.Subscript)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "next_power_of_2": lambda n: 1 << max(n - 1, 0).bit_length(),
}
