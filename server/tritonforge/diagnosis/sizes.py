"""Values of tile parameters as far as they are known: from a launch, else from what the source writes out."""

from __future__ import annotations

import ast

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import integers
from tritonforge.domain.kernel import Kernel, LaunchValue
from tritonforge.domain.source import Range

_FIXED = frozenset({"literal", "local", "module", "default"})
"""Sources of a value that stays the same from call to call."""


def tile_sizes(case: Case) -> dict[str, int]:
    """Return the known value of each tile parameter.

    With a launch these are its own. Without one, only values that every launch site of the file writes out alike.
    """
    kernel = case.kernel
    if case.launch is not None:
        known = integers(case.launch)
        return {name: known[name] for name in kernel.tiles if name in known}
    sizes: dict[str, int] = {}
    for name in kernel.tiles:
        values = {integer(value.text) for value in fixed_values(kernel, name)}
        if len(values) == 1 and (value := values.pop()) is not None:
            sizes[name] = value
    return sizes


def fixed_values(kernel: Kernel, name: str) -> tuple[LaunchValue, ...]:
    """Return where launch sites set `name`, when each of them fixes it; empty when one computes it or none is known."""
    found = [value for site in kernel.launch_sites for key, value in (*site.constexprs, *site.options) if key == name]
    if not found or any(value.source not in _FIXED for value in found):
        return ()
    return tuple(found)


def place_of(kernel: Kernel, name: str) -> Range | None:
    """Return where the value of `name` can be edited in the kernel's own file, if it stands there."""
    for site in kernel.launch_sites:
        for key, value in (*site.constexprs, *site.options):
            if key == name and site.file == kernel.file and (value.origin or value.range):
                return value.origin or value.range
    return None


def integer(text: str | None) -> int | None:
    """Return the integer that `text` spells (`64`, `1 << 10`, `32 * 4`), or None."""
    if text is None:
        return None
    try:
        return _fold(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _fold(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _fold(node.left), _fold(node.right)
        if left is None or right is None:
            return None
        match node.op:
            case ast.Mult():
                return left * right
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.FloorDiv() if right:
                return left // right
            case ast.LShift() if 0 <= right < 64:
                return left << right
            case ast.Pow() if 0 <= right < 64:
                return int(left**right)
    return None
