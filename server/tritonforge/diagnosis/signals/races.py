"""Stores of several programs to one address, as the source and the grid show them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.reaching import happens
from tritonforge.diagnosis.sizes import integer
from tritonforge.domain.kernel import Kernel, Reach

_LOCKS = frozenset(["atomic_cas", "atomic_xchg"])
_HIDDEN = -1


@dataclass(frozen=True)
class Clash:
    """All programs along `axis` make the same `reach`; `programs` is how many there are, None when unknown."""

    reach: Reach
    axis: int
    programs: int | None


def clashes(case: Case) -> tuple[Clash, ...]:
    """Return the stores whose place does not depend on a program axis that the stored value depends on.

    Silent where anything about the store is not known, where a condition or mask chooses among the programs of that
    axis, where a constexpr decides about it and no launch was compiled, where a lock orders programs, and where the
    grid has a single program along the axis.
    """
    kernel = case.kernel
    if kernel.reaches is None or any(reach.name in _LOCKS for reach in kernel.reaches):
        return ()
    found = []
    for reach in kernel.reaches:
        if reach.name != "store" or not reach.pointers or _HIDDEN in (*reach.where, *reach.when):
            continue
        if reach.indexed or not happens(case, reach):
            continue
        for axis in sorted(set(reach.what) - {*reach.where, *reach.when, _HIDDEN}):
            extent = grid_extent(case, axis)
            if extent is not None and extent != 1:
                found.append(Clash(reach, axis, extent or None))
                break
    return tuple(found)


def axes_used(kernel: Kernel) -> frozenset[int]:
    """Return the program axes on which anything that the kernel accesses depends."""
    return frozenset(a for r in kernel.reaches or () for a in (*r.where, *r.when, *r.what)) - {_HIDDEN}


def grid_extent(case: Case, axis: int) -> int | None:
    """Return how many programs the grid has along `axis`: of the launch, else as every launch site writes it out.

    0 for more than one, but unknown how many; None when it cannot be told.
    """
    if case.launch is not None:
        return case.launch.config.grid[axis]
    extents = {_written(site.grid, axis) for site in case.kernel.launch_sites}
    return extents.pop() if len(extents) == 1 else 0 if extents and None not in extents and 1 not in extents else None


def _written(grid: str, axis: int) -> int | None:
    try:
        node = ast.parse(grid.strip(), mode="eval").body
    except SyntaxError:
        return None
    if isinstance(node, ast.Lambda):
        node = node.body
    if not isinstance(node, (ast.Tuple, ast.List)) or any(isinstance(one, ast.Starred) for one in node.elts):
        return None
    if axis >= len(node.elts):
        return 1
    written = integer(ast.unparse(node.elts[axis]))
    return 0 if written is None else written
