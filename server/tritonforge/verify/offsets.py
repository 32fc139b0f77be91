"""Does a candidate compute an offset in 32 bits that the original computes in 64?

No input of a size that can be run shows it: an offset of 2**31 elements needs a tensor of gigabytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tritonforge.analysis.names import ATOMICS, LANGUAGE, dotted
from tritonforge.analysis.scopes import Scope, parameters_of
from tritonforge.verify.host_code import File
from tritonforge.verify.widths import (
    KINDS,
    LANE,
    LOADED,
    LOOP,
    PROGRAM,
    Term,
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


@dataclass(frozen=True)
class _Access:
    """An access through a pointer that is a parameter, with the products of its address."""

    kernel: str
    pointer: str
    terms: frozenset[Term]


def narrowed_offset(original: File, candidate: File) -> tuple[int, str] | None:
    """Return the line and the pointer of an offset that the candidate computes in 32 bits and the original in 64.

    An access is compared to the original's through the pointer of the same name, in the kernel of the same name where
    there is one. A product of 32 bits is a fault where the original multiplies what it is made of in 64 bits there, and
    nowhere the same in 32.
    """
    before = _accesses(original)
    for one in _accesses(candidate):
        rivals = [o for o in before if o.pointer == one.pointer and o.kernel == one.kernel]
        rivals = rivals or [o for o in before if o.pointer == one.pointer] or before
        terms = [term for rival in rivals for term in rival.terms]
        for term in sorted(one.terms, key=lambda t: t.line):
            if _may_overflow(term) and _is_protected(term.narrow, terms) and not _is_narrow(term.narrow, terms):
                return term.line, one.pointer
    return None


def _may_overflow(term: Term) -> bool:
    """Tell whether a product of 32 bits is an offset: the number of a row, which a stride then multiplies, is none."""
    is_number = not term.narrow - KINDS and bool(term.atoms - term.narrow - KINDS)
    return bool(term.narrow - {LANE}) and not is_number


def _is_protected(product: frozenset[str], terms: Iterable[Term]) -> bool:
    """Tell whether the original multiplies any of it in 64 bits."""
    indices = product & (KINDS - {LANE})
    return any(t.product and t.narrow != t.atoms and t.atoms & ((product - KINDS) | indices) for t in terms)


def _is_narrow(product: frozenset[str], terms: Iterable[Term]) -> bool:
    """Tell whether the original multiplies the same in 32 bits: the same strides, or indices by a constant."""
    strides = product - KINDS
    if strides:
        return any(strides <= t.narrow for t in terms)
    return any(product - {LANE} <= t.narrow for t in terms)


def _accesses(file: File) -> list[_Access]:
    found: list[_Access] = []
    for jit in file.jits.values():
        values = {}
        for parameter, _ in parameters_of(jit.node):
            note = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
            if "constexpr" in note:
                values[parameter.arg] = Width()
            else:
                values[parameter.arg] = atom(parameter.arg, wide=bool(is_wide(parameter.annotation)))
        body = _Body(file, jit.scope, values)
        body.run(jit.node.body)
        for address in body.addresses:
            bases = [t for t in address.terms if not t.product and len(t.atoms) == 1 and not t.atoms & KINDS]
            pointers = {name for t in bases for name in t.atoms}
            found += [_Access(jit.name, name, address.terms) for name in sorted(pointers)]
    return found


@dataclass
class _Body:
    """Runs the statements of a jit function on widths, noting the addresses that it accesses."""

    file: File
    scope: Scope
    values: dict[str, Width]
    depth: int = _DEPTH
    addresses: list[Width] = field(default_factory=list)
    returned: Width | None = None

    def run(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
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
                self._assign(target, self._loop_variable(over))
                self._repeat([*body, *other])
            case ast.While(test=test, body=body, orelse=other):
                self.of(test)
                self._repeat([*body, *other])
            case ast.If(test=test, body=body, orelse=other):
                self.of(test)
                start = dict(self.values)
                self.run(body)
                first, self.values = self.values, start
                self.run(other)
                self._join(first)
            case ast.With(body=body):
                self.run(body)
            case ast.Return(value=ast.expr() as value):
                found = self.of(value)
                self.returned = found if self.returned is None else self.returned.either(found)
            case ast.Expr(value=value):
                self.of(value)
            case _:
                pass

    def _repeat(self, body: list[ast.stmt]) -> None:
        for _ in range(2):
            start = dict(self.values)
            self.run(body)
            self._join(start)

    def _join(self, other: Mapping[str, Width]) -> None:
        for name, value in other.items():
            mine = self.values.get(name)
            self.values[name] = value if mine is None else value.either(mine)

    def _loop_variable(self, over: ast.expr) -> Width:
        if not isinstance(over, ast.Call):
            return self.of(over)
        parts = [self.of(one) for one in over.args]
        wide = any(part.wide for part in parts)
        found = atom(LOOP, wide=wide)
        return found + parts[0] if len(parts) > 1 else found

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
            case ast.IfExp(body=body, orelse=other):
                return self.of(body).either(self.of(other))
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
                for part in (left, *others):
                    self.of(part)
                return Width()
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
        path = dotted(node.func, self.scope) or ""
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
        return Width().mixed(*arguments, *named.values())

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
            self.addresses.append(first)
            return atom(LOADED)
        if name in {"program_id", "num_programs"}:
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
        if name in _CHOICES:
            parts = arguments[1:] if name == "where" else arguments
            return sum(parts, Width())
        if name == "make_block_ptr":
            return first
        return Width().mixed(*arguments, *named.values())

    def _is_wide(self, dtype: ast.expr | None) -> bool | None:
        found = is_wide(dtype)
        if found is None and dtype is not None and (path := dotted(dtype, self.scope)):
            return is_wide(ast.Constant(path))
        return found

    def _helper(self, node: ast.Call, arguments: list[Width], named: Mapping[str, Width]) -> Width | None:
        """Run a jit function of the file that is called; None when it is none."""
        if not isinstance(node.func, ast.Name) or self.depth == 0:
            return None
        jit = next((one for one in self.file.jits.values() if one.name == node.func.id), None)
        if jit is None:
            return None
        parameters = [(one.arg, default) for one, default in parameters_of(jit.node)]
        values = dict.fromkeys((one for one, _ in parameters), Width())
        values |= dict(zip((one for one, _ in parameters), arguments, strict=False))
        values |= {one: value for one, value in named.items() if one in values}
        body = _Body(self.file, jit.scope, values, self.depth - 1)
        body.run(jit.node.body)
        self.addresses += body.addresses
        return body.returned or Width()
