"""Counts of parts: a constexpr that is itself an axis of the grid, whose programs share one loop of the kernel.

The programs of a split-K matmul each add up every n-th block of K. How large these blocks are decides nothing about
the grid, though the kernel multiplies a program id by them: the axis has n programs, and n may be chosen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from tritonforge.domain.kernel import Kernel


@lru_cache(maxsize=64)
def _products(text: str) -> tuple[frozenset[str], ...]:
    """Return the names of each product in an expression; a product in another one is part of it."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return ()
    return tuple(_outermost(tree))


def _outermost(node: ast.AST) -> Iterator[frozenset[str]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost(child)


def split_counts(kernel: Kernel) -> dict[str, int]:
    """Return the constexprs that count the parts of a loop, each with the axis of the grid that it must be.

    Such a one and a tile that the kernel multiplies a program id by make up, alone, a product in a loop's step or bound
    (`BLOCK_K * SPLIT_K`); that id's axis is the one. It is never such a tile itself.
    """
    placed = {tile for _, tiles in kernel.program_axes for tile in tiles}
    counts = {p.name for p in kernel.parameters if p.constexpr and p.name not in placed}
    found: dict[str, int] = {}
    for loop in kernel.loops:
        for names in (*_products(loop.step or ""), *_products(loop.stop or "")):
            for axis, tiles in kernel.program_axes:
                count = sorted(names & counts)
                if len(count) == 1 and len(tiles) == 1 and names == {count[0], tiles[0]}:
                    found.setdefault(count[0], axis)
    return found
