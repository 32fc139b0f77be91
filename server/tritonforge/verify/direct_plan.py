"""Which sizes, strides and scalars a kernel is launched with directly: the recorded launch's, each varied on its own.

Sizes only fall, but for those that the grid follows: a kernel may have been promised that a row fits into its tile.
Strides keep every tensor free of overlaps, whichever of them belong to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import RecordedLaunch, Scalar, Tensor, tensors_of
from tritonforge.verify.direct_grid import Axis, axes_of, integers, read_by_grid, site_of
from tritonforge.verify.direct_strides import is_stride, owner_of
from tritonforge.verify.resizing import SMALLEST

Layout = Literal["rows", "tight", "elements", "transposed"]
Sizes = Mapping[str, int]
Changes = Mapping[str, int | float | bool]

LARGEST_TILE = 2048
MOST_PROGRAMS = 128
"""A launch with more programs takes too long to interpret: a program takes some ten milliseconds."""
UNTOLD = 24
"""So many rows has a tensor whose length the kernel is not told: a table that is looked up in."""
_MOST_SLACK = 1 << 18
PAD = 3
_LEAST_TILE = 16
_PARTS = 4
"""Of how many parts as long as a size an extent may be."""
_STEP = 6


@dataclass(frozen=True)
class Wish:
    """A launch to try: the values of those parameters that change, and its grid.

    `within`: whether the original may touch no more than in the base launch, as it does with a promise not kept.
    """

    about: str
    values: Changes
    grid: tuple[int, int, int]
    within: bool = False


Launch = tuple[Wish, Sizes, Mapping[int, int]]
"""A wish with its sizes and the largest new stride for each recorded one."""


@dataclass(frozen=True)
class Dimension:
    """An extent of a tensor with its stride; neighbours whose product is a size count as one."""

    extent: int
    stride: int


@dataclass(frozen=True)
class Plan:
    """What is known of one launch: which of its integers are sizes and strides, and how its grid follows from them."""

    launch: RecordedLaunch
    axes: tuple[Axis, Axis, Axis]
    sizes: tuple[str, ...]
    """From the smallest recorded value to the largest: that order is kept."""
    strides: tuple[str, ...]
    others: tuple[str, ...]
    factors: tuple[str, ...]
    flags: tuple[str, ...]
    tile: int
    dimensions: Mapping[str, tuple[Dimension, ...]]
    """Of each tensor argument, without extents of one and what is broadcast."""
    strided: tuple[str, ...]
    """The tensors whose strides the kernel is told."""

    @cached_property
    def recorded(self) -> Mapping[str, int]:
        """The integers of the launch by parameter."""
        return integers(self.launch)

    @cached_property
    def told(self) -> frozenset[int]:
        """The integers that the kernel is told, but for strides."""
        return frozenset(value for name, value in self.recorded.items() if name not in self.strides)

    @cached_property
    def whole(self) -> frozenset[str]:
        """The sizes that count programs."""
        return frozenset(axis.grows for axis in self.axes if axis.whole)

    @cached_property
    def walked(self) -> frozenset[str]:
        """The sizes of which each program walks a part, as long as an argument says: no tile of theirs has a tail."""
        return frozenset(
            axis.grows for axis in self.axes if axis.grows and axis.reads & {*self.sizes, *self.others} - {axis.grows}
        )

    def ragged(self) -> dict[str, int]:
        """Return small sizes, all different and off every boundary."""
        return self._tied({
            s: min(self.recorded[s], 3 + 2 * i if s in self.whole else 19 + _STEP * i)
            for i, s in enumerate(self.sizes)
        })  # fmt: skip

    def over(self) -> dict[str, int]:
        """Return sizes over a tile, with a tail."""
        long = self.tile + self.tile // 2 + 5
        small = self.ragged()
        return self._tied(
            {
                s: small[s] if s in self.whole | self.walked else min(self.recorded[s], long + 2 * i)
                for i, s in enumerate(self.sizes)
            }
        )

    def even(self) -> dict[str, int]:
        """Return sizes that are multiples of the tile where the recorded ones are."""
        small = self.ragged()

        def multiple(i: int, size: str) -> int:
            recorded = self.recorded[size]
            if size in self.whole or recorded % _LEAST_TILE:
                return small[size]
            return min(recorded, self.tile * (1 + i % 2))

        return self._tied({s: multiple(i, s) for i, s in enumerate(self.sizes)})

    def _tied(self, sizes: dict[str, int]) -> dict[str, int]:
        for tie in (tie for axis in self.axes for tie in axis.ties):
            together = [s for s in self.sizes if s in tie]
            sizes.update(dict.fromkeys(together, min((sizes[s] for s in together), default=0)))
        return sizes

    def grid(self, values: Changes) -> tuple[int, int, int]:
        """Return the grid for changed values."""
        names = {**self.recorded, **{n: v for n, v in values.items() if type(v) is int}}
        x, y, z = (axis.extent(names) for axis in self.axes)
        return x, y, z

    def extents(self, name: str, sizes: Sizes) -> list[tuple[tuple[int, ...], int]]:
        """Return what each dimension of a tensor may be long under `sizes`, with its recorded stride."""

        def options(extent: int) -> tuple[int, ...]:
            found = {sizes[s] for s in sizes if self.recorded[s] == extent}
            if not found and extent not in self.told:
                # A head of two halves, of which the kernel is told one.
                found = {
                    sizes[s] * (extent // self.recorded[s])
                    for s in sizes
                    if self.recorded[s] >= SMALLEST
                    and extent in range(0, _PARTS * self.recorded[s] + 1, self.recorded[s])
                }
            return tuple(sorted(found)) or (self.shortened(extent),)

        return [(options(d.extent), d.stride) for d in self.dimensions[name]]

    def layout(self, sizes: Sizes, how: Layout) -> tuple[dict[str, int], dict[int, int]]:
        """Lay memory out for `sizes`: the stride arguments, and the largest new stride for each recorded one.

        `rows` pads rows, alike in all tensors; the others differ from argument to argument. `tight`: no gaps;
        `elements`: gaps between elements too; `transposed`: the recorded order of dimensions reversed.
        """
        carried = {self.recorded[s] for s in self.strides} - {0}
        implicit = {d.stride for name in self.strided for d in self.dimensions[name]} - carried
        order = (
            [*sorted(implicit), *sorted(carried, reverse=True)] if how == "transposed" else sorted(implicit | carried)
        )
        top: dict[int, int] = {}
        out: dict[str, int] = {}
        for stride in order:
            needed = self._needed(stride, sizes, top)
            if stride not in carried:
                top[stride] = max(needed, 1)
                continue
            first = not any(s in carried for s in top)
            start = max(needed, 2 if first and how == "elements" else 1) + (PAD if needed > 1 and how != "tight" else 0)
            own = [s for s in self.strides if self.recorded[s] == stride]
            apart = 0 if how in ("rows", "tight") or (first and how == "transposed") else 1
            out.update({s: start + apart * i for i, s in enumerate(own)})
            top[stride] = max(out[s] for s in own)
        return out, top

    def shortened(self, extent: int) -> int:
        """Return what becomes of an extent that is no size: shorter where the kernel is not told it."""
        if extent in self.told:
            # Also where a grid has as many rows by chance: a row is no shorter than the kernel knows it to be.
            return extent
        rows = {axis.rows: axis.few for axis in self.axes if axis.rows}
        return rows.get(extent, extent if extent < SMALLEST else min(extent, UNTOLD))

    def _needed(self, stride: int, sizes: Sizes, top: Mapping[int, int]) -> int:
        needed = 1
        for name in self.strided:
            found = self.extents(name, sizes)
            if any(s == stride for _, s in found):
                inner = sum((max(n) - 1) * top[s] for n, s in found if s in top)
                needed = max(needed, 1 + inner)
        return needed

    def highs(self, name: str, sizes: Sizes, top: Mapping[int, int]) -> set[int]:
        """Return how many elements a tensor may span: for each way in which its extents may be the sizes.

        Its strides are those of the layout, or follow from the sizes alone.
        """
        dense = {math.prod(extents) for extents, _ in self._chosen(name, sizes)}
        return dense | self.spans(name, sizes, top)

    def spans(self, name: str, sizes: Sizes, top: Mapping[int, int]) -> set[int]:
        """Return how many elements a tensor may span with the strides of the layout; none where it has others."""
        if name not in self.strided:
            return set()
        return {
            1 + sum((n - 1) * top[s] for n, s in zip(extents, strides, strict=True))
            for extents, strides in self._chosen(name, sizes)
            if all(s in top for s in strides)
        }

    def _chosen(self, name: str, sizes: Sizes) -> Iterator[tuple[tuple[int, ...], list[int]]]:
        found = self.extents(name, sizes)
        for extents in itertools.islice(itertools.product(*(n for n, _ in found)), 64):
            yield extents, [stride for _, stride in found]

    def room(self, name: str, sizes: Sizes, top: Mapping[int, int]) -> int:
        """Return how many elements are enough for whatever the original touches."""
        longest = max([*top.values(), *sizes.values(), 1])
        return 2 * max(self.highs(name, sizes, top), default=1) + min(self.tile * longest, _MOST_SLACK) + 4096


def plan_of(kernel: Kernel, launch: RecordedLaunch, evidence: Sequence[RecordedLaunch], tile: int) -> Plan:
    """Find out which arguments of `launch` are sizes and strides.

    Args:
        kernel: the original, as its source shows it.
        launch: the launch to vary.
        evidence: all recorded launches of the kernel.
        tile: the largest tile of either kernel.
    """
    tensors = {name: value for name, value in launch.arguments if isinstance(value, Tensor)}
    extents = {n for t in tensors.values() for n in t.shape}
    spans = extents | {math.prod(t.shape[i:j]) for t in tensors.values() for i, j in _stretches(len(t.shape))}
    steps = {s for t in tensors.values() for s in t.strides}
    sizes, strides, others = [], [], []
    values = {name: v.value for name, v in launch.arguments if isinstance(v, Scalar) and type(v.value) is int}
    site = site_of(kernel, launch)
    texts = dict(site.arguments) if site else {}
    counted, whole = read_by_grid(kernel, launch)
    for name, value in values.items():
        if value in steps and name not in counted and is_stride(kernel, name, value, texts.get(name, "")):
            strides.append(name)
        elif (value in spans and value >= SMALLEST) or (name in whole and value > 1):
            sizes.append(name)
        else:
            others.append(name)
    owners = {s: owner_of(s, texts, tensors) for s in strides}
    known_owners = all(owners.values())
    given = [(name, v.value) for name, v in launch.arguments if isinstance(v, Scalar)]
    meaning = {p.name for p in kernel.parameters if p.role == "meaning" and p.name not in kernel.heuristics}
    chosen = [(name, v.value) for name, v in launch.constexprs if isinstance(v, Scalar) and name in meaning]
    sizes.sort(key=lambda name: values[name])
    known = {values[s] for s in sizes}
    return Plan(
        launch=launch,
        axes=axes_of(kernel, launch, evidence, [*sizes, *others]),
        sizes=tuple(sizes),
        strides=tuple(strides),
        others=tuple(others),
        factors=tuple(name for name, v in given if type(v) is float and math.isfinite(v)),
        flags=tuple(name for name, v in (*given, *chosen) if type(v) is bool),
        tile=max(_LEAST_TILE, min(tile, LARGEST_TILE)),
        dimensions={name: _dimensions(t, known) for name, t in tensors.items()},
        strided=tuple(dict.fromkeys(owners.values())) if known_owners else tuple(tensors),
    )


def _stretches(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(i + 2, n + 1)]


def _dimensions(tensor: Tensor, sizes: set[int]) -> tuple[Dimension, ...]:
    found = [Dimension(n, s) for n, s in zip(tensor.shape, tensor.strides, strict=True) if n > 1 and s]
    stretches = sorted(_stretches(len(found)), key=lambda ij: ij[0] - ij[1])
    for i, j in stretches:
        part = found[i:j]
        mergeable = all(a.stride == b.stride * b.extent for a, b in itertools.pairwise(part))
        whole = math.prod(d.extent for d in part)
        if mergeable and whole in sizes and not all(d.extent in sizes for d in part):
            return (*found[:i], Dimension(whole, part[-1].stride), *found[j:])
    return tuple(found)


def has_nested_tensors(launch: RecordedLaunch) -> bool:
    """Tell whether an argument holds tensors inside: a descriptor, a tuple of pointers."""
    return any(not isinstance(v, Tensor) and tensors_of(v) for _, v in launch.arguments)
