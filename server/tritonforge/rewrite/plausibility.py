"""What is known of a launch before anything is compiled, and what rules values out on that ground."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tritonforge.compilation.architectures import Architecture, architecture
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch, Tensor, integers_of, tensors_of
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.rules.splits import split_counts
from tritonforge.rewrite.shapes import WARPS

Values = dict[str, int]

MAX_ELEMENTS = 131_072
"""Of one block. Triton allows 2²⁰; nothing above this fits the registers of a program of 16 warps."""

MOST_PROGRAMS = 65_535
"""Along y and along z of a grid (CUDA and HIP): one more, and the launch fails."""

MIN_DOT = 16
"""The smallest extent of a `tl.dot` on every axis (Triton 3.2–3.9, 16-bit operands, NVIDIA)."""

_FIXED = {"next_power_of_2", "call", "loop", "expression", "kwargs", "heuristic"}


class DotTiles(NamedTuple):
    """Which tile parameters are the extents of the kernel's dot; None where an extent is not one of them."""

    m: str | None
    n: str | None
    k: str | None


def dot_tiles(kernel: Kernel) -> DotTiles:
    """Tell which tile is M, N and K of the kernel's dot.

    K is the tile that the innermost loop around the dot steps by, M and N those that multiply program ids, in order of
    axes. Where a loop steps over a result axis (attention), that tile is N and there is no K. Names that end in M, N
    or K decide what the structure leaves open.
    """
    tiles = kernel.tiles
    placed = [t for _, names in sorted(kernel.program_axes) for t in names if t in tiles]
    placed = [t for t in tiles if t in placed]
    steps = [kernel.loops[i].step_tile for dot in kernel.dots for i in dot.loops if i < len(kernel.loops)]
    stepped = [t for t in steps if t is not None and t in tiles and t not in placed]
    by_name = {letter: next((t for t in tiles if t.upper().endswith(letter)), None) for letter in "MNK"}
    m = by_name["M"] if by_name["M"] in placed or not placed else placed[0]
    rest = [t for t in placed if t != m]
    n = by_name["N"] if by_name["N"] in rest or (not rest and by_name["N"] in stepped) else next(iter(rest), None)
    k = next((t for t in stepped if t not in {m, n}), None)
    if k is None and by_name["K"] not in {m, n}:
        k = by_name["K"]
    if n is None and k is None:
        n = next((t for t in tiles if t != m), None)
    return DotTiles(m, n, k)


@dataclass(frozen=True)
class Facts:
    """A launch as far as its tuning goes.

    `current`: all integers it runs with. `fixed`: tiles that cannot be set. `names`: what the space is made of, tiles
    first. `staged`: whether `num_stages` does anything. `operand_bytes`: of one element. `limits`, `units`: of one SM,
    and how many the usual GPU has. `programs`: of the grid. `caps`: tile → the least power of two over its extent.
    `grid`: of the launch as it is. `splits`: counts of parts that may be set, each with its axis of the grid and the
    tile of which the parts take turns.
    """

    kernel: Kernel
    current: dict[str, int]
    fixed: frozenset[str]
    names: tuple[str, ...]
    staged: bool
    dots: DotTiles
    operand_bytes: int
    limits: Architecture
    units: int
    programs: int
    caps: Mapping[str, int]
    grid: tuple[int, int, int]
    splits: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, kernel: Kernel, launch: Launch, arch: str) -> Facts:
        """Collect the facts of `launch`."""
        current = integers_of((*launch.config.constexprs, *launch.config.options))
        sources: dict[str, set[str]] = {}
        for site in kernel.launch_sites:
            for name, value in site.constexprs:
                # A number that stands in a dict which the launch spreads can be edited there.
                written = value.source == "kwargs" and value.text.isdecimal()
                sources.setdefault(name, set()).add("literal" if written else value.source)
        tuned = {n for c in (kernel.autotune.configs if kernel.autotune else ()) for n, _ in c.constexprs}
        tiles = [t for t in kernel.tiles if t in current]
        fixed = {t for t in tiles if t not in tuned and (sources.get(t, set()) & _FIXED or kernel.autotune)}
        loads = any(a.kind == "load" and a.loops and a.block is not False for a in kernel.accesses)
        names = (*tiles, "num_warps", *(("num_stages",) if loads else ()))
        tensors = [t for _, v in launch.problem.arguments for t in tensors_of(v)]
        spec = gpu_for(arch)
        return cls(
            kernel,
            current,
            frozenset(fixed),
            names,
            loads,
            _dots(kernel, tiles, fixed),
            _operand_bytes(tensors),
            _architecture(arch),
            spec.sms if spec else 100,
            launch.programs,
            _caps(kernel, launch, current),
            launch.config.grid,
            _splits(kernel, launch, current, fixed),
        )

    def filled(self, values: Mapping[str, int]) -> Values:
        """Return `values` with the launch's own for what they leave out."""
        return {"num_warps": 4, "num_stages": 3} | self.current | dict(values)

    def elements(self, values: Mapping[str, int]) -> int:
        """Return the elements of the largest block that the tiles span: M×N of a dot, else all tiles together.

        Blocks of a dot are matrices: where it is not known which tiles are M and N, the two largest ones.
        """
        full = self.filled(values)
        m, n, _ = self.dots
        if m is not None and n is not None:
            return full.get(m, 1) * full.get(n, 1)
        extents = [full.get(t, 1) for t in self.kernel.tiles]
        return math.prod(sorted(extents)[-2:] if self.kernel.dots else extents)

    def programs_with(self, values: Mapping[str, int]) -> float:
        """Return how many programs the grid would have."""
        full = self.filled(values)
        ratio = 1.0
        in_parts = {tile for _, tile in self.splits.values()}
        for tile in dict.fromkeys(t for _, tiles in self.kernel.program_axes for t in tiles):
            if tile in self.current and tile in full and tile not in in_parts:
                ratio *= self.current[tile] / full[tile]
        for count in self.splits:
            ratio *= full[count] / self.current[count]
        return self.programs * ratio


def _dots(kernel: Kernel, tiles: Sequence[str], fixed: Collection[str]) -> DotTiles:
    """Return the tiles of the dot, M being the first that may be set where the source does not show it."""
    dots = dot_tiles(kernel) if kernel.dots else DotTiles(None, None, None)
    if kernel.dots and dots.m is None:
        dots = dots._replace(m=next((t for t in tiles if t not in fixed and t not in dots), None))
    return dots


def _splits(
    kernel: Kernel, launch: Launch, current: Mapping[str, int], fixed: Collection[str]
) -> dict[str, tuple[int, str]]:
    """Return the counts of parts that are tiles to be set, and that the recorded grid has as many programs as."""
    placed = {axis: tiles[0] for axis, tiles in kernel.program_axes if len(tiles) == 1}
    return {
        name: (axis, placed[axis])
        for name, axis in split_counts(kernel).items()
        if name in kernel.tiles and name not in fixed and launch.config.grid[axis] == current.get(name)
    }


def _caps(kernel: Kernel, launch: Launch, current: Mapping[str, int]) -> dict[str, int]:
    """Return, for each tile whose extent the launch shows, the least power of two that covers it."""
    scalars = integers_of(launch.problem.arguments)
    extents: dict[str, int] = {}
    for loop in kernel.loops:
        stop = scalars.get(loop.stop or "")
        if loop.step_tile is not None and stop is not None:
            extents[loop.step_tile] = max(stop, extents.get(loop.step_tile, 0))
    in_parts = set(split_counts(kernel).values())
    for axis, tiles in kernel.program_axes:
        if len(tiles) == 1 and tiles[0] in current and axis < 3 and axis not in in_parts:
            covered = launch.config.grid[axis] * current[tiles[0]]
            extents[tiles[0]] = max(covered, extents.get(tiles[0], 0))
    return {tile: 1 << max(extent - 1, 1).bit_length() for tile, extent in extents.items()}


def _architecture(arch: str) -> Architecture:
    """Return the limits of `arch`; for one that is not known, those of its vendor's tightest."""
    known = architecture(arch) or architecture("gfx942" if arch.startswith("gfx") else "sm_86")
    assert known is not None
    return known


def _operand_bytes(tensors: Sequence[Tensor]) -> int:
    sizes = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1}
    widths = [sizes.get(t.dtype, 1 if t.dtype.startswith("float8") else 4) for t in tensors if t.elements > 1]
    # Operands outweigh results in a dot's shared memory, and are at most as wide.
    return min(widths, default=2)


def is_plausible(values: Mapping[str, int], kernel: Kernel, launch: Launch, arch: str) -> bool:
    """Tell whether it makes sense to compile `launch` with `values`; `implausible` says why not."""
    return implausible(values, kernel, launch, arch) is None


def implausible(values: Mapping[str, int], kernel: Kernel, launch: Launch, arch: str) -> str | None:
    """Return why `launch` with `values` cannot compile or cannot be any good, or None.

    Values that are not given are those of the launch. Shared memory is estimated as the dot's operands times stages.
    """
    return why_not(values, Facts.of(kernel, launch, arch))


def why_not(values: Mapping[str, int], facts: Facts) -> str | None:
    """Return why `values` cannot compile or cannot be any good, or None; for many questions about one launch."""
    full = facts.filled(values)
    warps, stages = full["num_warps"], full["num_stages"]
    if warps not in WARPS:
        return f"num_warps={warps} is not one of 1, 2, 4, 8, 16"
    if facts.staged and not 1 <= stages <= 5:
        return f"num_stages={stages} is not within 1 to 5"
    for tile in facts.kernel.tiles:
        if tile in values and (values[tile] < 1 or values[tile] & (values[tile] - 1)):
            return f"{tile}={values[tile]} is no power of two"
        least = max(facts.caps.get(tile, MAX_ELEMENTS), facts.current.get(tile, 1), MIN_DOT)
        if values.get(tile, 1) > least:
            return f"{tile}={values[tile]} spans more than there is"
    in_parts = {axis for axis, _ in facts.splits.values()}
    for axis, placed in facts.kernel.program_axes:
        if axis in {1, 2} - in_parts and len(placed) == 1 and facts.current.get(placed[0]) and full[placed[0]]:
            extent = facts.grid[axis] * facts.current[placed[0]] / full[placed[0]]
            if extent > MOST_PROGRAMS:
                return f"{placed[0]}={full[placed[0]]} makes a grid of {extent:.0f} programs along {'yz'[axis - 1]}"
    for count, (_, tile) in facts.splits.items():
        if full[count] * full.get(tile, 1) > max(facts.caps.get(tile, MAX_ELEMENTS), facts.current[count]):
            return f"{count}={full[count]} leaves programs without a part"
    elements = facts.elements(values)
    threads = facts.limits.warp * warps
    if elements > max(MAX_ELEMENTS, facts.elements({})):  # what runs is possible
        return f"a block of {elements} elements does not fit a program's registers"
    # A dot whose extents are no tiles may be of any size.
    spans = not facts.kernel.dots or None not in facts.dots[:2]
    if spans and elements < threads and any(t not in facts.fixed for t in facts.names if t in facts.kernel.tiles):
        return f"a block of {elements} elements leaves threads of {warps} warps idle"
    return _implausible_dot(full, facts, threads) if facts.kernel.dots else None


def _threads(facts: Facts) -> int:
    return facts.limits.warp * facts.filled({})["num_warps"]


def _implausible_dot(full: Mapping[str, int], facts: Facts, threads: int) -> str | None:
    m, n, k = (full.get(t) if t is not None else None for t in facts.dots)
    for name, extent in zip(facts.dots, (m, n, k), strict=True):
        if name is not None and extent is not None and extent < MIN_DOT:
            return f"{name}={extent} is below {MIN_DOT}, the least of a dot"
    if m and n and m * n / threads >= facts.limits.registers_per_thread:
        return f"an accumulator of {m}×{n} takes more registers than {full['num_warps']} warps have"
    if not (m and n):
        each, today = facts.elements(full) / threads, facts.elements({}) / _threads(facts)
        if each >= max(facts.limits.registers_per_thread, today + 1):
            return f"{full['num_warps']} warps have fewer registers than its largest block has elements"
    if m and n and k:
        shared = (m + n) * k * facts.operand_bytes * max(full["num_stages"], 1)
        if shared > facts.limits.shared_per_program:
            return (
                f"its operands need about {shared} bytes of shared memory, {facts.limits.shared_per_program} are there"
            )
    return None
