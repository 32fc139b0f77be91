"""Values of tile parameters as far as they are known: from a launch, else from what the source writes out."""

from __future__ import annotations

import ast

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import integers
from tritonforge.domain.kernel import Kernel, LaunchSite, LaunchValue
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


def site_of(case: Case) -> LaunchSite | None:
    """Return the launch site that made the launch of `case`, as far as it can be told.

    By the line of the call where that was recorded, else by the values it passes; without a launch, the only site.
    """
    sites, launch = case.kernel.launch_sites, case.launch
    if launch is not None:
        called = launch.call_site
        here = [s for s in sites if s.file == called.file and _covers(s.range, called.line)]
        sizes = tile_sizes(case)
        sites = tuple(here) or tuple(s for s in sites if _passes(s, sizes))
    return sites[0] if len(sites) == 1 else None


def _covers(place: Range, line: int) -> bool:
    return place.start.line <= line <= place.end.line


def _passes(site: LaunchSite, sizes: dict[str, int]) -> bool:
    """Whether no value that the site writes out differs from the launch's."""
    written = {name: integer(value.text) for name, value in site.constexprs}
    return all(written.get(name) in {None, size} for name, size in sizes.items())


def place_of(case: Case, name: str) -> Range | None:
    """Return where the value of `name` can be edited in the kernel's own file, if it stands there."""
    site = site_of(case)
    if site is None or site.file != case.kernel.file:
        return None
    value = dict((*site.constexprs, *site.options)).get(name)
    return (value.origin or value.range) if value is not None else None


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
