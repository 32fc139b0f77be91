"""The order in which programs start: the longest first, and neighbours that share what they load.

None of these changes what a program computes, only which place it has among the others. Each is a bijection of the
program ids along one or two axes, so every tile is still computed once.

`heaviest-first`: programs start in the order of their ids. Where a causal loop grows with the id, the longest start
last, and the device waits for them with most of its multiprocessors idle; counted down from the end, the short ones
fill the gaps (longest processing time first, R. L. Graham, 1969).
Preconditions: a loop over tiles whose bounds surely grow with the program id of one axis; more programs than the device
has multiprocessors, since those that all start at once have no order; nothing else asks for that id.

`grouped-programs` and `program-axes`: programs that run at the same time load from L2 what they share. In groups of
rows (`tl.swizzle2d`) they share both operands of a dot; with the axes in the other order they share the larger tile.
Preconditions: the finding TF104, which is counted by the hardware (measured without it, grouping gave about 1 %); two
axes, each asked for once in a statement of its own. For other axes: a grid that is a tuple, far below the 65,535
programs that fit along y, and a tile along x that is larger than the one along y.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.plausibility import MOST_PROGRAMS
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, integer, name_of, with_value
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, line_of, nodes_of, replaced
from tritonforge.rewrite.structural.loops import times_set
from tritonforge.rewrite.structural.walking import program_ids
from tritonforge.rewrite.structural.workspace import grid_tuple

_GROUPS = (8, 4)
_MARGIN = 16
"""How many times more programs than were recorded must still fit along y."""


class HeaviestFirst:
    """Programs of causal loops, the longest first."""

    name = "heaviest-first"
    treats = frozenset({"TF306"})
    classes: frozenset[BottleneckClass] = frozenset({"load-imbalance"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        loops = [n for n in nodes_of(text.function) if isinstance(n, cst.For)]
        if not loops or _asks_for_count(text):
            raise Absent("no loop grows with the program id, or programs are ordered already")
        growth = _Growth(text)
        axes = [axis for axis in range(3) if text.launch.config.grid[axis] > 1 and growth.of_loops(loops, axis) == 1]
        if len(axes) != 1:
            raise Absent("no loop surely grows with the program id of one axis")
        (axis,) = axes
        spec = gpu_for(text.task.arch)
        programs = math.prod(text.launch.config.grid)
        if programs <= (spec.sms if spec else 100):
            raise Refused(f"{programs} programs start at once, whatever their order")
        words = f"{text.tl}.num_programs({axis}) - 1 - {text.tl}.program_id({axis})"
        made: list[tuple[cst.CSTNode, Replacement]] = []
        alone = {id(n.value) for n in nodes_of(text.function) if isinstance(n, cst.Assign)}
        for call, _ in program_ids(text, {axis}):
            made.append((call, cst.parse_expression(words if id(call) in alone else f"({words})")))
        yield Change("longest programs first", text.edits(replaced(text.function, made)))


class GroupedPrograms:
    """Programs in groups of rows, which share both operands in L2."""

    name = "grouped-programs"
    treats = frozenset({"TF104"})
    classes: frozenset[BottleneckClass] = frozenset()

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield groups of 8 and of 4 rows."""
        first, second = _asking(text)
        names = {first.axis: first.name, second.axis: second.name}
        tl = text.tl
        rows = [n for n in _GROUPS if text.launch.config.grid[1] >= 2 * n]
        if not rows:
            raise Refused(f"{text.launch.config.grid[1]} rows of programs are too few for groups")
        for group in rows:
            # Programs along x start next to each other, so they are the columns of what is swizzled.
            words = (
                f"{names[1]}, {names[0]} = {tl}.swizzle2d({tl}.program_id(1), {tl}.program_id(0), "
                f"{tl}.num_programs(1), {tl}.num_programs(0), {group})"
            )
            new = line_of(words).with_changes(
                leading_lines=[*first.line.leading_lines, *(x for x in second.line.leading_lines if x.comment)],
                trailing_whitespace=first.line.trailing_whitespace,
            )
            function = replaced(text.function, [(first.line, new), (second.line, cst.RemoveFromParent())])
            yield Change(f"programs in groups of {group} rows", text.edits(function), (("group", str(group)),))


class ProgramAxes:
    """The axes of the grid in the other order."""

    name = "program-axes"
    treats = frozenset({"TF104"})
    classes: frozenset[BottleneckClass] = frozenset()

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        _asking(text)
        x, y, z = text.launch.config.grid
        along_x, along_y = _elements(text, 0), _elements(text, 1)
        if along_x <= along_y:
            raise Absent("neighbouring programs share the larger tile already")
        if x * _MARGIN > MOST_PROGRAMS:
            raise Refused(f"{x} programs along y leave little room below {MOST_PROGRAMS} for larger sizes")
        host = Host(text)
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        grid = grid_tuple(host)
        if len(grid.elts) < 2:
            raise Refused("the grid in the text has one axis")
        for axis in (0, 1):
            host.extent(0, axis)
        made: list[tuple[cst.CSTNode, Replacement]] = [
            (call, with_value(call, argument(call, "program_id", "axis"), "axis", cst.Integer(str(1 - axis))))
            for call, axis in program_ids(text, {0, 1})
        ]
        source = text.source
        one, other = grid.elts[:2]
        edits = (
            *text.edits(replaced(text.function, made)),
            source.replace(one, source.segment(other)),
            source.replace(other, source.segment(one)),
        )
        yield Change("program axes in the other order", edits, (), {}, (y, x, z))


def _asks_for_count(text: KernelText) -> bool:
    return any(name_of(n, text.tl) == "num_programs" for n in nodes_of(text.function))


@dataclass(frozen=True)
class _Asked:
    """A statement that sets a variable to the program id along an axis."""

    line: cst.SimpleStatementLine
    name: str
    axis: int


def _asking(text: KernelText) -> tuple[_Asked, _Asked]:
    """Return the two statements that ask for the ids of the axes 0 and 1, in the order of the text.

    Raises:
        Absent: nothing was counted that another order mends, or programs are ordered already.
        Refused: they are not asked for in that way.
    """
    if not any(f.code == "TF104" for f in text.task.findings):
        raise Absent("no counter shows that programs lose in L2 what they share")
    if _asks_for_count(text):
        raise Absent("the kernel asks for the number of its programs, so that they are ordered already")
    if min(text.launch.config.grid[:2]) < 2:
        raise Absent("programs lie along one axis")
    calls = {id(call): axis for call, axis in program_ids(text, {0, 1})}
    found: list[_Asked] = []
    for line in text.function.body.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and id(small.value) in calls:
            assert isinstance(line, cst.SimpleStatementLine)
            found.append(_Asked(line, code(small.targets[0].target), calls[id(small.value)]))
    if len(calls) != 2 or sorted(one.axis for one in found) != [0, 1]:
        raise Refused("the kernel does not ask once for each program id, in statements of their own")
    counted = times_set(text.function.body)
    if any(counted[one.name] != 1 for one in found):
        raise Refused("a program id is changed in the kernel")
    return found[0], found[1]


def _elements(text: KernelText, axis: int) -> int:
    """Return how many elements a program loads at addresses that depend on its place along one axis alone."""
    flow = flow_of(text.function, text.kernel, text.tl)
    total = 0
    for node in nodes_of(text.function):
        if not isinstance(node, cst.Call) or name_of(node, text.tl) != "load" or not node.args:
            continue
        value = flow.of(node.args[0].value)
        if value.programs != {axis}:
            continue
        sizes = [text.size(words) for words in value.shape] if value.shape is not None else [None]
        if None in sizes:
            raise Refused("how much a program loads cannot be told from the text")
        total += math.prod(size for size in sizes if size is not None)
    return total


class _Growth:
    """How an expression of a kernel changes as the id of the program grows.

    1: it never falls; -1: it never rises; 0: it stays; None: nobody can tell. Sizes, strides and tiles are not below 0.
    """

    def __init__(self, text: KernelText) -> None:
        self.text = text
        counted = times_set(text.function.body)
        self.parameters = {p.name: p for p in text.kernel.parameters}
        self.known = {
            n.targets[0].target.value: n.value
            for n in nodes_of(text.function)
            if isinstance(n, cst.Assign)
            and isinstance(n.targets[0].target, cst.Name)
            and counted[n.targets[0].target.value] == 1
        }
        self.counted = counted

    def of_loops(self, loops: list[cst.For], axis: int) -> int | None:
        """Return how the rounds of all loops together change; one that begins where the last one ended is its rest."""
        spans: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        for loop in loops:
            bounds = loop.iter
            if not isinstance(bounds, cst.Call) or code(bounds.func) not in {"range", f"{self.text.tl}.range"}:
                return None
            plain = [a.value for a in bounds.args if a.keyword is None]
            start, stop = (cst.Integer("0"), plain[0]) if len(plain) == 1 else (plain[0], plain[1])
            if spans and code(spans[-1][1]) == code(start):
                start = spans.pop()[0]
            spans.append((start, stop))
        growth: int | None = 0
        for start, stop in spans:
            growth = _both(growth, _both(self.of(stop, axis), _turned(self.of(start, axis))))
        return growth

    def of(self, node: cst.BaseExpression, axis: int, depth: int = 0) -> int | None:
        """Return how an expression changes."""
        if depth > 8:
            return None
        match node:
            case cst.Integer() | cst.Float():
                return 0
            case cst.Name():
                return self._of_name(node.value, axis, depth)
            case cst.BinaryOperation():
                return self._of_operation(node, axis, depth)
            case cst.Call():
                return self._of_call(node, axis, depth)
            case _:
                return None

    def _of_name(self, name: str, axis: int, depth: int) -> int | None:
        if name in self.known:
            return self.of(self.known[name], axis, depth + 1)
        parameter = self.parameters.get(name)
        return 0 if parameter is not None and parameter.role != "pointer" and not self.counted[name] else None

    def _of_operation(self, node: cst.BinaryOperation, axis: int, depth: int) -> int | None:
        left, right = (self.of(side, axis, depth + 1) for side in (node.left, node.right))
        match node.operator:
            case cst.Add():
                return _both(left, right)
            case cst.Subtract():
                return _both(left, _turned(right))
            case cst.Multiply() if right == 0 and self._is_size(node.right):
                return left
            case cst.Multiply() if left == 0 and self._is_size(node.left):
                return right
            case cst.FloorDivide() if right == 0 and self._is_size(node.right):
                return left
            case _:
                return 0 if left == 0 and right == 0 else None

    def _is_size(self, node: cst.BaseExpression) -> bool:
        value = integer(node)
        if value is not None:
            return value > 0
        parameter = self.parameters.get(code(node))
        return parameter is not None and (parameter.constexpr or parameter.role in {"scalar", "stride"})

    def _of_call(self, node: cst.Call, axis: int, depth: int) -> int | None:
        called = name_of(node, self.text.tl) or code(node.func)
        if called == "program_id":
            return int(integer(node.args[0].value) == axis) if integer(node.args[0].value) is not None else None
        if called in {"minimum", "maximum", "min", "max"}:
            growth: int | None = 0
            for arg in node.args:
                growth = _both(growth, self.of(arg.value, axis, depth + 1))
            return growth
        if called == "cdiv" and len(node.args) == 2 and self._is_size(node.args[1].value):
            return self.of(node.args[0].value, axis, depth + 1)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
            return self.of(node.func.value, axis, depth + 1)
        return None


def _turned(growth: int | None) -> int | None:
    return None if growth is None else -growth


def _both(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    return one or other if 0 in {one, other} or one == other else None
