"""Masked loads without `other` whose undefined lanes reach a reduction, a scan or a dot.

Triton leaves the lanes that a mask turns off undefined when `other` is missing (`tl.load`'s documentation). That is
harmless when they are only stored under the same mask, or when they only reach rows of a result that are dropped.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.domain.kernel import Access, Kernel, Operation

_COLLECTING = ("reduction", "scan", "dot")


@dataclass(frozen=True)
class UndefinedLanes:
    """`access` leaves lanes undefined that reach `sink`; `dead_fraction` of them are off in this launch, if known."""

    access: Access
    sink: str
    dead_fraction: float | None


def undefined_lanes(case: Case) -> tuple[UndefinedLanes, ...]:
    """Return every masked load without `other` whose dead lanes enter a result."""
    found: list[UndefinedLanes] = []
    for access in case.kernel.accesses:
        if access.kind != "load" or access.mask is None or access.other is not None:
            continue
        sink = next((s for s in _COLLECTING if s in access.feeds and _reaches(case.kernel, access, s)), None)
        if sink is not None:
            found.append(UndefinedLanes(access, sink, _dead_fraction(case, access)))
    return tuple(found)


def _reaches(kernel: Kernel, access: Access, sink: str) -> bool:
    """Tell whether dead lanes are mixed with live ones, rather than staying in rows that are dropped at the end."""
    mask = access.mask or ""
    if sink == "dot":
        return _masks_contraction(kernel, access, mask)
    axes = _masked_axes(mask)
    operations = kernel.reductions if sink == "reduction" else kernel.scans
    reduced = {_axis(operation) for operation in operations}
    # Every reduction of the kernel runs along another axis than the mask cuts: whole rows are dead, none is mixed.
    return not axes or None in reduced or bool(axes & reduced)


def _masks_contraction(kernel: Kernel, access: Access, mask: str) -> bool:
    """A dot mixes lanes along its contraction: the axis that the enclosing loop walks, or names as its end."""
    words = set(re.findall(r"[A-Za-z_]\w*", mask))
    for index in access.loops:
        loop = kernel.loops[index]
        named = set(re.findall(r"[A-Za-z_]\w*", f"{loop.variable or ''} {loop.stop or ''}"))
        functions = {"tl", "triton", "cdiv", "range", "min", "max"}
        tiles = set(kernel.tiles)
        if words & (named - functions - tiles):
            return True
    return False


def _masked_axes(mask: str) -> set[int]:
    """The one axis along which a two-dimensional mask varies (`rows[:, None] < M`: 0); empty when it cannot tell."""
    try:
        tree = ast.parse(mask, mode="eval")
    except SyntaxError:
        return set()
    axes: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            kept = [i for i, item in enumerate(node.slice.elts) if isinstance(item, ast.Slice)]
            if len(kept) == 1 and len(node.slice.elts) == 2:
                axes.add(kept[0])
    return axes if len(axes) == 1 else set()


def _axis(operation: Operation) -> int | None:
    """The axis a reduction or scan runs along as written, or None when it is not a plain number."""
    text = dict(operation.keywords).get("axis") or (operation.arguments[1] if len(operation.arguments) > 1 else None)
    return int(text) if text is not None and text.strip().isdigit() else None


def _dead_fraction(case: Case, access: Access) -> float | None:
    work = case.compiled.work if case.compiled is not None else None
    if work is None:
        return None
    lines = [w for n, w in work.lines.items() if access.range.start.line <= n <= access.range.end.line and w.load_bytes]
    return 1.0 - min(w.unmasked_fraction for w in lines) if lines else None
