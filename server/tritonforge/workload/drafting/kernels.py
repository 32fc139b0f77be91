"""A first spec of a kernel that no host function of its file can launch: pointers, sizes, strides, tiles, a grid."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel, Parameter
from tritonforge.workload.drafting.guesses import scalar_guess, tensor_guess

_ROWS = _COLUMNS = 4096
_FLAT = 1 << 24
_INNER = re.compile(r"(k|n|d|c|col|cols|last|inner|1)$", re.IGNORECASE)
_SIZE = re.compile(
    r"^[MNKBTSHDCVLE]$|^n$|size|numel|n_?elements|n_?cols|n_?rows|cols|rows|len|dim|width|height|total|count|num|_n$|^n_",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Layout:
    """Whether a kernel runs over flat memory, over rows, or over tiles of matrices."""

    flat: bool
    tiled: bool


def kernel_words(kernel: Kernel) -> str:
    """Return the words of a spec above `kernel`, with a grid."""
    layout = _layout(kernel)
    words = []
    for parameter in kernel.parameters:
        if parameter.default is not None or (parameter.constexpr and _is_chosen(parameter, kernel)):
            continue
        words.append(f"{parameter.name}={_value(parameter, kernel, layout)}")
    return " ".join([*words, f"grid={_grid(kernel, layout)}"])


def _is_chosen(parameter: Parameter, kernel: Kernel) -> bool:
    """Tell whether the autotuner or a heuristic chooses it, as far as the source shows."""
    if kernel.autotune is not None:
        configs = kernel.autotune.configs
        named = {name for config in configs for name, _ in config.constexprs}
        if parameter.name in named or (not configs and parameter.role == "tile"):
            return True
    return parameter.name in kernel.heuristics


def _layout(kernel: Kernel) -> _Layout:
    strides = any(p.role == "stride" for p in kernel.parameters)
    tiles = kernel.tiles
    return _Layout(flat=not strides and len(tiles) <= 1 and not kernel.dots, tiled=bool(kernel.dots) or len(tiles) > 1)


def _value(parameter: Parameter, kernel: Kernel, layout: _Layout) -> str:
    name = parameter.name
    if parameter.role == "pointer":
        guess = tensor_guess(re.sub(r"_?ptrs?$|^p_", "", name, flags=re.IGNORECASE))
        extents = str(_FLAT) if layout.flat else f"{_ROWS}, {_COLUMNS}"
        recipe = guess.recipe.format(rows=_ROWS, last=_COLUMNS)
        return f"{guess.dtype or 'fp16'}[{extents}]{recipe}" if guess.rank else f"{guess.dtype or 'fp16'}[{extents}]"
    if parameter.role == "stride":
        return "1" if _is_inner(parameter, kernel) else str(_COLUMNS)
    if parameter.role == "tile":
        return str(_tile(parameter, kernel, layout))
    if parameter.role == "option":
        return "4" if "warp" in name.lower() else "2"
    if _SIZE.search(name) and not re.search(r"eps|scale|is_|has_|use_", name, re.IGNORECASE):
        return str(_FLAT if layout.flat and not _is_row_kernel(kernel) else _COLUMNS)
    if parameter.constexpr:
        return scalar_guess(name, None) if not name.isupper() else _flag(name)
    return scalar_guess(name, None)


def _flag(name: str) -> str:
    guessed = scalar_guess(name.lower(), None)
    return guessed if guessed != "1" else "True" if not _SIZE.search(name) else "64"


def _is_inner(parameter: Parameter, kernel: Kernel) -> bool:
    """Tell whether a stride is the last of its tensor: the last of a run of strides with one prefix."""
    strides = [p for p in kernel.parameters if p.role == "stride"]
    at = strides.index(parameter)
    following = strides[at + 1] if at + 1 < len(strides) else None
    preceding = strides[at - 1] if at else None

    def stem(name: str) -> str:
        return re.sub(r"(_?[a-z0-9])$", "", name.lower())

    same_before = preceding is not None and stem(preceding.name) == stem(parameter.name)
    same_after = following is not None and stem(following.name) == stem(parameter.name)
    return same_before and not same_after and bool(_INNER.search(parameter.name))


def _is_row_kernel(kernel: Kernel) -> bool:
    """Tell whether one program takes a whole row: its tile neither multiplies a program id nor steps a loop."""
    used = {tile for _, tiles in kernel.program_axes for tile in tiles}
    used |= {loop.step_tile for loop in kernel.loops if loop.step_tile is not None}
    return bool(kernel.tiles) and not used & set(kernel.tiles)


def _tile(parameter: Parameter, kernel: Kernel, layout: _Layout) -> int:
    axes = {tile for _, tiles in kernel.program_axes for tile in tiles}
    stepped = {loop.step_tile for loop in kernel.loops}
    if layout.tiled:
        return 32 if parameter.name.lower().endswith("k") else 64
    if parameter.name not in axes and parameter.name not in stepped:
        return _COLUMNS
    return 1024


def _grid(kernel: Kernel, layout: _Layout) -> str:
    axes = dict(kernel.program_axes)
    if not axes:
        return str(_ROWS)
    sizes = [p.name for p in kernel.parameters if p.role in ("scalar", "meaning") and _SIZE.search(p.name)]
    found = []
    spare = iter(sizes)
    for axis in range(max(axes) + 1):
        tiles = [tile for tile in axes.get(axis, ()) if kernel.parameter(tile)]
        size = next(spare, None)
        if tiles and size is not None:
            found.append(f"cdiv({_matching(tiles[0], sizes) or size}, {tiles[0]})")
        elif tiles:
            found.append(f"cdiv({_FLAT if layout.flat else _ROWS}, {tiles[0]})")
        else:
            found.append(str(_ROWS) if axis == 0 else "1")
    return found[0] if len(found) == 1 else f"({', '.join(found)})"


def _matching(tile: str, sizes: list[str]) -> str | None:
    """Return the size that a tile is named after: BLOCK_M and M."""
    last = tile.lower().rpartition("_")[2]
    return next((size for size in sizes if size.lower() == last or size.lower().endswith(f"_{last}")), None)
