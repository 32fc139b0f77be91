"""The extents of a draft: which are equal, what each is called, and how large it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from tritonforge.domain.kernel import HostFunction, Kernel
from tritonforge.workload.drafting.evidence import Extent, Reading
from tritonforge.workload.drafting.guesses import Guess, size_guess
from tritonforge.workload.specs.dtypes import SHORT, dtype_name, item_bytes

MEMORY = 1 << 30
"""Bytes that the tensors of a draft take at most."""

_ELEMENTWISE = 1 << 24
_BY_RANK: Mapping[int, tuple[int, ...]] = {
    1: (4096,), 2: (4096, 4096), 3: (4, 1024, 1024), 4: (4, 16, 1024, 64), 5: (2, 4, 16, 64, 64),
}  # fmt: skip
_LETTERS = ("M", "N", "K", "P", "Q", "R", "S", "U", "W", "X1", "X2", "X3", "X4")
_SHORTEST = {full: short for short, full in reversed(SHORT.items())}


@dataclass
class Shaped:
    """A tensor parameter on its way into a spec."""

    name: str
    rank: int
    dtype: str
    guess: Guess
    literal: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fixed:
    """Names that become constants of the kernel, and those that its loops are unrolled over, with the size to take."""

    constants: frozenset[str]
    unrolled: Mapping[str, int]

    @classmethod
    def of(cls, kernel: Kernel, host: HostFunction) -> Fixed:
        """Read them off the launches that `host` makes."""
        # The text at the launch may be resolved to `x.shape`; the parameter's own name is usually the local's too.
        passed = [
            (name, word)
            for site in kernel.launch_sites
            if site.host == host.name
            for name, value in site.constexprs
            for word in (name, value.text)
        ]
        loops = {loop.stop: loop.step for loop in kernel.loops if loop.kind == "static_range"}
        unrolled = {word: 4 if loops[name] in ("1", None) else 256 for name, word in passed if name in loops}
        return cls(frozenset(word for _, word in passed), unrolled)


class Sizes:
    """One number and one name for each set of extents that are equal."""

    def __init__(self, shaped: list[Shaped], reading: Reading, taken: set[str], compiled: Fixed) -> None:
        self.shaped, self.reading, self.taken, self.compiled = shaped, reading, taken, compiled
        self.ranks = {one.name: one.rank for one in shaped}
        self.parent: dict[Extent, Extent] = {(o.name, axis): (o.name, axis) for o in shaped for axis in range(o.rank)}
        self.anchored: set[Extent] = set()
        self._unite()
        self.values: dict[Extent, int] = {}
        self._number()
        self.parameters = self._numbers_given()
        self.labels = self._name()

    def _place(self, extent: Extent) -> Extent | None:
        name, axis = extent
        rank = self.ranks.get(name)
        if rank is None or not -rank <= axis < rank:
            return None
        return name, axis % rank

    def _root(self, extent: Extent) -> Extent:
        while self.parent[extent] != extent:
            extent = self.parent[extent]
        return extent

    def _join(self, one: Extent | None, other: Extent | None) -> None:
        if one is not None and other is not None and self._root(one) != self._root(other):
            # The main tensor's axes come first, and give their names.
            order = list(self.parent)
            first, second = sorted((self._root(one), self._root(other)), key=order.index)
            self.parent[second] = first

    def _unite(self) -> None:
        main = self.shaped[0]
        for one, other in self.reading.equal:
            first, second = self._place(one), self._place(other)
            self._join(first, second)
            self.anchored |= {e for e in (first, second) if e is not None}
        for extent in (*self.reading.names, *self.reading.fixed, *self.reading.sizes.values()):
            found = self._place(extent)
            if found is not None:
                self.anchored.add(found)
        for left, right in self.reading.alike:
            if self.ranks.get(left) == self.ranks.get(right) and left in self.ranks:
                for axis in range(self.ranks[left]):
                    self._join((left, axis), (right, axis))
                    self.anchored |= {(left, axis), (right, axis)}
        named: dict[str, Extent] = {}
        for extent, name in self.reading.names.items():
            found = self._place(extent)
            if found is not None:
                self._join(found, named.setdefault(name, found))
        for shaped in self.shaped[1:]:
            for axis in range(shaped.rank):
                if (shaped.name, axis) not in self.anchored:
                    self._follow(shaped, axis, main)

    def _follow(self, one: Shaped, axis: int, main: Shaped) -> None:
        """Let an extent that nothing speaks of be the main tensor's."""
        here = (one.name, axis)
        if one.guess.shape == "offsets" and one.rank == 1:
            one.literal[axis] = "9"
        elif one.guess.shape == "rows" and one.rank < main.rank:
            self._join(here, (main.name, axis))
        elif one.guess.shape == "last":
            self._follow_weight(one, axis, main)
        elif one.rank <= main.rank:
            behind = one.rank < main.rank and one.guess.shape != "rows"
            self._join(here, (main.name, axis + (main.rank - one.rank) * behind))

    def _follow_weight(self, one: Shaped, axis: int, main: Shaped) -> None:
        """Let a weight be [out, in], as PyTorch's linear layers have it, and its siblings have the same shape."""
        sibling = next(
            (s for s in self.shaped if s.name != one.name and s.rank == one.rank and s.guess.shape == "last"), None
        )
        if axis == one.rank - 1:
            self._join((one.name, axis), (main.name, main.rank - 1))
        elif sibling is not None:
            self._join((one.name, axis), (sibling.name, axis))
        elif "w" not in one.name.lower() and one.rank <= main.rank:
            self._join((one.name, axis), (main.name, axis))

    def _members(self) -> dict[Extent, list[Extent]]:
        found: dict[Extent, list[Extent]] = {}
        for extent in self.parent:
            found.setdefault(self._root(extent), []).append(extent)
        return found

    def _names_of(self, members: list[Extent]) -> list[str]:
        given = [name for name, extent in self.reading.sizes.items() if self._place(extent) in members]
        return [*given, *(name for extent, name in self.reading.names.items() if self._place(extent) in members)]

    def _number(self) -> None:
        only_flat = all(one.rank <= 1 for one in self.shaped)
        fixed = {self._place(extent): size for extent, size in self.reading.fixed.items()}
        for root, members in self._members().items():
            size = next((fixed[m] for m in members if m in fixed), None)
            rank = self.ranks[root[0]]
            names = self._names_of(members)
            if size is None:
                size = next((self.compiled.unrolled[name] for name in names if name in self.compiled.unrolled), None)
            for name in names if size is None else ():
                # One letter says little about a matrix: M, N, K, D, B.
                size = size_guess(name) if rank > 2 or len(name) > 1 or name == "V" else None
                if size is not None:
                    break
            if size is None and rank > 2 and self.compiled.constants & set(names):
                size = 64 if root[1] == rank - 1 else 4  # one that is compiled in often sizes a block
            if size is None:
                size = _ELEMENTWISE if only_flat else _BY_RANK.get(rank, (8,) * rank)[root[1]]
            self.values[root] = size
        for _ in range(64):
            if self._bytes() <= MEMORY:
                break
            largest = max(self.values, key=lambda r: self.values[r])
            self.values[largest] = max(self.values[largest] // 2, 1)

    def _bytes(self) -> int:
        total = 0
        for one in self.shaped:
            elements = 1
            for axis in range(one.rank):
                elements *= self.values[self._root((one.name, axis))]
            total += elements * item_bytes(one.dtype)
        return total

    def _numbers_given(self) -> dict[str, int]:
        found = {}
        for name, extent in self.reading.sizes.items():
            place = self._place(extent)
            if place is not None and name not in self.ranks:
                found[name] = self.values[self._root(place)]
        return found

    def _name(self) -> dict[Extent, str]:
        labels: dict[Extent, str] = {}
        own: dict[Extent, str] = {}
        for name, extent in self.reading.sizes.items():
            place = self._place(extent)
            if place is not None and name in self.parameters:
                own.setdefault(self._root(place), name)
        used = set(self.taken)
        for root, members in self._members().items():
            if root in own:
                labels[root] = own[root]
                continue
            chosen = next((n for n in self._names_of(members) if n not in used and dtype_name(n) is None), None)
            if chosen is None:
                chosen = next((letter for letter in _LETTERS if letter not in used), None)
            if chosen is None:
                chosen = next(f"size_{i}" for i in itertools.count() if f"size_{i}" not in used)
            used.add(chosen)
            labels[root] = chosen
        return labels

    def tensor(self, one: Shaped) -> str:
        """Return a tensor as a spec writes it."""
        extents = [self._extent(one, axis) for axis in range(one.rank)]
        main = self.shaped[0]
        first = self.labels[self._root((main.name, 0))]
        last = self.labels[self._root((main.name, main.rank - 1))]
        recipe = one.guess.recipe.format(rows=first, last=last)
        if dtype_name(one.guess.dtype) != one.dtype:
            recipe = ""  # the name suggests one thing, the code says another
        return f"{_SHORTEST.get(one.dtype, one.dtype)}[{', '.join(extents)}]{recipe}"

    def _extent(self, one: Shaped, axis: int) -> str:
        return one.literal.get(axis) or self.labels[self._root((one.name, axis))]

    def free(self) -> list[tuple[str, int]]:
        """Return the sizes that are no parameters and are read, with their numbers."""
        written = " ".join(self.tensor(one) for one in self.shaped)
        words = set("".join(c if c.isalnum() or c == "_" else " " for c in written).split())
        given = set(self.parameters)
        return [
            (label, self.values[root]) for root, label in self.labels.items() if label in words and label not in given
        ]
