"""Follows the values of a jit function to the addresses that it accesses: products, their width, and what they hang on.

One pass over statements, each loop twice, helpers of the file at their calls. Of every access it notes what its address
is made of (`widths`), and which program axes decide where it goes, whether it happens, and what it stores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.names import ATOMICS, LANGUAGE, dotted
from tritonforge.analysis.scopes import Scope, parameters_of
from tritonforge.analysis.widths import (
    CHOSEN,
    GATHERED,
    LANE,
    LOADED,
    LOOP,
    OPEN,
    PROGRAM,
    Width,
    atom,
    is_wide,
    together,
)

_DEPTH = 6
_SAME = frozenset({"multiple_of", "max_contiguous", "max_constancy", "reshape", "broadcast_to", "expand_dims", "trans"})
"""Functions that change no value of their first argument."""
_CHOICES = frozenset(["where", "minimum", "maximum", "min", "max"])
_ACCESSES = frozenset(["load", "store"]) | ATOMICS
_BLIND = frozenset(["inline_asm_elementwise", "smid", "globaltimer", "clock"])
"""Functions whose result differs between programs, or may."""
_NOTHING: frozenset[int] = frozenset()
_UNKNOWN = frozenset([OPEN])
_EVERY_AXIS = frozenset([0, 1, 2])


@dataclass(frozen=True)
class Found:
    """One access: `name` is `load`, `store` or that of an atomic, `address` what its address is made of.

    `where`, `when` and `what` are the program axes (`OPEN`: something else) that its address, its mask with the
    conditions around it, and the stored value depend on. `arguments` and `named` are its operands.
    """

    node: ast.Call
    name: str
    address: Width
    where: frozenset[int]
    when: frozenset[int]
    what: frozenset[int]


@dataclass
class Budget:
    """How many more statements may be walked (None: any number), and what functions stand for, by their place."""

    left: int | None = None
    paths: dict[int, str] = field(default_factory=dict)

    def spend(self) -> bool:
        """Take one statement; False when there is none left."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0


def follow_addresses(
    jit: JitFunction, jits: Mapping[int, JitFunction], *, statements: int | None = None
) -> list[Found] | None:
    """Return every access that a kernel makes, helpers of the file included, in the order they are met.

    An access in a loop comes once for each pass over it. None when more than `statements` would have to be walked.
    """
    values = {}
    constexprs = _constexprs(jit)
    for parameter, _ in parameters_of(jit.node):
        if parameter.arg in constexprs:
            values[parameter.arg] = Width()
        else:
            values[parameter.arg] = atom(parameter.arg, wide=bool(is_wide(parameter.annotation)))
    budget = Budget(statements)
    body = Body(jits, jit.scope, values, budget=budget, constexprs=constexprs)
    body.run(jit.node.body)
    return body.found if budget.left is None or budget.left >= 0 else None


def _constexprs(jit: JitFunction) -> frozenset[str]:
    notes = ((p.arg, p.annotation) for p, _ in parameters_of(jit.node) if p.annotation is not None)
    return frozenset(name for name, note in notes if "constexpr" in ast.unparse(note))


@dataclass
class Body:
    """Runs the statements of a jit function on widths, noting what it accesses."""

    jits: Mapping[int, JitFunction]
    scope: Scope
    values: dict[str, Width]
    depth: int = _DEPTH
    budget: Budget = field(default_factory=Budget)
    guard: frozenset[int] = _NOTHING
    constexprs: frozenset[str] = frozenset()
    found: list[Found] = field(default_factory=list)
    returned: Width | None = None

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Run statements in order."""
        for statement in statements:
            if not self.budget.spend():
                return
            self._run(statement)

    def _run(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.of(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.of(value))
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                self._assign(target, self._operate(op, self.of(target), self.of(value), node.lineno))
            case ast.For(target=target, iter=over, body=body, orelse=other):
                variable, bounds = self._loop_variable(over)
                self._assign(target, variable)
                self._repeat([*body, *other], bounds)
            case ast.While(test=test, body=body, orelse=other):
                self._repeat([*body, *other], self.of(test).depends)
            case ast.If(test=test, body=body, orelse=other):
                chosen = any(isinstance(one, ast.Name) and one.id in self.constexprs for one in ast.walk(test))
                self._if(self.of(test).depends | ({CHOSEN} if chosen else _NOTHING), body, other)
            case ast.With(body=body):
                self.run(body)
            case ast.Return(value=ast.expr() as value):
                found = self.of(value).on(self.guard)
                self.returned = found if self.returned is None else self.returned.either(found)
            case ast.Expr(value=value):
                self.of(value)
            case _:
                pass

    def _if(self, axes: frozenset[int], body: list[ast.stmt], other: list[ast.stmt]) -> None:
        start, outside = dict(self.values), self.guard
        self.guard = outside | axes
        self.run(body)
        first, self.values = self.values, start
        before = dict(start)
        self.run(other)
        self._join(first)
        self._mark(before, axes - {CHOSEN})
        # What follows an early return happens only where the condition lets it.
        ends = any(part and isinstance(part[-1], ast.Return) for part in (body, other))
        self.guard = outside | axes if ends else outside

    def _repeat(self, body: list[ast.stmt], bounds: frozenset[int]) -> None:
        before, outside = dict(self.values), self.guard
        self.guard = outside | bounds
        for _ in range(2):
            start = dict(self.values)
            self.run(body)
            self._join(start)
        self._mark(before, bounds)
        self.guard = outside

    def _join(self, other: Mapping[str, Width]) -> None:
        for name, value in other.items():
            mine = self.values.get(name)
            self.values[name] = value if mine is None else mine if mine is value else value.either(mine)

    def _mark(self, before: Mapping[str, Width], axes: frozenset[int]) -> None:
        """Let what was assigned under a condition depend on what the condition depends on."""
        if axes:
            for name, value in self.values.items():
                if before.get(name) is not value:
                    self.values[name] = value.on(axes)

    def _loop_variable(self, over: ast.expr) -> tuple[Width, frozenset[int]]:
        if not isinstance(over, ast.Call):
            found = self.of(over)
            return found, found.depends
        parts = [self.of(one) for one in over.args]
        wide = any(part.wide for part in parts)
        axes = frozenset().union(*(part.depends for part in parts))
        found = atom(LOOP, wide=wide).on(axes)
        return (found + parts[0] if len(parts) > 1 else found), axes

    def _assign(self, target: ast.expr, value: Width) -> None:
        match target:
            case ast.Name(id=name):
                self.values[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = value.items if value.items is not None and len(value.items) == len(parts) else None
                for number, part in enumerate(parts):
                    self._assign(part, items[number] if items else value)
            case _:
                pass

    def of(self, node: ast.expr) -> Width:
        """Evaluate an expression."""
        match node:
            case ast.Name(id=name):
                return self.values.get(name, Width())
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(op, self.of(left), self.of(right), node.lineno)
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.of(body).either(self.of(other)).on(self.of(test).depends)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return together([self.of(part) for part in parts])
            case ast.Subscript(value=value, slice=ast.Constant(value=int(number))):
                found = self.of(value)
                return found.items[number] if found.items and -1 < number < len(found.items) else found
            case ast.Subscript(value=value) | ast.Attribute(value=value) | ast.NamedExpr(value=value):
                found = self.of(value)
                if isinstance(node, ast.NamedExpr):
                    self._assign(node.target, found)
                return found
            case ast.Compare(left=left, comparators=others):
                axes = frozenset().union(*(self.of(part).depends for part in (left, *others)))
                return Width(depends=axes)
            case ast.BoolOp(values=parts):
                return self.of(parts[0]).mixed(*(self.of(part) for part in parts[1:]))
            case ast.Call():
                return self._call(node)
            case _:
                return Width()

    @staticmethod
    def _operate(op: ast.operator, left: Width, right: Width, line: int) -> Width:
        if isinstance(op, (ast.Add, ast.Sub)):
            return left + right
        if isinstance(op, (ast.Mult, ast.LShift)):
            return left.times(right, line)
        return left.mixed(right)

    def _call(self, node: ast.Call) -> Width:
        paths = self.budget.paths
        if id(node) not in paths:
            paths[id(node)] = dotted(node.func, self.scope) or ""
        path = paths[id(node)]
        name = path.rpartition(".")[2]
        arguments = [self.of(one.value if isinstance(one, ast.Starred) else one) for one in node.args]
        named = {one.arg: self.of(one.value) for one in node.keywords if one.arg}
        if path.startswith(LANGUAGE):
            return self._of_language(node, name, arguments, named)
        helper = self._helper(node, arguments, named)
        if helper is not None:
            return helper
        if isinstance(node.func, ast.Attribute):
            return self._of_language(node, node.func.attr, [self.of(node.func.value), *arguments], named, method=True)
        if name in _CHOICES:
            return sum(arguments, Width())
        found = Width().mixed(*arguments, *named.values())
        return found if path.startswith("triton.") or name in _BUILTINS else found.on(_UNKNOWN)

    def _of_language(
        self, node: ast.Call, name: str, arguments: list[Width], named: dict[str, Width], *, method: bool = False
    ) -> Width:
        first = arguments[0] if arguments else next(iter(named.values()), Width())
        dtype = next((one.value for one in node.keywords if one.arg in {"dtype", "dst_ty"}), None)
        if name in {"to", "cast"}:
            position = 0 if method else 1
            dtype = dtype or (node.args[position] if len(node.args) > position else None)
            return first.cast(self._is_wide(dtype), node.lineno)
        if name in _ACCESSES:
            return self._access(node, name, arguments, named, method=method)
        if name == "program_id":
            axis = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "axis"), None)
            known = isinstance(axis, ast.Constant) and isinstance(axis.value, int)
            return atom(PROGRAM).on(frozenset([axis.value]) if known else _EVERY_AXIS)  # type: ignore[union-attr]
        if name == "num_programs":
            return atom(PROGRAM)
        if name == "arange":
            return atom(LANE)
        if name in {"full", "zeros", "full_like", "zeros_like"}:
            position = {"full": 2, "zeros": 1}.get(name, len(node.args))
            dtype = dtype or (node.args[position] if len(node.args) > position else None)
            value = arguments[1] if name == "full" and len(arguments) > 1 else named.get("value", Width())
            return value.cast(self._is_wide(dtype), node.lineno)
        if name in _SAME:
            return first
        everything = [*arguments, *named.values()]
        if name in _CHOICES:
            parts = arguments[1:] if name == "where" else arguments
            return sum(parts, Width()).on(frozenset().union(*(one.depends for one in everything)))
        if name in {"make_block_ptr", "make_tensor_descriptor"}:
            return first.on(frozenset().union(*(one.depends for one in everything)))
        found = Width().mixed(*everything)
        return found.on(_UNKNOWN) if name in _BLIND else found

    def _access(
        self, node: ast.Call, name: str, arguments: list[Width], named: dict[str, Width], *, method: bool
    ) -> Width:
        """Note an access. Through a descriptor (`method`), offsets come after it and the value last."""
        address = named.get("pointer", arguments[0] if arguments else Width())
        where = address.depends
        when = self.guard
        if method:
            offsets = arguments[1:2]
            where = where.union(*(one.depends for one in offsets))
            values = arguments[2:]
        else:
            value = {"load": 0, "atomic_cas": 2}.get(name, 1)
            values = arguments[1 : 1 + value]
            values += [named[key] for key in ("value", "val", "cmp") if key in named]
            masks = arguments[1 + value :]
            when = when.union(*(one.depends for one in masks), *(named[k].depends for k in ("mask",) if k in named))
        what = frozenset().union(*(one.depends for one in values))
        self.found.append(Found(node, name, address, where, when, what))
        axes = (where | when) - {CHOSEN}
        if LANE in address.atoms or GATHERED in where:
            axes |= {GATHERED}
        return atom(LOADED).on(axes if name == "load" else axes | _UNKNOWN)

    def _is_wide(self, dtype: ast.expr | None) -> bool | None:
        found = is_wide(dtype)
        if found is None and dtype is not None and (path := dotted(dtype, self.scope)):
            return is_wide(ast.Constant(path))
        return found

    def _helper(self, node: ast.Call, arguments: list[Width], named: Mapping[str, Width]) -> Width | None:
        """Run a jit function of the file that is called; None when it is none."""
        if not isinstance(node.func, ast.Name) or self.depth == 0:
            return None
        jit = next((one for one in self.jits.values() if one.name == node.func.id), None)
        if jit is None:
            return None
        parameters = [(one.arg, default) for one, default in parameters_of(jit.node)]
        values = dict.fromkeys((one for one, _ in parameters), Width())
        values |= dict(zip((one for one, _ in parameters), arguments, strict=False))
        values |= {one: value for one, value in named.items() if one in values}
        body = Body(self.jits, jit.scope, values, self.depth - 1, self.budget, self.guard, _constexprs(jit))
        body.run(jit.node.body)
        self.found += body.found
        return body.returned or Width()


_BUILTINS = frozenset(["abs", "int", "float", "bool", "len", "round", "isinstance", "print", "tuple", "range"])
