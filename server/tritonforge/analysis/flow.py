"""A forward pass over a kernel's body, following values from parameters and program ids to memory and back.

Loop bodies are walked twice, so that what one iteration leaves is seen by the next; both arms of a branch are walked
and merged; jit helpers of the same file are walked at their calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tritonforge.analysis.carried import carried_names
from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.facts import Facts, LoopFact
from tritonforge.analysis.flow_expressions import ExpressionFlow
from tritonforge.analysis.names import language_name
from tritonforge.analysis.scopes import Function, parameters_of
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.values import NO_LOADS, STATIC, UNKNOWN, Value, elementwise, merge

_INLINE_DEPTH = 4
_MOST_STATEMENTS = 6000
"""Statements walked per kernel before loop bodies are walked once only and helpers no longer at all."""


def follow_kernel(kernel: JitFunction, text: SourceText, jits: Mapping[int, JitFunction]) -> Facts:
    """Walk the body of `kernel` and return what it does."""
    flow = _Flow(kernel, text, jits)
    flow.block(kernel.node.body)
    return flow.facts


def is_constexpr(annotation: ast.expr | None) -> bool:
    """Tell whether a parameter's annotation says constexpr, quoted or not."""
    if annotation is None:
        return False
    if isinstance(annotation, ast.Constant):
        return isinstance(annotation.value, str) and "constexpr" in annotation.value
    if isinstance(annotation, ast.Subscript):
        return is_constexpr(annotation.value)
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
    return name == "constexpr"


class _Flow(ExpressionFlow):
    def __init__(self, kernel: JitFunction, text: SourceText, jits: Mapping[int, JitFunction]) -> None:
        self.facts = Facts()
        self.text = text
        self.scope = kernel.scope
        self.jits = jits
        self.loop_stack: tuple[int, ...] = ()
        self.guards: tuple[frozenset[int], ...] = ()
        self.loop_ids: dict[int, int] = {}
        self.carried: dict[int, set[str]] = {}
        self.paths: dict[int, str | None] = {}
        self.read_by: dict[int, set[str]] = {}
        self.inlined: tuple[int, ...] = (id(kernel.node),)
        self.walked = 0
        self.returned: list[Value] = []
        self.constexprs: set[str] = set()
        self.positions: dict[str, int] = {}
        self.env: dict[str, Value] = {}
        for parameter, _ in parameters_of(kernel.node):
            name = parameter.arg
            self.positions[name] = len(self.positions)
            if is_constexpr(parameter.annotation):
                self.constexprs.add(name)
                self.env[name] = Value(bare=name, sizes=frozenset([name]), static=True)
            else:
                self.env[name] = Value(bare=name, bases=(name,))

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.walked += 1
            visit = self._STATEMENTS.get(type(statement))
            if visit is not None:
                visit(self, statement)

    def _assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.eval(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            left = self.env.get(node.target.id, UNKNOWN)
            self.env[node.target.id] = self.binary(node, left, self.eval(node.value))
        else:
            self.eval(node.value)

    def bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.items
            for i, item in enumerate(target.elts):
                if parts is not None and len(parts) == len(target.elts):
                    self.bind(item, parts[i])
                else:
                    self.bind(item, value._replace(items=None, bare=None))
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)

    def _if(self, node: ast.If) -> None:
        loops = self.test(node.test).loops
        self.guards = (*self.guards, loops)
        before = dict(self.env)
        self.block(node.body)
        after, self.env = self.env, before
        self.block(node.orelse)
        self.guards = self.guards[:-1]
        self._join(after, loops)

    def _join(self, other: dict[str, Value], loops: frozenset[int] = NO_LOADS) -> None:
        """Merge what another path leaves; `loops` decide which path is taken."""
        env = self.env
        for name, value in other.items():
            mine = env.get(name)
            if mine is not value:
                both = value if mine is None else merge(mine, value)
                env[name] = both._replace(loops=both.loops | loops) if loops else both

    def _for(self, node: ast.For) -> None:
        kind, arguments = self._range_of(node.iter)
        start = stop = step = None
        values = [self.eval(a) for a in arguments]
        items: Value | None = None
        if kind is None:
            items = self.eval(node.iter)
            kind = "static_range"
        elif len(arguments) == 1:
            start, stop, step = "0", self.text.segment(arguments[0]), "1"
        elif len(arguments) >= 2:
            start, stop = self.text.segment(arguments[0]), self.text.segment(arguments[1])
            step = self.text.segment(arguments[2]) if len(arguments) > 2 else "1"
        index = self._enter(node, kind)
        loop = self.facts.loops[index]
        loop.variable = node.target.id if isinstance(node.target, ast.Name) else None
        loop.start, loop.stop, loop.step = start, stop, step
        self._note_bounds(loop, values)
        variable = elementwise(values[:1] if len(values) > 1 else [])._replace(static=False)
        variable = variable._replace(loops=variable.loops | {index}, sizes=frozenset(), loads=frozenset())
        if items is not None:
            parts = items.items or ()
            variable = merge(parts[0], elementwise(parts)) if parts else UNKNOWN
        self._iterate(node, index, lambda: self.bind(node.target, variable))
        self.block(node.orelse)

    def _range_of(self, node: ast.expr) -> tuple[str | None, list[ast.expr]]:
        """Return the kind of a loop and its bounds; the kind is None for anything but the ranges."""
        if not isinstance(node, ast.Call):
            return None, []
        path = self.path(node.func)
        name = language_name(path)
        kinds = {"range": "tl.range", "static_range": "static_range"}
        kind = "range" if path == "range" else kinds.get(name or "")
        if kind is None:
            return None, []
        bounds = list(node.args)
        named = {k.arg: k.value for k in node.keywords if k.arg in ("arg1", "arg2", "step")}
        bounds += [named[k] for k in ("arg1", "arg2", "step") if k in named and len(bounds) < 3]
        for keyword in node.keywords:
            if keyword.arg not in named:
                self.eval(keyword.value)
        return kind, bounds

    def _note_bounds(self, loop: LoopFact, values: list[Value]) -> None:
        facts = self.facts
        if len(values) == 3:
            facts.tile_uses |= values[2].sizes
            if values[2].bare:
                facts.uses[values[2].bare].add("step")
            loop.step_sizes = tuple(sorted(values[2].sizes, key=self.order))
        if values:
            stop = values[1] if len(values) > 1 else values[0]
            facts.stop_uses |= stop.sizes
            if stop.bare and len(values) == 3 and stop.bare in self.constexprs:
                facts.size_uses.add(stop.bare)  # range(0, N_COLS, BLOCK): a true size
            if stop.bare:
                facts.uses[stop.bare].add("other")
            if not loop.step_sizes:
                loop.step_sizes = tuple(sorted(stop.per, key=self.order))

    def _while(self, node: ast.While) -> None:
        index = self._enter(node, "while")
        self.test(node.test)
        tested = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        loop = self.facts.loops[index]
        for inner in ast.walk(node):
            if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name) and inner.target.id in tested:
                step = self.eval(inner.value)
                if isinstance(inner.op, ast.Add) and step.sizes and step.rank == 0:
                    self.facts.tile_uses |= step.sizes
                    loop.step_sizes = tuple(sorted(step.sizes, key=self.order))
                loop.variable = loop.variable or inner.target.id
        self._iterate(node, index, lambda: self.test(node.test))
        self.block(node.orelse)

    def _enter(self, node: ast.For | ast.While, kind: str) -> int:
        if id(node) not in self.loop_ids:
            self.loop_ids[id(node)] = len(self.facts.loops)
            self.facts.loops.append(LoopFact(node, kind, len(self.loop_stack)))
        return self.loop_ids[id(node)]

    def _iterate(self, node: ast.For | ast.While, index: int, head: Callable[[], object]) -> None:
        before = dict(self.env)
        if id(node) not in self.carried:
            self.carried[id(node)] = carried_names(node, set(self.env), self.read_by)
        for name in self.carried[id(node)]:
            value = self.env.get(name)
            if value is not None:
                self.env[name] = value._replace(loops=value.loops | {index}, bare=None, static=False)
        self.loop_stack = (*self.loop_stack, index)
        for _ in range(2 if self.walked < _MOST_STATEMENTS and len(self.loop_stack) < 5 else 1):
            entry = dict(self.env)
            head()
            self.block(node.body)
            self._join(entry)
        self.loop_stack = self.loop_stack[:-1]
        self._join(before)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned.append(self.eval(node.value))

    def _expression(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(node.body)

    # --- helpers ----------------------------------------------------------------------------------------------------

    def inline(self, helper: JitFunction, node: ast.Call, args: list[Value], keywords: Mapping[str, Value]) -> Value:
        """Walk a helper's body with the arguments of one call and return what it returns."""
        if len(self.inlined) > _INLINE_DEPTH or id(helper.node) in self.inlined or self.walked > _MOST_STATEMENTS:
            return elementwise([*args, *keywords.values()])._replace(rank=None, static=False)
        inner = _bind_arguments(helper.node, args, keywords, starred=any(isinstance(a, ast.Starred) for a in node.args))
        saved = self.env, self.scope, self.inlined, self.returned
        self.env, self.scope, self.returned = inner, helper.scope, []
        self.inlined = (*self.inlined, id(helper.node))
        self.block(helper.node.body)
        values = self.returned
        self.env, self.scope, self.inlined, self.returned = saved
        if not values:
            return STATIC
        result = values[0]
        for value in values[1:]:
            result = merge(result, value)
        return result

    _STATEMENTS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.If: _if,
        ast.For: _for,
        ast.While: _while,
        ast.Return: _return,
        ast.Expr: _expression,
        ast.With: _with,
    }


def _bind_arguments(
    node: Function, args: list[Value], keywords: Mapping[str, Value], *, starred: bool
) -> dict[str, Value]:
    env: dict[str, Value] = {}
    for i, (parameter, default) in enumerate(parameters_of(node)):
        name = parameter.arg
        if name in keywords:
            env[name] = keywords[name]
        elif i < len(args) and not starred:
            env[name] = args[i]
        else:
            env[name] = STATIC if default is not None else UNKNOWN
    return env
