"""Versions of a kernel as points of one space: which structure, and which values it is launched with."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import Config, Scalar
from tritonforge.optimize.correction import JOIN, STRUCTURE, Point, Value
from tritonforge.rewrite.rules.launch_parameters import NAME

_OPTIONS = ("num_warps", "num_stages")


def point_of(candidate: Candidate, config: Config | None) -> dict[str, Value]:
    """Return where a candidate lies; what it leaves alone is as in `config`, that of the original's first launch.

    The structure is the rewrites that change more than values of the launch, with their parameters.
    """
    values: dict[str, Value] = {}
    if config is not None:
        known = {
            name: value.value for name, value in (*config.constexprs, *config.options) if isinstance(value, Scalar)
        }
        tiles = [name for name, _ in config.constexprs]
        values = {name: known[name] for name in (*tiles, *_OPTIONS) if type(known.get(name)) is int}
    parts = []
    for name, parameters in candidate.rewrites:
        if name == NAME:
            values |= {key: int(value) if value.lstrip("-").isdigit() else value for key, value in parameters}
        else:
            shown = ", ".join(f"{key}={value}" for key, value in parameters)
            parts.append(f"{name}({shown})" if shown else name)
    return {STRUCTURE: JOIN.join(parts), **values}


def points_of(candidates: Sequence[Candidate], config: Config | None) -> list[Point]:
    """Return one point for each candidate, all different: another text at a known place counts as another structure."""
    points: list[Point] = []
    taken: set[tuple[tuple[str, Value], ...]] = set()
    for candidate in candidates:
        point = point_of(candidate, config)
        structure, number = str(point[STRUCTURE]), 1
        while (key := tuple(sorted(point.items(), key=lambda pair: pair[0]))) in taken:
            number += 1
            point[STRUCTURE] = JOIN.join(one for one in (structure, f"text {number}") if one)
        taken.add(key)
        points.append(point)
    return points
