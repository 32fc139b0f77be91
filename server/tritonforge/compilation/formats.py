"""In which formats a launch multiplies and sums, read off Triton's first IR."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tritonforge.compilation.dataflow import LOADS, MERGE, Node, pointers, read_graph
from tritonforge.compilation.locations import read_locations
from tritonforge.domain.semantics import DotFormat, SumFormat

_NARROW = frozenset(["f16", "bf16"])
_MOVING = frozenset([
    MERGE, "tt.trans", "tt.reshape", "tt.broadcast", "tt.expand_dims", "tt.splat", "arith.select", "tt.join",
    "tt.split",
])  # fmt: skip
"""Operations that change no value."""
_MOST_NODES = 40


def read_formats(ttir: str, file: str) -> tuple[tuple[DotFormat, ...], tuple[SumFormat, ...]]:
    """Return the dots and the sums in narrow types of a module's entry function; `file` as locations name it.

    What belongs to no line of the user's file is left out. Never raises.
    """
    if "tt.dot" not in ttir and "arith.addf" not in ttir:
        return (), ()
    locations = read_locations(ttir, file)
    dots: dict[DotFormat, None] = {}
    sums: dict[SumFormat, None] = {}
    for node in read_graph(ttir):
        line = locations.line(node.location) if node.location else None
        if line is None:
            continue
        if node.name == "tt.dot" and len(node.operands) > 1 and len(node.operand_types) > 2:
            dots[_dot(node, line)] = None
        elif node.name == "tt.reduce":
            found = _reduction(node, line)
            if found is not None:
                sums[found] = None
        elif node.name == "arith.addf" and node.element in _NARROW and _is_carried(node):
            sums[SumFormat(line, node.element, 0, loop=True)] = None
    return tuple(dots), tuple(sums)


def _dot(node: Node, line: int) -> DotFormat:
    first = node.operand_types[0]
    precision = re.search(r"inputPrecision = (\w+)", node.text)
    sources: set[str] = set()
    rounded = False
    for operand in node.operands[:2]:
        loaded, exact = _origin(operand)
        sources |= loaded
        rounded = rounded or not exact
    return DotFormat(
        line=line,
        operand=first.element,
        result=node.element or node.operand_types[-1].element,
        precision=precision[1] if precision else "ieee",
        contraction=first.shape[-1] if first.shape else 0,
        sources=tuple(sorted(sources)),
        rounded=rounded,
        rows=node.operand_types[-1].shape[-2] if len(node.operand_types[-1].shape) > 1 else 0,
        chained=_is_chained(node),
        transposed=any(_is_transposed_dot(operand) for operand in node.operands[:2]),
    )


def _is_chained(node: Node) -> bool:
    accumulator = node.operands[2] if len(node.operands) > 2 else None
    dots = 0
    while accumulator is not None and accumulator.name == "tt.dot" and len(accumulator.operands) > 2:
        accumulator = accumulator.operands[2]
        dots += 1
    return bool(dots) and accumulator is not None and accumulator.name == MERGE and len(accumulator.operands) > 1


def _is_transposed_dot(operand: Node) -> bool:
    """Tell whether a value is a dot's result, possibly computed on element by element, and then transposed."""
    transposed = False
    node = operand
    for _ in range(_MOST_NODES):
        if node.name == "tt.dot":
            return transposed
        transposed = transposed or node.name == "tt.trans"
        if not node.operands or not (node.name == "tt.trans" or node.name.startswith(("arith.truncf", "arith.extf"))):
            return False
        node = node.operands[0]
    return False


def _origin(value: Node) -> tuple[set[str], bool]:
    """Return the parameters whose 32-bit elements a value is, and whether all of it fits a narrow format exactly.

    What was widened from 16 bits or less, and constants, fit; what is loaded in 32 bits or computed need not.
    """
    sources: set[str] = set()
    exact = True
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.name in LOADS:
            if node.element == "f32" and node.operands:
                sources |= pointers(node.operands[0])
        elif node.name in _MOVING:
            waiting += [one for one in node.operands if one.element not in {"i1", "i32", "i64"}]
        elif node.name not in {"arith.extf", "arith.constant", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp"}:
            exact = False
    return sources, exact and not waiting


def _reduction(node: Node, line: int) -> SumFormat | None:
    """Return a reduction that adds in a narrow type, unless a single element is left or it does something else."""
    kind = node.operand_types[0] if node.operand_types else None
    if kind is None or kind.element not in _NARROW or not kind.shape:
        return None
    adds = [one for one in node.inner if one.name == "arith.addf"]
    if len(adds) != 1 or len(node.inner) > 2:
        return None
    axis = re.search(r"axis = (\d+)", node.text)
    at = int(axis[1]) if axis else 0
    return SumFormat(line, kind.element, kind.shape[at] if at < len(kind.shape) else 0)


def _is_carried(node: Node) -> bool:
    """Tell whether a sum goes back into the value that a loop carries and that it adds to."""
    return any(one.name == MERGE and len(one.operands) > 1 and _has(one.operands[1:], node) for one in node.operands)


def _has(nodes: Iterable[Node], wanted: Node) -> bool:
    return any(one is wanted for one in nodes)
