"""The grid of a kernel spec: expressions that the worker evaluates when tuners have chosen what they choose."""

from __future__ import annotations

from collections.abc import Collection

from tritonforge.domain.launch import Scalar
from tritonforge.workload.specs.errors import SpecError, nearest
from tritonforge.workload.specs.expressions import Scope, number
from tritonforge.workload.specs.syntax import Apply, Binary, Constant, Name, Node, Sequence, Sign

_SIGNS = ("+", "-", "*", "//", "%")
_FUNCTIONS = {"cdiv": 2, "min": 2, "max": 2, "next_power_of_2": 1}
_MOST_PROGRAMS = 2**31 - 1  # along the first axis, the longest
_STRENGTH = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def grid_of(node: Node, scope: Scope, parameters: Collection[str]) -> tuple[str, ...]:
    """Return the one to three expressions of a grid, over parameters of the kernel alone.

    Names that are sizes of the spec become their numbers.

    Raises:
        SpecError: at what a grid cannot hold.
    """
    axes = node.items if isinstance(node, Sequence) else (node,)
    if not 1 <= len(axes) <= 3:
        raise scope.place.error(node.at, f"a grid has one to three axes, not {len(axes)}.")
    texts = tuple(_text(axis, scope, parameters, 0) for axis in axes)
    for axis in axes:
        _check_extent(axis, scope)
    return texts


def _check_extent(axis: Node, scope: Scope) -> None:
    """Refuse an axis that the spec alone shows to be impossible; what tuners choose is known to the worker only."""
    try:
        found = number(axis, scope)
    except SpecError:
        return
    if found == 0:
        raise scope.place.error(axis.at, "the grid 0 starts no program.", "An axis has 1 program or more.")
    if not 0 <= found <= _MOST_PROGRAMS:
        few = "is negative" if found < 0 else f"is more than the {_MOST_PROGRAMS:,} programs that a GPU can start"
        raise scope.place.error(axis.at, f"the grid {found} {few}.")


def _text(node: Node, scope: Scope, parameters: Collection[str], strength: int) -> str:
    if isinstance(node, Constant) and type(node.value) is int:
        return str(node.value)
    if isinstance(node, Name):
        return _name(node, scope, parameters)
    if isinstance(node, Sign) and node.sign == "-":
        return f"-{_text(node.operand, scope, parameters, 3)}"
    if isinstance(node, Sign):
        return _text(node.operand, scope, parameters, strength)
    if isinstance(node, Binary) and node.sign in _SIGNS:
        own = _STRENGTH[node.sign]
        left = _text(node.left, scope, parameters, own)
        right = _text(node.right, scope, parameters, own + 1)
        text = f"{left} {node.sign} {right}"
        return f"({text})" if own < strength else text
    if isinstance(node, Binary):  # what the worker does not know must be a number already
        found = number(node, scope)
        if not isinstance(found, int):
            raise scope.place.error(node.sign_at, f"a grid is a whole number, not {found}.", "Use // or cdiv(a, b).")
        return str(found)
    if isinstance(node, Apply):
        return _apply(node, scope, parameters)
    mend = "Write for example grid=cdiv(n, BLOCK), or grid=(cdiv(M, BLOCK_M), cdiv(N, BLOCK_N))."
    raise scope.place.error(node.at, "this cannot be an axis of a grid.", mend)


def _name(node: Name, scope: Scope, parameters: Collection[str]) -> str:
    given = node.name in scope.values
    if given:
        value = scope.lookup(node.name, node.at)
        if not isinstance(value, Scalar) or type(value.value) is not int:
            raise scope.place.error(node.at, f"{node.name!r} is no whole number.")
        if node.name not in parameters:
            return str(value.value)
    elif node.name not in parameters:
        mend = nearest(node.name, [*scope.values, *parameters], "Known")
        raise scope.place.error(node.at, f"a grid cannot read {node.name!r}.", mend)
    return node.name


def _apply(node: Apply, scope: Scope, parameters: Collection[str]) -> str:
    name = node.function.removeprefix("triton.").removeprefix("tl.")
    if name not in _FUNCTIONS:
        mend = nearest(name, _FUNCTIONS, "Known functions")
        raise scope.place.error(node.at, f"a grid cannot call {node.function!r}.", mend)
    wanted = _FUNCTIONS[name]
    if len(node.arguments) != wanted and not (name in ("min", "max") and len(node.arguments) > wanted):
        raise scope.place.error(
            node.at, f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(node.arguments)}."
        )
    return f"{name}({', '.join(_text(argument, scope, parameters, 0) for argument in node.arguments)})"
