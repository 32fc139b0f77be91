"""Register layouts of `ttgir`: which element of a block each lane of each warp holds, as Triton's linear layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Vector = tuple[int, ...]
_ALIAS = re.compile(r"^#(\w+) = (#.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"^#(\w+)$")
_HEAD = re.compile(r"^#(?:\w+\.)*(\w+)<")
_KINDS = {
    "nvidia_mma": "mma", "amd_mfma": "mfma", "amd_wmma": "wmma", "dot_op": "dot-operand",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Where the elements of a block lie.

    Bit i of a register, lane or warp number adds (xor) the i-th vector of its list to the element's position. A vector
    of zeros means that both values of the bit hold the same element.
    """

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]

    @property
    def replicas(self) -> int:
        """How many lanes of a program hold each element."""
        return 1 << sum(not any(vector) for vector in (*self.lane, *self.warp))


def read_aliases(text: str) -> dict[str, str]:
    """Return the attribute aliases of a module (`#blocked = #ttg.blocked<{…}>`), by name, with references resolved."""
    found = {m[1]: m[2].strip() for m in _ALIAS.finditer(text) if not m[2].startswith("#loc")}
    return {name: found.get(value[1:], value) for name, value in found.items()}


def resolved(encoding: str, aliases: Mapping[str, str]) -> str:
    """Return what an alias stands for, or the encoding itself."""
    reference = _REFERENCE.match(encoding.strip())
    return aliases.get(reference[1], "") if reference else encoding.strip()


def kind_of(encoding: str, aliases: Mapping[str, str]) -> str:
    """Return the kind of a layout as `Conversion.source` names it; empty where it has none."""
    text = resolved(encoding, aliases)
    head = _HEAD.match(text)
    if head is None:
        return ""
    if head[1] == "slice":
        return f"slice of {kind_of(_field(text, 'parent'), aliases)}"
    return _KINDS.get(head[1], head[1])


def read_layout(encoding: str, shape: Vector, aliases: Mapping[str, str]) -> Layout | None:
    """Return the register layout of a block of `shape`, or None for a kind that is not understood.

    The rules are those of `toLinearLayout` in Triton's `LinearLayoutConversions.cpp`.
    """
    text = resolved(encoding, aliases)
    head = _HEAD.match(text)
    if head is None or any(extent < 1 or extent & (extent - 1) for extent in shape):
        return None
    try:
        return _READERS[head[1]](text, shape, aliases)
    except (KeyError, IndexError, ValueError, TypeError):
        return None


def numbers(text: str, name: str) -> tuple[int, ...]:
    """Return the list of integers that an attribute has for `name`; raises `ValueError` where there is none."""
    found = re.search(rf"\b{name} = \[([\d, ]*)\]", text)
    if found is None:
        raise ValueError(name)
    return tuple(int(n) for n in found[1].split(",") if n.strip())


def number(text: str, name: str) -> int:
    """Return the integer that an attribute has for `name`; raises `ValueError` where there is none."""
    found = re.search(rf"\b{name} = (\d+)", text)
    if found is None:
        raise ValueError(name)
    return int(found[1])


class _Tile:
    """Grows a layout bit by bit: each input bit takes the next power of two of one dimension."""

    def __init__(self, rank: int) -> None:
        self.extent = [1] * rank
        self.bits: dict[str, list[Vector]] = {"register": [], "lane": [], "warp": []}

    def grow(self, of: str, dim: int, size: int) -> _Tile:
        step = 1
        while step < size:
            self.bits[of].append(tuple(self.extent[dim] if d == dim else 0 for d in range(len(self.extent))))
            self.extent[dim] *= 2
            step *= 2
        return self

    def repeat(self, of: str, size: int) -> _Tile:
        """Add bits whose both values hold the same element."""
        step = 1
        while step < size:
            self.bits[of].append((0,) * len(self.extent))
            step *= 2
        return self

    def over(self, shape: Vector, order: Vector) -> Layout:
        """Fit the tile to a block: what is beyond it repeats the element, what is missing lies in further registers."""
        for dim in order:
            self.grow("register", dim, -(-shape[dim] // self.extent[dim]))
        fitted = {
            of: tuple(
                tuple(0 if step >= shape[d] else step for d, step in enumerate(vector)) for vector in self.bits[of]
            )
            for of in self.bits
        }
        return Layout(fitted["register"], fitted["lane"], fitted["warp"])


def _blocked(text: str, shape: Vector, _: Mapping[str, str]) -> Layout:
    order = numbers(text, "order")
    tile = _Tile(len(shape))
    for of, name in (("register", "sizePerThread"), ("lane", "threadsPerWarp"), ("warp", "warpsPerCTA")):
        sizes = numbers(text, name)
        for dim in order:
            tile.grow(of, dim, sizes[dim])
    return tile.over(shape, order)


def _linear(text: str, shape: Vector, _: Mapping[str, str]) -> Layout:
    tile = _Tile(len(shape))
    for of in tile.bits:
        listed = re.search(rf"\b{of} = \[((?:\[[\d, ]*\](?:, )?)*)\]", text)
        if listed is None:
            raise ValueError(of)
        tile.bits[of] = [tuple(int(n) for n in one.split(",")) for one in re.findall(r"\[([\d, ]+)\]", listed[1])]
    for vector in (v for vectors in tile.bits.values() for v in vectors):
        tile.extent = [max(extent, step * 2) for extent, step in zip(tile.extent, vector, strict=True)]
    return tile.over(shape, tuple(reversed(range(len(shape)))))


def _slice(text: str, shape: Vector, aliases: Mapping[str, str]) -> Layout | None:
    dim = number(text, "dim")
    parent = read_layout(_field(text, "parent"), (*shape[:dim], 1, *shape[dim:]), aliases)
    if parent is None:
        return None

    def without(vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        return tuple((*vector[:dim], *vector[dim + 1 :]) for vector in vectors)

    registers = tuple(vector for vector in without(parent.register) if any(vector))
    return Layout(registers, without(parent.lane), without(parent.warp))


def _mma(text: str, shape: Vector, _: Mapping[str, str]) -> Layout | None:
    hopper = number(text, "versionMajor") == 3
    if number(text, "versionMajor") not in {2, 3} or len(shape) != 2:
        return None
    instruction, warps = numbers(text, "instrShape"), numbers(text, "warpsPerCTA")
    tile = _Tile(2).grow("register", 1, 2).grow("lane", 1, 4).grow("lane", 0, 8).grow("register", 0, 2)
    if hopper:
        tile.grow("register", 1, instruction[1] // 8)
    for dim in (0, 1) if hopper else (1, 0):
        tile.grow("warp", dim, warps[dim])
    return tile.over(shape, (1, 0))


def _mfma(text: str, shape: Vector, _: Mapping[str, str]) -> Layout | None:
    extent = numbers(text, "instrShape")[0]
    if len(shape) != 2 or extent not in {16, 32} or re.search(r"tilesPerWarp = \[(?!1, 1\])", text):
        return None
    column, row = (0, 1) if "isTransposed = true" in text else (1, 0)
    tile = _Tile(2).grow("register", row, 4).grow("lane", column, extent).grow("lane", row, 64 // extent)
    tile.grow("register", row, extent // (4 * 64 // extent))
    warps = numbers(text, "warpsPerCTA")
    for dim in (1, 0):
        tile.grow("warp", dim, warps[dim])
    return tile.over(shape, (row, column))


def _operand(text: str, shape: Vector, aliases: Mapping[str, str]) -> Layout | None:
    """The operand of a dot: warps along the dimension that is summed over hold the same elements."""
    parent = resolved(_field(text, "parent"), aliases)
    index, width = number(text, "opIdx"), number(text, "kWidth")
    k, other = (1, 0) if index == 0 else (0, 1)
    if len(shape) != 2:
        return None
    tile = _Tile(2)
    if "nvidia_mma<" in parent and number(parent, "versionMajor") in {2, 3}:
        tile.grow("register", k, width).grow("lane", k, 4).grow("lane", other, 8)
        order = (0, 1) if number(parent, "versionMajor") == 3 else (1, 0)
        if index == 0:
            tile.grow("register", other, 2)
        tile.grow("register", k, 2)
    elif "amd_mfma<" in parent:
        extent = numbers(parent, "instrShape")[0]
        if extent not in {16, 32} or re.search(r"tilesPerWarp = \[(?!1, 1\])", parent):
            return None
        tile.grow("register", k, width).grow("lane", other, extent).grow("lane", k, 64 // extent)
        order = (1, 0)
    else:
        return None
    warps = numbers(parent, "warpsPerCTA")
    for dim in order:
        if dim == k:
            tile.repeat("warp", warps[dim])
        else:
            tile.grow("warp", dim, warps[dim])
    return tile.over(shape, (k, other))


def _field(text: str, name: str) -> str:
    """Return the attribute that `name` has inside another: an alias, or a whole one with its brackets."""
    at = text.find(f"{name} = ")
    if at < 0:
        return ""
    rest = text[at + len(name) + 3 :]
    depth = 0
    for i, character in enumerate(rest):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
            if depth == 0:
                return rest[: i + 1]
        elif character in ",}" and depth == 0:
            return rest[:i]
    return ""


_READERS = {
    "blocked": _blocked, "linear": _linear, "slice": _slice, "nvidia_mma": _mma, "amd_mfma": _mfma, "dot_op": _operand,
}  # fmt: skip
