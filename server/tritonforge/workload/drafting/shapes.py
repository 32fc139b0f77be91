"""What the body of a host function shows of its parameters: which are tensors, their axes, which extents are equal."""

from __future__ import annotations

import ast
from collections import Counter

from tritonforge.workload.drafting.evidence import Evidence, Extent, Reading
from tritonforge.workload.drafting.resolving import Alias, Names, whole

_ATTRIBUTES = (
    "shape stride numel size dtype device contiguous is_cuda element_size data_ptr dim ndim view reshape is_contiguous "
    "t transpose permute to float half flatten unsqueeze squeeze new_empty new_zeros clone detach requires_grad sum "
    "T mT expand is_floating_point max min mean item long int bool type_as"
)
_TAKE_SIZES = "empty zeros ones full empty_strided new_empty new_zeros new_ones cdiv next_power_of_2 range"
_TENSOR_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_FACTORIES = frozenset(_TAKE_SIZES.split())


def read_host(source: str, parameters: tuple[str, ...]) -> Reading:
    """Read the source of one function; a source that cannot be parsed shows nothing."""
    reading = Reading(parameters, {name: Evidence() for name in parameters})
    try:
        tree = ast.parse(_dedent(source))
    except (SyntaxError, ValueError, RecursionError):
        return reading
    function = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)
    if function is not None:
        _Body(reading).block(function.body)
    return reading


def _dedent(source: str) -> str:
    # The text of a method begins at its `def`, with its body indented deeper than a module's would be.
    return source if not source[:1].isspace() else "if True:\n" + source


class _Body(Names):
    """Reads the statements of a function in order."""

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.look(child)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.assign(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.Assert):
            self.holds(node.test)
        elif isinstance(node, ast.If) and any(isinstance(s, ast.Raise) for s in node.body):
            self.holds_not(node.test)
        elif isinstance(node, ast.If):
            self.branches_on(node.test)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                self.block([s for s in inner if isinstance(s, ast.stmt)])
        for handler in getattr(node, "handlers", ()):
            self.block(handler.body)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self.assign(one, other)
            return
        shape = self.shape(value)
        if isinstance(target, ast.Tuple) and shape is not None:
            self.unpack(target, shape)
            return
        if not isinstance(target, ast.Name):
            return
        name = target.id
        extent = self.extent(value)
        self.aliases[name] = self.tensor(value)
        if shape is not None:
            self.shapes[name] = shape
        if extent is not None:
            self.bind(name, extent)
        elif name in self.extents and shape is None:
            del self.extents[name]

    def unpack(self, target: ast.Tuple, shape: Alias) -> None:
        count = len(target.elts)
        starred = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        evidence = self.out.evidence[shape.name]
        evidence.tensor += 3
        if not starred and evidence.rank is None:
            if evidence.weak_rank is None:
                evidence.rank = count
            elif evidence.weak_rank != count:
                return
        elif not starred and evidence.rank != count:
            return
        evidence.least_rank = max(evidence.least_rank, count - len(starred))
        for i, element in enumerate(target.elts):
            if not isinstance(element, ast.Name):
                continue
            index = i if not starred or i < starred[0] else i - count
            extent = self.axis(shape, index, evidence.rank)
            if extent is not None:
                self.bind(element.id, extent)

    def bind(self, name: str, extent: Extent) -> None:
        if name == "_":
            return
        if name in self.extents:  # `M, K = a.shape` and `K, N = b.shape`: one name, one size
            self.out.equal.append((self.extents[name], extent))
        elif name in self.out.parameters:
            self.out.sizes.setdefault(name, extent)
        self.extents[name] = extent
        self.out.names.setdefault(extent, name)

    def holds(self, test: ast.expr) -> None:
        """Learn from what the function asserts."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for value in test.values:
                self.holds(value)
        elif isinstance(test, ast.Compare):
            sides = [test.left, *test.comparators]
            for left, op, right in zip(sides, test.ops, sides[1:], strict=False):
                if isinstance(op, ast.Eq):
                    self.equate(left, right)
                elif isinstance(op, ast.LtE):
                    self.bounded(left, right)
                elif isinstance(op, ast.In):
                    self.among(left, right)

    def holds_not(self, test: ast.expr) -> None:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            for value in test.values:
                self.holds_not(value)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            if isinstance(test.ops[0], ast.NotEq):
                self.equate(test.left, test.comparators[0])
            elif isinstance(test.ops[0], ast.Gt):
                self.bounded(test.left, test.comparators[0])
            elif isinstance(test.ops[0], ast.NotIn):
                self.among(test.left, test.comparators[0])

    def equate(self, left: ast.expr, right: ast.expr) -> None:
        for one, other in ((left, right), (right, left)):
            rank = whole(other)
            counted_elements = self.counted(one)
            if counted_elements is not None and rank is not None and rank > 0:
                self.out.evidence[counted_elements].rank = 1
                self.out.fixed[counted_elements, 0] = rank
                return
            counted = self.ranked(one)
            if counted is not None and rank is not None:
                self.out.evidence[counted].rank = rank
                return
            dtype = _dtype(other)
            if dtype is not None and isinstance(one, ast.Attribute) and one.attr == "dtype":
                alias = self.tensor(one.value)
                if alias is not None:
                    self.out.evidence[alias.name].dtypes.append(dtype)
                return
            if isinstance(other, ast.Tuple) and (shape := self.shape(one)) is not None:
                self.unpacked_as(shape, other)
                return
        first, second = self.shape(left), self.shape(right)
        if first is not None and second is not None:
            self.out.alike.append((first.name, second.name))
            return
        for one, other in ((left, right), (right, left)):
            extent = self.extent(one)
            if extent is not None:
                self.same(extent, other)
                return

    def branches_on(self, test: ast.expr) -> None:
        """Take the branch in which an extent fits into a number that the caller gives."""
        for node in ast.walk(test):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.LtE):
                self.bounded(node.left, node.comparators[0])

    def bounded(self, small: ast.expr, large: ast.expr) -> None:
        """Learn that an extent fits into a number that the caller gives: the extent itself does."""
        extent = self.extent(small)
        if extent is not None and isinstance(large, ast.Name) and large.id in self.out.parameters:
            self.out.sizes.setdefault(large.id, extent)

    def unpacked_as(self, shape: Alias, sizes: ast.Tuple) -> None:
        evidence = self.out.evidence[shape.name]
        evidence.rank = evidence.rank or len(sizes.elts)
        for axis, size in enumerate(sizes.elts):
            self.same((shape.name, axis), size)

    def among(self, left: ast.expr, right: ast.expr) -> None:
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            return
        if isinstance(left, ast.Attribute) and left.attr == "dtype":
            alias = self.tensor(left.value)
            found = [d for d in map(_dtype, right.elts) if d is not None]
            if alias is not None:
                self.out.evidence[alias.name].dtypes += found
        elif (counted := self.ranked(left)) is not None:
            ranks = [r for r in map(whole, right.elts) if r is not None]
            if ranks:
                self.out.evidence[counted].weak_rank = ranks[0]

    def look(self, root: ast.expr) -> None:
        for node in ast.walk(root):
            if isinstance(node, ast.Attribute):
                alias = self.tensor(node.value) if isinstance(node.value, ast.Name) else None
                if alias is not None and node.attr in _TENSOR_ATTRIBUTES:
                    self.out.evidence[alias.name].tensor += 1
            elif isinstance(node, ast.Subscript):
                self.extent(node)
                self.indexed(node)
            elif isinstance(node, ast.Compare):
                self.compared(node)
            elif isinstance(node, ast.Call):
                self.called(node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                for side in (node.left, node.right):
                    alias = self.tensor(side)
                    if alias is not None:
                        self.out.evidence[alias.name].tensor += 2

    def indexed(self, node: ast.Subscript) -> None:
        shape = self.shape(node.value)
        if shape is not None and whole(node.slice) is None and not isinstance(node.slice, ast.Slice):
            self.at_least(shape, 1)  # `x.shape[dim]`: which axis is a choice only where there are several
        alias = self.tensor(node.value) if isinstance(node.value, ast.Name) else None
        index = whole(node.slice)
        if alias is not None and index is not None and index >= 0:
            evidence = self.out.evidence[alias.name]
            evidence.items = max(evidence.items, index + 1)
        if alias is not None and isinstance(node.slice, ast.Tuple):
            plain = [part for part in node.slice.elts if not isinstance(part, ast.Constant) or type(part.value) is int]
            if len(plain) == len(node.slice.elts):
                self.at_least(alias, len(plain) - 1)

    def compared(self, node: ast.Compare) -> None:
        if not isinstance(node.left, ast.Name) or node.left.id not in self.out.evidence:
            return
        evidence = self.out.evidence[node.left.id]
        for right in node.comparators:
            options = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
            for option in options:
                if isinstance(option, ast.Constant) and isinstance(option.value, str):
                    evidence.texts.append(option.value)
                elif isinstance(option, ast.Constant) and option.value is None:
                    evidence.none = True

    def called(self, node: ast.Call) -> None:
        self.out.calls.append(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("stride", "size") and node.args:
            alias, index = self.tensor(function.value), whole(node.args[0])
            if alias is not None and index is not None:
                self.at_least(alias, index)
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if isinstance(function, ast.Attribute) and name in ("transpose", "swapaxes", "t"):
            alias = self.tensor(function.value)
            if alias is not None:
                self.at_least(alias, 1)
        if name in _FACTORIES:
            for argument in node.args:
                for part in argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument]:
                    if isinstance(part, ast.Name) and part.id in self.out.evidence:
                        self.out.evidence[part.id].scalar += 2
        elif isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "torch":
            for argument in node.args[:1]:
                alias = self.tensor(argument)
                if alias is not None:
                    self.out.evidence[alias.name].tensor += 2


def _dtype(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        return node.attr
    return None


def common(names: list[str]) -> str | None:
    """Return the most frequent of `names`, the first of several."""
    return Counter(names).most_common(1)[0][0] if names else None
