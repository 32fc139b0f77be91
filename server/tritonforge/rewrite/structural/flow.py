"""What is known of every expression of a kernel: its shape, and which program ids it depends on.

An abstract interpretation of the body, statement by statement, loops until nothing changes. It knows Triton's
broadcasting and the functions of `calls.SIGNATURES`; what it does not know has no shape, and a rewrite that needs one
declines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from tritonforge.domain.kernel import Kernel
from tritonforge.rewrite.structural.calls import (
    ELEMENTWISE,
    REDUCTIONS,
    SCANS,
    elements,
    integer,
    leaf_of,
    name_of,
    value_of,
)
from tritonforge.rewrite.structural.kernel_text import code

Shape = tuple[str, ...]
"""Extents as source text, outermost first; `()` for one element."""


@dataclass(frozen=True)
class Value:
    """What is known of an expression.

    `shape` is None when unknown. `programs` are the axes whose program id decides about it. `definitions` are the ids
    of the assignments that it may come from, for names. `steps` are the variables of the loops around that decide.
    """

    shape: Shape | None = ()
    programs: frozenset[int] = frozenset()
    steps: frozenset[str] = frozenset()
    definitions: frozenset[int] = frozenset()

    def joined(self, other: Value) -> Value:
        """Return what is known of something that is either of the two."""
        return Value(
            self.shape if self.shape == other.shape else None,
            self.programs | other.programs,
            self.steps | other.steps,
            self.definitions | other.definitions,
        )


Environment = dict[str, Value]


@dataclass
class Flow:
    """The result: `values` by the id of an expression's node, `meets` where definitions of one name come together.

    `meets` maps a loop or branch (by id) to name → the values that meet there: the one from before and the one from
    inside. `unknown` are calls of which nothing is known.
    """

    tl: str
    values: dict[int, Value] = field(default_factory=dict)
    statements: dict[int, cst.CSTNode] = field(default_factory=dict)
    meets: dict[int, dict[str, tuple[Value, Value]]] = field(default_factory=dict)
    unknown: list[cst.Call] = field(default_factory=list)

    def of(self, node: cst.CSTNode) -> Value:
        """Return what is known of an expression of the kernel."""
        return self.values.get(id(node), Value(None))


def flow_of(function: cst.FunctionDef, kernel: Kernel, tl: str) -> Flow:
    """Return what is known of the expressions of a kernel's body."""
    flow = Flow(tl)
    environment: Environment = {p.name: Value() for p in kernel.parameters}
    _Walk(flow).block(function.body, environment)
    return flow


def broadcast(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the shape of an elementwise result: aligned on the right, an extent of 1 gives way."""
    if a is None or b is None:
        return None
    if len(a) < len(b):
        a, b = b, a
    b = ("1",) * (len(a) - len(b)) + b
    out = []
    for x, y in zip(a, b, strict=True):
        if x != y and "1" not in {x, y}:
            return None
        out.append(y if x == "1" else x)
    return tuple(out)


class _Walk:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.tl = flow.tl

    # Statements.

    def block(self, body: cst.BaseSuite, environment: Environment) -> None:
        for statement in body.body:
            self.statement(statement, environment)

    def statement(self, node: cst.CSTNode, environment: Environment) -> None:
        match node:
            case cst.SimpleStatementLine(body=parts):
                for part in parts:
                    self.small(part, environment)
            case cst.For():
                self.loop(node, environment)
            case cst.While(test=test, body=body):
                before = dict(environment)
                for _ in range(3):
                    inner = dict(environment)
                    self.expression(test, inner)
                    self.block(body, inner)
                    if not self.meet(node, environment, inner, before):
                        break
            case cst.If(test=test, body=body, orelse=orelse):
                self.expression(test, environment)
                then, other = dict(environment), dict(environment)
                self.block(body, then)
                if isinstance(orelse, cst.If):
                    self.statement(orelse, other)
                elif isinstance(orelse, cst.Else):
                    self.block(orelse.body, other)
                met: dict[str, tuple[Value, Value]] = {}
                for name in {*then, *other}:
                    a, b = then.get(name, other.get(name)), other.get(name, then.get(name))
                    assert a is not None
                    assert b is not None
                    if a != b:
                        met[name] = (a, b)
                    environment[name] = a.joined(b) if a != b else a
                self.flow.meets[id(node)] = met
            case cst.With(body=body):
                self.block(body, environment)
            case _:
                pass

    def loop(self, node: cst.For, environment: Environment) -> None:
        bounds = self.expression(node.iter, environment)
        before = dict(environment)
        for _ in range(4):
            inner = dict(environment)
            if isinstance(node.target, cst.Name):
                inner[node.target.value] = Value((), bounds.programs, bounds.steps | {node.target.value})
            self.block(node.body, inner)
            if not self.meet(node, environment, inner, before):
                break

    def meet(self, node: cst.CSTNode, environment: Environment, inner: Environment, before: Environment) -> bool:
        """Let what a loop's body leaves meet what was before; tells whether that changed anything."""
        met: dict[str, tuple[Value, Value]] = {}
        changed = False
        for name, value in inner.items():
            old = environment.get(name)
            if old is None:
                environment[name] = value
                changed = True
                continue
            if name in before and before[name] != value:
                met[name] = (before[name], value)
            joined = old.joined(value)
            if joined != old:
                environment[name] = joined
                changed = True
        self.flow.meets[id(node)] = met
        return changed

    def small(self, node: cst.CSTNode, environment: Environment) -> None:
        match node:
            case cst.Assign(targets=targets, value=value):
                result = self.expression(value, environment)
                for target in targets:
                    self.bind(target.target, value, result, node, environment)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                self.bind(target, value, self.expression(value, environment), node, environment)
            case cst.AugAssign(target=target, value=value):
                result = self.combined(self.expression(target, environment), self.expression(value, environment))
                self.bind(target, None, result, node, environment)
            case cst.Expr(value=value):
                self.expression(value, environment)
            case cst.Return(value=value) if value is not None:
                self.expression(value, environment)
            case cst.Assert(test=test):
                self.expression(test, environment)
            case _:
                pass

    def bind(
        self,
        target: cst.BaseExpression,
        source: cst.BaseExpression | None,
        value: Value,
        node: cst.CSTNode,
        environment: Environment,
    ) -> None:
        self.flow.statements[id(node)] = node
        if isinstance(target, cst.Name):
            environment[target.value] = Value(value.shape, value.programs, value.steps, frozenset([id(node)]))
            return
        parts, sources = elements(target), elements(source)
        if parts is None:
            return
        known = sources if sources is not None and len(sources) == len(parts) else None
        # `tl.split` halves the last axis.
        split = isinstance(source, cst.Call) and name_of(source, self.tl) == "split" and value.shape
        for i, part in enumerate(parts):
            if known is not None:
                one = self.flow.of(known[i])
            elif split:
                assert value.shape is not None
                one = Value(value.shape[:-1], value.programs, value.steps)
            else:
                one = Value(None, value.programs, value.steps)
            self.bind(part, known[i] if known is not None else None, one, node, environment)

    # Expressions.

    def expression(self, node: cst.BaseExpression, environment: Environment) -> Value:
        value = self.evaluate(node, environment)
        self.flow.values[id(node)] = value
        return value

    def combined(self, *values: Value) -> Value:
        shape: Shape | None = ()
        for value in values:
            shape = broadcast(shape, value.shape)
        return Value(
            shape,
            frozenset().union(*(v.programs for v in values)),
            frozenset().union(*(v.steps for v in values)),
        )

    def evaluate(self, node: cst.BaseExpression, environment: Environment) -> Value:
        match node:
            case cst.Name(value=name):
                return environment.get(name, Value())
            case cst.BinaryOperation(left=a, right=b) | cst.BooleanOperation(left=a, right=b):
                return self.combined(self.expression(a, environment), self.expression(b, environment))
            case cst.Comparison(left=left, comparisons=others):
                return self.combined(
                    self.expression(left, environment), *(self.expression(o.comparator, environment) for o in others)
                )
            case cst.UnaryOperation(expression=inner):
                return self.expression(inner, environment)
            case cst.IfExp(test=test, body=a, orelse=b):
                self.expression(test, environment)
                x, y = self.expression(a, environment), self.expression(b, environment)
                return Value(x.shape if x.shape == y.shape else None, x.programs | y.programs, x.steps | y.steps)
            case cst.Subscript():
                return self.subscript(node, environment)
            case cst.Attribute(value=owner):
                inside = self.expression(owner, environment)
                if node.attr.value in {"dtype", "element_ty", "type", "shape"}:
                    return Value()
                return self.transposed(inside) if node.attr.value == "T" else Value(None, inside.programs, inside.steps)
            case cst.Call():
                return self.call(node, environment)
            case cst.Tuple(elements=parts) | cst.List(elements=parts):
                values = [self.expression(e.value, environment) for e in parts]
                joined = self.combined(*(Value((), v.programs, v.steps) for v in values))
                return Value(None, joined.programs, joined.steps)
            case _:
                return Value()

    def transposed(self, value: Value) -> Value:
        shape = value.shape
        return Value(tuple(reversed(shape)) if shape is not None else None, value.programs, value.steps)

    def subscript(self, node: cst.Subscript, environment: Environment) -> Value:
        inside = self.expression(node.value, environment)
        shape: list[str] = []
        rest = list(inside.shape or ())
        for element in node.slice:
            part = element.slice
            if isinstance(part, cst.Index) and code(part.value) == "None":
                shape.append("1")
            elif isinstance(part, cst.Slice) and part.lower is part.upper is None and rest:
                shape.append(rest.pop(0))
            else:
                return Value(None, inside.programs, inside.steps)
        known = inside.shape is not None
        return Value((*shape, *rest) if known else None, inside.programs, inside.steps)

    def call(self, node: cst.Call, environment: Environment) -> Value:
        arguments = [self.expression(a.value, environment) for a in node.args]
        everything = self.combined(*(Value((), v.programs, v.steps) for v in arguments))
        name = name_of(node, self.tl)
        if name is None:
            return self.other_call(node, arguments, everything, environment)
        first = self.flow.of(node.args[0].value) if node.args else Value()
        shape = self.shape_of(node, name, first, arguments)
        if name == "program_id":
            axis = integer(value_of(node, name, "axis"))
            return Value((), frozenset([axis if axis is not None else -1]))
        return Value(shape, everything.programs, everything.steps)

    def shape_of(self, node: cst.Call, name: str, first: Value, arguments: Sequence[Value]) -> Shape | None:
        match name:
            case "arange":
                low, high = value_of(node, name, "start"), value_of(node, name, "end")
                return (code(high),) if high is not None and integer(low) == 0 else None
            case "zeros" | "full":
                return self.written(value_of(node, name, "shape"))
            case "zeros_like":
                return first.shape
            case "load":
                return first.shape
            case "sum" | "max" | "min" | "argmax" | "argmin" | "xor_sum":
                return self.reduced(node, name, first.shape)
            case "cumsum" | "cumprod" | "sort" | "flip" | "softmax" | "associative_scan" | "gather":
                return first.shape
            case "multiple_of" | "max_contiguous" | "assume" | "clamp" | "cast" | "rand" | "randint" | "randn":
                return self.combined(*arguments).shape if name.startswith("rand") else first.shape
            case "dot":
                other = value_of(node, name, "other")
                b = self.flow.of(other).shape if other is not None else None
                return (first.shape[0], b[1]) if first.shape and b and len(first.shape) == len(b) == 2 else None
            case "trans":
                return tuple(reversed(first.shape)) if first.shape is not None and len(node.args) == 1 else None
            case "reshape" | "broadcast_to" | "view":
                return self.written(value_of(node, "reshape", "shape"))
            case "expand_dims":
                axis = integer(value_of(node, name, "axis"))
                if first.shape is None or axis is None:
                    return None
                at = axis if axis >= 0 else len(first.shape) + 1 + axis
                return (*first.shape[:at], "1", *first.shape[at:])
            case "split":
                return first.shape
            case "make_tensor_descriptor":
                self.flow.unknown.append(node)
                return self.written(value_of(node, name, "block_shape"))
            case "program_id" | "num_programs" | "cdiv" | "constexpr" | "range" | "static_range" | "static_assert":
                return ()
            case "store" | "debug_barrier" | "device_assert" | "static_print" | "device_print":
                return ()
            case _ if name.startswith("atomic_"):
                return first.shape
            case _ if name in ELEMENTWISE:
                return self.combined(*arguments).shape
            case _:
                self.flow.unknown.append(node)
                return None

    def written(self, node: cst.BaseExpression | None) -> Shape | None:
        if node is None:
            return None
        parts = elements(node)
        return tuple(code(p) for p in parts) if parts is not None else (code(node),)

    def reduced(self, node: cst.Call, name: str, shape: Shape | None) -> Shape | None:
        axis = value_of(node, name, "axis")
        keep = value_of(node, name, "keep_dims")
        if shape is None or (keep is not None and code(keep) not in {"True", "False"}):
            return None
        kept = keep is not None and code(keep) == "True"
        if axis is None or code(axis) == "None":
            return ("1",) * len(shape) if kept else ()
        at = integer(axis)
        if at is None or not shape or not -len(shape) <= at < len(shape):
            return None
        at %= len(shape)
        return (*shape[:at], *(("1",) if kept else ()), *shape[at + 1 :])

    def other_call(
        self, node: cst.Call, arguments: Sequence[Value], everything: Value, environment: Environment
    ) -> Value:
        """Judge a call that is not of the language: a method, a function of libdevice, Python's own, a helper."""
        path = code(node.func)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in {"to", "cast", "reshape", "trans"}:
            owner = self.expression(node.func.value, environment)
            programs, steps = owner.programs | everything.programs, owner.steps | everything.steps
            if node.func.attr.value == "trans":
                return self.transposed(owner)
            if node.func.attr.value == "reshape":
                return Value(None, programs, steps)
            return Value(owner.shape, programs, steps)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in (REDUCTIONS | SCANS):
            owner = self.expression(node.func.value, environment)
            self.flow.unknown.append(node)
            return Value(None, owner.programs | everything.programs, owner.steps | everything.steps)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "load":
            # Through a descriptor, whose shape is that of its block: what is read there is not followed.
            owner = self.expression(node.func.value, environment)
            self.flow.unknown.append(node)
            return Value(owner.shape, owner.programs | everything.programs, owner.steps | everything.steps)
        if path in {"float", "int", "min", "max", "range", "len", "bool", "abs"}:
            return self.combined(*arguments)
        if leaf_of(node) in ELEMENTWISE:
            return self.combined(*arguments)
        self.flow.unknown.append(node)
        return Value(None, everything.programs, everything.steps)
