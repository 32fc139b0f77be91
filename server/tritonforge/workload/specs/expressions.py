"""Names and arithmetic of a spec: what a name stands for, and the number that an expression is."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tritonforge.domain.launch import Scalar, Value
from tritonforge.workload.specs.dtypes import KNOWN, dtype_name
from tritonforge.workload.specs.errors import Place, nearest
from tritonforge.workload.specs.syntax import Apply, Binary, Constant, Name, Node, Sign

Number = int | float
_LARGEST = 1 << 63
_ARITHMETIC: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_SHIFTS: dict[str, Callable[[int, int], int]] = {"<<": operator.lshift, ">>": operator.rshift}
FUNCTIONS: dict[str, tuple[int, Callable[..., Number]]] = {
    "cdiv": (2, lambda a, b: -(-a // b)),
    "min": (2, min),
    "max": (2, max),
    "next_power_of_2": (1, lambda n: 1 << max(n - 1, 0).bit_length()),
    "sqrt": (1, math.sqrt),
}
"""Functions of numbers, with how many arguments each takes (`min` and `max`: at least)."""


@dataclass
class Scope:
    """What the names of one call stand for. `values` are the spec's own nodes by name; each is evaluated once."""

    place: Place
    values: Mapping[str, Node]
    evaluate: Callable[[Node, Scope, str], Value]
    """Turns a node into a value; its last argument is the name that it is the value of."""
    in_kernel: bool = False
    buffers: Mapping[str, int] = field(default_factory=dict)
    """The buffer number of each tensor that another name shares."""
    known: dict[str, Value] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def lookup(self, name: str, at: int) -> Value:
        """Return what `name` stands for.

        Raises:
            SpecError: when the spec does not define it, or defines it by itself.
        """
        if name in self.known:
            return self.known[name]
        if name in self.open:
            raise self.place.error(at, f"{name!r} is defined by itself.", "Give it a number.")
        if name not in self.values:
            raise self.undefined(name, at)
        self.open.append(name)
        value = self.evaluate(self.values[name], self, name)
        self.open.pop()
        self.known[name] = value
        return value

    def undefined(self, name: str, at: int) -> Exception:
        """Return the error for a name that nothing defines."""
        close = nearest(name, [*self.values, *KNOWN], "")
        mend = close if close.startswith("Did") else f"Add {name}=…, or {name} in [1, 128, 4096]."
        return self.place.error(at, f"the spec does not say what {name!r} is.", mend)


def integer(node: Node, scope: Scope, what: str) -> int:
    """Return the whole number that `node` is; `what` names it in an error (`an extent`)."""
    found = number(node, scope)
    if not isinstance(found, int):
        mend = "Divide with //." if isinstance(node, Binary) and node.sign == "/" else ""
        raise scope.place.error(node.at, f"{what} must be a whole number, not {found}.", mend)
    return found


def number(node: Node, scope: Scope) -> Number:
    """Return the number that an expression is.

    Raises:
        SpecError: at the name, operator or operand that makes none.
    """
    if isinstance(node, Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise scope.place.error(node.at, f"{node.value!r} is no number.")
        return _bounded(node.value, node.at, scope)
    if isinstance(node, Name):
        return _named(node, scope)
    if isinstance(node, Sign):
        inner = number(node.operand, scope)
        return -inner if node.sign == "-" else inner
    if isinstance(node, Binary):
        return _binary(node, scope)
    if isinstance(node, Apply):
        return _apply(node, scope)
    raise scope.place.error(node.at, "expected a number here.", "Extents are numbers, names and + - * // % **.")


def _named(node: Name, scope: Scope) -> Number:
    if node.name == "math.pi":
        return math.pi
    if node.name not in scope.values and dtype_name(node.name) is not None:
        raise scope.place.error(node.at, f"{node.name!r} is a dtype, not a number.")
    value = scope.lookup(node.name, node.at)
    if not isinstance(value, Scalar) or isinstance(value.value, bool) or not isinstance(value.value, int | float):
        raise scope.place.error(node.at, f"{node.name!r} is no number.")
    return value.value


def _binary(node: Binary, scope: Scope) -> Number:
    left, right = number(node.left, scope), number(node.right, scope)
    place = scope.place
    if node.sign in _SHIFTS:
        if not isinstance(left, int) or not isinstance(right, int):
            raise place.error(node.sign_at, f"{node.sign} needs whole numbers.")
        if not 0 <= right <= 64:
            raise place.error(node.right.at, f"a shift by {right} is out of range.")
        return _bounded(_SHIFTS[node.sign](left, right), node.at, scope)
    if node.sign in ("/", "//", "%") and right == 0:
        raise place.error(node.right.at, "this divides by zero.")
    if node.sign == "**":
        if abs(right) > 64:
            raise place.error(node.right.at, f"the exponent {right} is out of range.")
        if left == 0 and right < 0:
            raise place.error(node.at, "this divides by zero.")
        if left < 0 and not isinstance(right, int):
            raise place.error(node.at, "a root of a negative number is no number.")
    try:
        return _bounded(_ARITHMETIC[node.sign](left, right), node.at, scope)
    except OverflowError:
        raise place.error(node.at, "this number is too large.") from None


def _apply(node: Apply, scope: Scope) -> Number:
    name = node.function.removeprefix("triton.").removeprefix("tl.").removeprefix("math.")
    place = scope.place
    if name not in FUNCTIONS:
        mend = nearest(node.function, [*FUNCTIONS, "desc"], "Known functions")
        raise place.error(node.at, f"there is no function {node.function!r}.", mend)
    wanted, function = FUNCTIONS[name]
    given = [number(argument, scope) for argument in node.arguments]
    if len(given) < wanted or (len(given) > wanted and name not in ("min", "max")):
        raise place.error(node.at, f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(given)}.")
    if name == "cdiv" and given[1] == 0:
        raise place.error(node.arguments[1].at, "this divides by zero.")
    if name == "next_power_of_2" and not isinstance(given[0], int):
        raise place.error(node.arguments[0].at, "next_power_of_2 needs a whole number.")
    if name == "sqrt" and given[0] < 0:
        raise place.error(node.arguments[0].at, "a root of a negative number is no number.")
    return _bounded(function(*given), node.at, scope)


def _bounded(found: Number, at: int, scope: Scope) -> Number:
    too_large = abs(found) > _LARGEST if isinstance(found, int) else not math.isfinite(found)
    if too_large:
        raise scope.place.error(at, "this number is too large.")
    return found
