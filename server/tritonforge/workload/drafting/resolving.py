"""What an expression in a host function stands for: a parameter, its shape, or one of its extents."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tritonforge.workload.drafting.evidence import Extent, Reading

_CONVERSIONS = "contiguous detach clone to float half long int cuda type requires_grad_ bfloat16"
_SAME = frozenset(_CONVERSIONS.split())


@dataclass(frozen=True)
class Alias:
    """A local name for a parameter, with the pairs of axes that were swapped on the way."""

    name: str
    swaps: tuple[tuple[int, int], ...] = ()


class Names:
    """The names of a function as far as its statements have been read; what is learnt on the way goes into `out`."""

    def __init__(self, reading: Reading) -> None:
        self.out = reading
        self.aliases: dict[str, Alias | None] = {name: Alias(name) for name in reading.parameters}
        self.shapes: dict[str, Alias] = {}
        self.extents: dict[str, Extent] = {}

    def tensor(self, node: ast.expr) -> Alias | None:
        """Return the parameter that an expression is, or is a transposed or converted form of."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            base = self.tensor(node.value)
            return base and Alias(base.name, (*base.swaps, (-2, -1)))
        if isinstance(node, ast.IfExp):
            return self.tensor(node.body) or self.tensor(node.orelse)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        base = self.tensor(node.func.value)
        if base is None:
            return None
        method = node.func.attr
        if method in _SAME:
            return base
        if method == "t":
            return Alias(base.name, (*base.swaps, (-2, -1)))
        if method in ("transpose", "swapaxes") and len(node.args) == 2:
            axes = [whole(argument) for argument in node.args]
            if axes[0] is not None and axes[1] is not None:
                return Alias(base.name, (*base.swaps, (axes[0], axes[1])))
        if method in ("view", "reshape"):
            return self.viewed(base, node)
        return None

    def viewed(self, base: Alias, node: ast.Call) -> Alias | None:
        """Take a view that merges leading axes for the tensor itself: a tensor of the view's rank passes as well."""
        arguments = node.args
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple):
            arguments = arguments[0].elts
        evidence = self.out.evidence[base.name]
        evidence.tensor += 2
        if len(arguments) < 2 or any(isinstance(a, ast.Starred) for a in arguments):
            return base if len(arguments) == 1 and whole(arguments[0]) == -1 and evidence.rank is None else None
        if evidence.rank is None:
            if evidence.weak_rank is None:
                evidence.weak_rank = len(arguments)
            for axis, argument in enumerate(arguments):
                self.same((base.name, axis - len(arguments)), argument)
        if (evidence.rank or evidence.weak_rank) == len(arguments):
            return base
        return None

    def axis(self, alias: Alias, axis: int, rank: int | None) -> Extent | None:
        """Return the parameter's own axis behind an axis of an alias."""
        for first, second in reversed(alias.swaps):
            pair = {first, second}
            if rank is not None:
                pair = {a % rank for a in pair}
                axis %= rank
            if axis in pair:
                (axis,) = pair - {axis} or {axis}
        return alias.name, axis

    def extent(self, node: ast.expr) -> Extent | None:
        """Return the axis whose extent an expression is."""
        if isinstance(node, ast.Name):
            return self.extents.get(node.id)
        if isinstance(node, ast.Subscript):
            shape = self.shape(node.value)
            index = whole(node.slice)
            if shape is not None and index is not None:
                self.at_least(shape, index)
                return self.axis(shape, index, self.out.evidence[shape.name].rank)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            base = self.tensor(node.func.value)
            argument = node.args[0] if node.args else next((k.value for k in node.keywords), None)
            index = whole(argument) if argument is not None else None
            if base is not None and index is not None:
                self.at_least(base, index)
                return self.axis(base, index, self.out.evidence[base.name].rank)
        return None

    def shape(self, node: ast.expr) -> Alias | None:
        """Return the parameter whose whole shape an expression is."""
        if isinstance(node, ast.Name):
            return self.shapes.get(node.id)
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return self.tensor(node.value)
        if not isinstance(node, ast.Call):
            return None
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "size" and not node.args and not node.keywords:
            return self.tensor(function.value)
        if isinstance(function, ast.Name) and function.id in ("tuple", "list") and node.args:
            return self.shape(node.args[0])
        return None

    def at_least(self, alias: Alias, index: int) -> None:
        """Note that the parameter has an axis of that index."""
        evidence = self.out.evidence[alias.name]
        evidence.tensor += 2
        evidence.least_rank = max(evidence.least_rank, index + 1 if index >= 0 else -index)

    def same(self, extent: Extent, node: ast.expr) -> None:
        """Note that an extent equals what an expression is."""
        other = self.extent(node)
        size = whole(node)
        if other is not None:
            self.out.equal.append((extent, other))
        elif size is not None and size > 0:
            self.out.fixed.setdefault(extent, size)
        elif isinstance(node, ast.Name) and node.id in self.out.parameters:
            self.out.sizes.setdefault(node.id, extent)

    def ranked(self, node: ast.expr) -> str | None:
        """Return the tensor whose number of axes an expression is."""
        base: ast.expr | None = None
        if isinstance(node, ast.Attribute) and node.attr == "ndim":
            base = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("dim", "ndimension")
        ):
            base = node.func.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
            shape = self.shape(node.args[0])
            return shape.name if shape else None
        alias = self.tensor(base) if base is not None else None
        return alias.name if alias else None

    def counted(self, node: ast.expr) -> str | None:
        """Return the tensor whose number of elements an expression is."""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("numel", "nelement")
        ):
            alias = self.tensor(node.func.value)
            return alias.name if alias else None
        return None


def whole(node: ast.expr | None) -> int | None:
    """Return the whole number that an expression is written as, None for any other."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = whole(node.operand)
        return None if inner is None else -inner
    return None
