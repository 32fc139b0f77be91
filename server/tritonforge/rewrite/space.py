"""Which values a launch's tiles, warps and stages may take, and in which order a small search should try them.

Everything here is known before compiling: it follows from the source, the recorded launch and the architecture, and
only decides what is tried and when. Nothing is concluded from it about speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tritonforge.domain.finding import Bottleneck, BottleneckClass, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.rewrite.plausibility import MIN_DOT, Facts, Values, why_not
from tritonforge.rewrite.rules.launch_values import COMPILER_DEFAULTS
from tritonforge.rewrite.shapes import DOTS, LINES, STAGES, WARPS

_KINDS: dict[str, BottleneckClass] = {
    "tile-too-small": "tile-too-small",
    "block-too-small": "block-too-small",
    "local-memory-traffic": "register-spill",
    "low-occupancy": "low-occupancy",
    "grid-too-small": "grid-too-small",
}

_PER_SPLIT = 24
"""How many more proposals there may be for a count of parts, which goes with each tile."""
_LIST = 5
"""Configs of an autotuner from which it is a list that somebody has chosen."""
_BESIDE_LIST = 8
"""Proposals beside such a list: tiles that are not on it first."""
_NEARLY = 0.25
"""How much of a doubling an SM may lack: 128 programs on 132 SMs fill them."""


@dataclass(frozen=True)
class Parameter:
    """One value that may be set: `values` the most promising first; `current` what the launch runs with, if known."""

    name: str
    values: tuple[int, ...]
    current: int | None


def parameter_space(
    kernel: Kernel, launch: Launch, findings: Sequence[Finding], bottleneck: Bottleneck | None, arch: str
) -> tuple[Parameter, ...]:
    """Return what may be set on `launch`, tiles first, then `num_warps` and, where a loop loads, `num_stages`.

    A tile that covers a whole row, or whose value the source computes, keeps its current value alone. Empty when the
    kernel is autotuned over configs that are not written out: there is no place where a value could be set.
    """
    if kernel.autotune is not None and not kernel.autotune.configs:
        return ()
    facts = Facts.of(kernel, launch, arch)
    order = list(_ordered(facts, _kind(findings, bottleneck)))
    out = []
    for name in facts.names:
        tried = tuple(dict.fromkeys(values[name] for values in order))
        current = facts.current.get(name)
        fixed = () if current is None else (current,)
        out.append(Parameter(name, fixed if name in facts.fixed else tried or fixed, current))
    return tuple(out)


def proposals(
    space: Sequence[Parameter],
    kernel: Kernel,
    launch: Launch,
    *,
    findings: Sequence[Finding],
    bottleneck: Bottleneck | None,
    arch: str,
    limit: int | None = None,
) -> Iterator[Values]:
    """Yield values for the parameters of `space` that are not fixed, in the order in which to try them.

    Deterministic; every one differs from what the launch runs with and is plausible, and none is listed by the kernel's
    autotuner. `limit` bounds how many: by default 32 for kernels with a dot and 20 for others, fewer where somebody has
    chosen a list of configs.
    """
    allowed = {p.name: set(p.values) for p in space if len(p.values) > 1}
    if not allowed:
        return
    facts = Facts.of(kernel, launch, arch)
    current = {n: facts.current.get(n) for n in allowed}
    seen: set[tuple[tuple[str, int], ...]] = set()
    if limit is None:
        most = _BESIDE_LIST if has_list(kernel) else 32 if kernel.dots else 20
        limit = most + _PER_SPLIT * len(facts.splits)
    for values in _ordered(facts, _kind(findings, bottleneck)):
        chosen = {n: values[n] for n in allowed if n in values}
        key = tuple(sorted(chosen.items()))
        if key in seen or chosen == current or any(v not in allowed[n] for n, v in chosen.items()):
            continue
        if _is_listed(kernel, chosen):
            continue
        if chosen.keys() != values.keys() and why_not(chosen, facts) is not None:
            continue  # what stays as it is does not go with it
        seen.add(key)
        yield chosen
        if len(seen) >= limit:
            return


def has_list(kernel: Kernel) -> bool:
    """Tell whether an autotuner chooses among configs of which somebody has made a list."""
    return kernel.autotune is not None and len(kernel.autotune.configs) >= _LIST


def _is_listed(kernel: Kernel, values: Values) -> bool:
    """Tell whether the kernel's autotuner has a config with these values already, or has it on some devices."""
    listed = kernel.autotune.configs if kernel.autotune is not None else ()
    usual = {name: str(value) for name, value in COMPILER_DEFAULTS.items()}
    wanted = {name: str(value) for name, value in values.items()}.items()
    return any(wanted <= (usual | dict((*one.constexprs, *one.options))).items() for one in listed)


def neighbours(
    best: Mapping[str, int], space: Sequence[Parameter], kernel: Kernel, launch: Launch, arch: str
) -> Iterator[Values]:
    """Yield values one step away from `best`, the best known so far: one value doubled or halved, stages by one.

    Then a tile and the warps doubled or halved together, so that a thread keeps its share, and a tile and the count of
    parts, so that there are as many programs. Plausible ones alone.
    """
    facts = Facts.of(kernel, launch, arch)
    free = [p.name for p in space if len(p.values) > 1]
    start = {n: best.get(n, facts.current.get(n, 1)) for n in free}
    steps: list[Values] = []
    for name in free:
        near = (start[name] + 1, start[name] - 1) if name == "num_stages" else (start[name] * 2, start[name] // 2)
        steps += [start | {name: value} for value in near]
    if "num_warps" in free:
        for tile in (n for n in free if n in kernel.tiles and n not in facts.splits):
            steps.append(start | {tile: start[tile] * 2, "num_warps": start["num_warps"] * 2})
            steps.append(start | {tile: start[tile] // 2, "num_warps": start["num_warps"] // 2})
    for count in (n for n in facts.splits if n in free):
        for tile in (t for _, tiles in kernel.program_axes for t in tiles if t in free and t != facts.splits[count][1]):
            steps.append(start | {tile: start[tile] * 2, count: start[count] * 2})
            steps.append(start | {tile: start[tile] // 2, count: start[count] // 2})
    possible = (step for step in steps if min(step.values()) >= 1 and why_not(step, facts) is None)
    yield from (step for step in possible if not _is_listed(kernel, step))


def _kind(findings: Sequence[Finding], bottleneck: Bottleneck | None) -> BottleneckClass:
    if bottleneck is not None and bottleneck.kind != "unknown":
        return bottleneck.kind
    return next((_KINDS[f.name] for f in findings if f.name in _KINDS), "unknown")


def _ordered(facts: Facts, kind: BottleneckClass) -> Iterator[Values]:
    """Yield full values for all names of the space, plausible, in order of promise, perhaps repeatedly."""
    tiles = _dot_values(facts) if facts.kernel.dots else _block_values(facts)
    options = _option_values(facts)
    if has_list(facts.kernel):
        # The best of the list is known, and what lies beside it is what the list may lack.
        everything = [*_beside(facts), *tiles, *options]
    elif kind in {"latency", "dram-bandwidth", "at-roofline", "launch-bound"}:
        everything = [*options, *tiles]
    elif kind in {"register-spill", "low-occupancy"}:
        everything = sorted([*_near(facts), *options, *tiles], key=lambda v: _pressure_distance(v, facts))
    elif kind == "grid-too-small":
        everything = [*sorted(tiles, key=facts.elements), *options]
    elif kind in {"tile-too-small", "block-too-small"}:
        everything = [*tiles, *options]
    else:
        everything = [*tiles[:12], *options[:4], *tiles[12:], *options[4:]]
    usable = [v for v in everything if why_not(v, facts) is None]
    # Tiles with which most of the GPU would idle come last; a launch that small already has nothing to lose.
    full = [v for v in usable if facts.programs_with(v) >= min(facts.units / 2, facts.programs)]
    yield from full
    yield from (v for v in usable if v not in full)


def _pressure_distance(values: Values, facts: Facts) -> float:
    """Return how far the elements per thread are from half of today's: what a spilling kernel should try first."""
    now = facts.elements({}) / facts.filled({})["num_warps"]
    then = facts.elements(values) / values["num_warps"]
    return abs(math.log2(then / (now / 2)))


def _complete(facts: Facts, given: Mapping[str | None, int], warps: int, stages: int) -> Values:
    values = {n: facts.current[n] if n in facts.fixed else given.get(n, facts.current.get(n, 0)) for n in facts.names}
    values["num_warps"] = warps
    if facts.staged:
        values["num_stages"] = stages
    return values


def _option_values(facts: Facts) -> list[Values]:
    """Return today's tiles with other warps and stages, warps that give a thread 4 to 16 elements first."""
    now = facts.filled({})
    each = facts.elements({}) / facts.limits.warp
    warps = sorted(WARPS, key=lambda w: (abs(math.log2(max(each, 1) / w) - 3), w))
    stages: Iterable[int] = STAGES if facts.staged else (now["num_stages"],)
    pairs = sorted(
        itertools.product(warps, stages), key=lambda p: p[0] != now["num_warps"] and p[1] != now["num_stages"]
    )
    today = _complete(facts, {}, now["num_warps"], now["num_stages"])
    in_parts = [today | parts for parts in _parts(facts, today)] if facts.splits else []
    return [*in_parts, *(_complete(facts, {}, w, s) for w, s in pairs)]


def _dot_values(facts: Facts) -> list[Values]:
    m, n, k = facts.dots
    out = []
    for shape in DOTS:
        deep = max(MIN_DOT, shape.k * 2 // facts.operand_bytes)
        tile = _complete(facts, {m: shape.m, n: shape.n, k: deep}, shape.warps, shape.stages)
        out += [tile | parts for parts in _parts(facts, tile)]
    return out


def _near(facts: Facts) -> list[Values]:
    """Return half and twice of each tile of a dot whose extents are not known, with today's warps and twice as many."""
    if not facts.kernel.dots or None not in facts.dots[:2]:
        return []
    now = facts.filled({})
    free = [t for t in facts.names if t in facts.kernel.tiles and t not in facts.fixed]
    return [
        _complete(facts, {tile: to}, warps, now["num_stages"])
        for warps in (now["num_warps"], now["num_warps"] * 2)
        for tile in free
        for to in (now[tile] // 2, now[tile] * 2)
        if to
    ]


def _parts(facts: Facts, tile: Values) -> list[Values]:
    """Return the counts of parts to try with a tile: one that gives each SM a program, twice as many, and today's.

    More of them keep more SMs busy, and add up more often what they come to. Nothing to choose: one empty choice.
    """
    if not facts.splits:
        return [{}]
    name = next(iter(facts.splits))
    whole = facts.programs_with(tile | {name: 1})
    fills = 1 << max(0, math.ceil(math.log2(max(facts.units / whole, 1)) - _NEARLY))
    counts = dict.fromkeys((fills, 2 * fills, facts.current[name]))
    return [{name: count} for count in counts]


def _block_values(facts: Facts) -> list[Values]:
    """Return blocks for kernels without a dot: lines of 128 to 16,384 elements, rectangles, neighbours of today's."""
    stages = facts.filled({})["num_stages"]
    free = [t for t in facts.names if t in facts.kernel.tiles and t not in facts.fixed]
    if len(free) == 1:
        rest = facts.elements({}) // max(facts.current[free[0]], 1)
        lines = [(size // rest, warps) for size, warps in LINES if size >= rest]
        plain = [_complete(facts, {free[0]: size}, warps, stages) for size, warps in lines]
        deep = [
            _complete(facts, {free[0]: size}, warps, s) for size, warps in lines[:4] for s in (2, 4) if facts.staged
        ]
        return [*plain[:8], *deep, *plain[8:]]
    if len(free) == 2:
        sizes = [1 << e for e in range(11)]
        pairs = [p for p in itertools.product(sizes, sizes) if 512 <= p[0] * p[1] <= 16384]
        now = tuple(facts.current[t] for t in free)
        near = sorted(
            pairs, key=lambda p: (_distance(p, now) > 2, abs(math.log2(p[0] * p[1] / 4096)), _distance(p, now), p)
        )
        return [
            _complete(facts, dict(zip(free, pair, strict=True)), warps, stages)
            for pair in near[:16]
            for warps in (4, 8)
        ]
    moves = [(t, to) for up in (2, 4) for t in free for to in (facts.current[t] * up,)]
    moves += [(t, facts.current[t] // 2) for t in free if facts.current[t] > 1]
    return [_complete(facts, {tile: to}, warps, stages) for tile, to in moves for warps in (4, 8)]


def _beside(facts: Facts) -> list[Values]:
    """Return today's values with a tile doubled or halved, alone and together with the warps, or with other options."""
    now = facts.filled({})
    today = _complete(facts, {}, now["num_warps"], now["num_stages"])
    moves: list[Values] = []
    for tile in (n for n in facts.names if n in facts.kernel.tiles and n not in facts.fixed):
        for times in (2, 0.5):
            other = {tile: int(today[tile] * times)}
            moves += [other, other | {"num_warps": int(today["num_warps"] * times)}]
    moves += [{"num_warps": int(today["num_warps"] * times)} for times in (2, 0.5)]
    moves += [{"num_stages": today["num_stages"] + more} for more in (1, -1) if facts.staged]
    return [today | move for move in moves if min(move.values()) >= 1]


def _distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    return sum(abs(math.log2(x / max(y, 1))) for x, y in zip(a, b, strict=True))
