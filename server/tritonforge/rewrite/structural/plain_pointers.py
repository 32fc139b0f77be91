"""Block pointers as plain ones: `tl.make_block_ptr` is gone in Triton 3.8, and what it hid can be tuned once it shows.

A block pointer becomes a column of offsets for each axis. An access becomes one of `base` plus these times the strides,
in 64 bits as block pointers compute it, with a mask for each axis that `boundary_check` names; `tl.advance` adds to the
offsets. Nothing makes block pointers out of plain ones: later versions of Triton do not have them.

Preconditions: every block pointer is made by a call that is written out and held by a name; it is loaded, stored,
advanced and nothing else, and what it is made of is not set again; the file has `tl`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import elements, grouped, integer, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, Replacement, code, line_of, nodes_of, replaced
from tritonforge.rewrite.structural.loops import names_in, sets

_MADE = ("base", "shape", "strides", "offsets", "block_shape", "order")
_LOADED = (
    "pointer",
    "mask",
    "other",
    "boundary_check",
    "padding_option",
    "cache_modifier",
    "eviction_policy",
    "volatile",
)
_STORED = ("pointer", "value", "mask", "boundary_check", "cache_modifier", "eviction_policy")
_FILLED = {'"zero"': "0.0", "'zero'": "0.0", '"nan"': 'float("nan")', "'nan'": 'float("nan")', "": "0.0"}
_Pairs = list[tuple[cst.BaseExpression, cst.BaseExpression | None]]
_DEEPEST = 8
"""Variables that an offset is followed through."""
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)


class PlainPointers:
    """Accesses without block pointers."""

    name = "plain-pointers"
    treats = frozenset({"TF601", "TF110"})
    classes: frozenset[BottleneckClass] = frozenset()

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        yield Change("plain pointers instead of block pointers", text.edits(_Blocks(text).rewritten()))


@dataclass(frozen=True)
class _Block:
    """One block pointer: the text of its parts, axis by axis, and the names of its offsets.

    `negative` says for every axis whether its offsets may be below 0.
    """

    base: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    extents: tuple[str, ...]
    names: tuple[str, ...]
    negative: tuple[bool, ...]


class _Blocks:
    def __init__(self, text: KernelText) -> None:
        self.text, self.tl = text, text.tl
        self.blocks: dict[str, _Block] = {}
        self.fresh = Names(text)
        self.made: list[tuple[cst.CSTNode, Replacement]] = []
        self.seen: set[int] = set()

    def rewritten(self) -> cst.FunctionDef:
        """Return the kernel without block pointers."""
        nodes = list(nodes_of(self.text.function))
        if not any(name_of(n, self.tl) == "make_block_ptr" for n in nodes):
            raise Absent("the kernel has no block pointer")
        lines = [n for n in nodes if isinstance(n, cst.SimpleStatementLine)]
        moved = [self.assigned(line, "advance") for line in lines]
        for line in lines:
            self.define(line)
        for line, found in zip(lines, moved, strict=True):
            if found is not None:
                self.advance(line, *found)
        for node in nodes:
            if isinstance(node, cst.Call) and name_of(node, self.tl) in {"load", "store"}:
                self.access(node)
        for node in nodes:
            if isinstance(node, cst.Name) and node.value in self.blocks and id(node) not in self.seen:
                raise Refused(f"the block pointer {node.value} is used in another way than being accessed and advanced")
        count = sum(name_of(n, self.tl) == "make_block_ptr" for n in nodes)
        if count != len(self.blocks):
            raise Refused("a block pointer is made twice, or where it is used")
        return replaced(self.text.function, self.made)

    def assigned(self, line: cst.SimpleStatementLine, function: str) -> tuple[cst.Name, cst.Call] | None:
        """Return the name and the call of `name = tl.function(…)`, alone on its line."""
        small = line.body[0]
        if len(line.body) != 1 or not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return None
        target, value = small.targets[0].target, small.value
        if not isinstance(target, cst.Name) or not isinstance(value, cst.Call) or name_of(value, self.tl) != function:
            return None
        return target, value

    def define(self, line: cst.SimpleStatementLine) -> None:
        found = self.assigned(line, "make_block_ptr")
        if found is None:
            return
        target, call = found
        given = _arguments(call, _MADE)
        listed = [elements(given.get(name)) for name in ("shape", "strides", "offsets", "block_shape")]
        rank = len(listed[0] or ())
        if "base" not in given or not rank or any(part is None or len(part) != rank for part in listed):
            raise Refused(f"the block pointer {target.value} is not written out")
        if target.value in self.blocks:
            raise Refused(f"the block pointer {target.value} is made twice")
        # What is multiplied by a stride needs brackets; sums and comparisons bind less than what stands in them.
        shape, _, offsets, extents = ([code(_summand(one)) for one in part or ()] for part in listed)
        strides = [code(grouped(one)) for one in listed[1] or ()]
        names = self.names(target.value, rank)
        negative = tuple(not self.is_positive(one) for one in listed[2] or ())
        self.blocks[target.value] = _Block(
            code(_summand(given["base"])), tuple(shape), tuple(strides), tuple(extents), names, negative
        )
        self.check_kept(line, target.value, [given["base"], *(listed[0] or ()), *(listed[1] or ())])
        self.seen.add(id(target))
        rows = []
        for name, offset, extent in zip(names, offsets, extents, strict=True):
            lanes = f"{self.tl}.arange(0, {extent})"
            rows.append(line_of(f"{name} = {lanes}" if offset == "0" else f"{name} = {offset} + {lanes}"))
        rows[0] = rows[0].with_changes(leading_lines=line.leading_lines)
        rows[-1] = rows[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        self.made.append((line, cst.FlattenSentinel(rows)))

    def check_kept(self, line: cst.SimpleStatementLine, pointer: str, parts: Sequence[cst.BaseExpression]) -> None:
        """Check that a base, lengths and strides are still the same where the block is accessed.

        Raises:
            Refused: one of them is set again behind the line that makes the block pointer.
        """
        statements = [n for n in nodes_of(self.text.function) if isinstance(n, cst.SimpleStatementLine | cst.For)]
        later = statements[statements.index(line) + 1 :]
        again = {n for part in parts for n in names_in(part)} & {n for one in later for n in sets(one)}
        if again:
            raise Refused(f"{min(again)}, which the block pointer {pointer} is made of, is set again")

    def names(self, pointer: str, rank: int) -> tuple[str, ...]:
        """Return names for the offsets along each axis."""
        stem = next(
            (pointer.removesuffix(end) for end in ("_block_ptr", "_ptr", "_bp", "_desc") if pointer.endswith(end)),
            pointer,
        )
        axes = {1: ("at",), 2: ("rows", "cols")}.get(rank, tuple(f"at_{i}" for i in range(rank)))
        return tuple(self.fresh(f"{stem}_{axis}", f"{pointer}_{axis}") for axis in axes)

    def advance(self, line: cst.SimpleStatementLine, target: cst.Name, call: cst.Call) -> None:
        given = _arguments(call, ("base", "offsets"))
        source, steps = given.get("base"), elements(given.get("offsets"))
        block = self.blocks.get(source.value) if isinstance(source, cst.Name) else None
        if block is None or source is None or steps is None or len(steps) != len(block.names):
            raise Refused(f"a step of the block pointer {target.value} is not written out")
        if not isinstance(source, cst.Name) or source.value != target.value:
            raise Refused(f"the block pointer {target.value} is made of another one")
        self.seen |= {id(source), id(target)}
        negative = tuple(n or not self.is_positive(s) for n, s in zip(block.negative, steps, strict=True))
        self.blocks[target.value] = dataclasses.replace(block, negative=negative)
        pairs = [(n, s) for n, s in zip(block.names, steps, strict=True) if integer(s) != 0]
        rows = [line_of(f"{name} += {code(step)}") for name, step in pairs]
        if not rows:
            self.made.append((line, cst.RemoveFromParent()))
            return
        rows[0] = rows[0].with_changes(leading_lines=line.leading_lines)
        rows[-1] = rows[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        self.made.append((line, cst.FlattenSentinel(rows)))

    def is_positive(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Tell whether an offset is known to be no less than 0, as places of programs and rounds are.

        Sums, products and quotients of such are; of `a // b` and `a % b` Triton takes the sign of `a`, where `b` is a
        number of things.
        """
        if isinstance(node, cst.Integer):
            return True
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Add | cst.Multiply):
                return self.is_positive(node.left, depth) and self.is_positive(node.right, depth)
            whole = isinstance(node.operator, cst.FloorDivide | cst.Modulo)
            return whole and self.is_positive(node.left, depth)
        if isinstance(node, cst.Call):
            method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
            if method and isinstance(node.func, cst.Attribute):
                return self.is_positive(node.func.value, depth)
            return name_of(node, self.tl) in {"program_id", "num_programs", "cdiv"}
        if not isinstance(node, cst.Name) or depth > _DEEPEST:
            return False
        parameter = self.text.kernel.parameter(node.value)
        if parameter is not None:
            return parameter.constexpr and node.value not in self.values
        values = self.values.get(node.value, [])
        return bool(values) and all(v is not None and self.is_positive(v, depth + 1) for v in values)

    @cached_property
    def values(self) -> dict[str, list[cst.BaseExpression | None]]:
        """What the kernel's variables are set to; None where that is not written out."""
        found: dict[str, list[cst.BaseExpression | None]] = {}
        for node in nodes_of(self.text.function.body):
            if isinstance(node, cst.For):
                bounds = node.iter.args if isinstance(node.iter, cst.Call) else ()
                parts = [a.value for a in bounds if a.keyword is None]
                begin = cst.Integer("0") if len(parts) == 1 else parts[0] if parts else None
                step = parts[2] if len(parts) > 2 else cst.Integer("1")
                parameter = self.text.kernel.parameter(code(step))
                up = isinstance(step, cst.Integer) or (parameter is not None and parameter.constexpr)
                pairs: _Pairs = [(node.target, begin if up else None)]
            elif isinstance(node, cst.Assign):
                pairs = [pair for t in node.targets for pair in _pairs(t.target, node.value)]
            elif isinstance(node, cst.AugAssign | cst.AnnAssign):
                adds = isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign | cst.MultiplyAssign)
                pairs = [(node.target, node.value if adds else None)]
            else:
                continue
            for target, value in pairs:
                for name in names_in(target):
                    found.setdefault(name, []).append(value if isinstance(target, cst.Name) else None)
        return found

    def access(self, call: cst.Call) -> None:
        loads = name_of(call, self.tl) == "load"
        given = _arguments(call, _LOADED if loads else _STORED)
        pointer = given.get("pointer")
        block = self.blocks.get(pointer.value) if isinstance(pointer, cst.Name) else None
        if block is None or pointer is None:
            return
        if "mask" in given or "other" in given:
            raise Refused(f"{code(call)} masks a block pointer")
        checked = self.checked(given.get("boundary_check"), len(block.names), call)
        terms = [block.base]
        for axis, (name, stride) in enumerate(zip(block.names, block.strides, strict=True)):
            spread = f"{name}{_spread(axis, len(block.names))}.to({self.tl}.int64)"
            terms.append(spread if stride == "1" else f"{spread} * {stride}")
        arguments = [cst.Arg(cst.parse_expression(" + ".join(terms)))]
        if not loads:
            if any(isinstance(n, cst.Name) and n.value in self.blocks for n in nodes_of(call.args[1])):
                raise Refused(f"{code(call)} stores what it loads in one expression")
            arguments.append(cst.Arg(given["value"]))
        bounds = [one for axis in checked for one in self.bounds(block, axis)]
        if bounds:
            mask = bounds[0] if len(bounds) == 1 else " & ".join(f"({one})" for one in bounds)
            arguments.append(_keyword("mask", mask))
        if bounds and loads:
            option = given.get("padding_option")
            filled = _FILLED.get(code(option) if option is not None else "")
            if filled is None:
                raise Refused(f"{code(call)} pads in a way that is not known")
            arguments.append(_keyword("other", filled))
        kept = ("cache_modifier", "eviction_policy", "volatile")
        arguments.extend(_keyword(name, code(given[name])) for name in kept if name in given)
        self.seen.add(id(pointer))
        between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        arguments = [one.with_changes(comma=between) for one in arguments[:-1]] + arguments[-1:]
        new = cst.Call(call.func, arguments, lpar=call.lpar, rpar=call.rpar)
        self.made.append((call, new))

    def checked(self, given: cst.BaseExpression | None, rank: int, call: cst.Call) -> list[int]:
        listed = elements(given) if given is not None else ()
        if listed is None and isinstance(given, cst.Integer):
            listed = (given,)
        axes = [integer(one) for one in listed or ()]
        if listed is None or any(axis is None or not 0 <= axis < rank for axis in axes):
            raise Refused(f"{code(call)} checks boundaries that are not written out")
        return sorted({axis for axis in axes if axis is not None})

    def bounds(self, block: _Block, axis: int) -> list[str]:
        """Return the conditions under which offsets along an axis lie inside."""
        name, extent = f"{block.names[axis]}{_spread(axis, len(block.names))}", block.shape[axis]
        return [*([f"{name} >= 0"] if block.negative[axis] else []), f"{name} < {extent}"]


def _summand(node: cst.BaseExpression) -> cst.BaseExpression:
    return node if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC) else grouped(node)


def _arguments(call: cst.Call, names: tuple[str, ...]) -> dict[str, cst.BaseExpression]:
    if any(a.star for a in call.args):
        raise Refused(f"{code(call)} spreads its arguments")
    positional = [a.value for a in call.args if a.keyword is None]
    given = dict(zip(names, positional, strict=False))
    return given | {a.keyword.value: a.value for a in call.args if a.keyword is not None}


def _pairs(target: cst.BaseExpression, value: cst.BaseExpression) -> _Pairs:
    """Return what is set to what by an assignment, of several variables too."""
    targets, values = elements(target), elements(value)
    if targets is None:
        return [(target, value)]
    if values is None or len(values) != len(targets):
        return [(one, None) for one in targets]
    return list(zip(targets, values, strict=True))


def _spread(axis: int, rank: int) -> str:
    """Return `[:, None]` for the first of two axes; nothing for the only one."""
    return "" if rank == 1 else f"[{', '.join(':' if i == axis else 'None' for i in range(rank))}]"


def _keyword(name: str, value: str) -> cst.Arg:
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), keyword=cst.Name(name), equal=tight)
