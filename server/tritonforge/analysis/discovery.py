"""Which functions of a file are Triton kernels: decorated, jitted in call form, or wrapped by the project's own."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from tritonforge.analysis.calling import calling
from tritonforge.analysis.names import decorator_path, is_jit
from tritonforge.analysis.scopes import CallAt, Function, ModuleIndex, Scope, parameters_of

_DEPTH = 8


@dataclass(eq=False)
class JitFunction:
    """A function that `triton.jit` compiles.

    `wrappers` are calls around it in call form (`triton.autotune(…)(fn)`), innermost last, each with its scope.
    """

    node: Function
    scope: Scope
    wrappers: list[tuple[ast.expr, Scope]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The qualified name."""
        return self.scope.qualname

    def decorators(self) -> list[tuple[ast.expr, Scope]]:
        """Everything that wraps the function, outermost first, with the scope it is read in."""
        assert self.scope.parent is not None
        own = [(decorator, self.scope.parent) for decorator in self.node.decorator_list]
        return [*self.wrappers, *own]


def find_jit_functions(index: ModuleIndex) -> dict[int, JitFunction]:
    """Return every jit function of a module by the id of its `def`, in source order."""
    found: dict[int, JitFunction] = {}
    for scope in index.functions():
        assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        assert scope.parent is not None
        for decorator in scope.node.decorator_list:
            line = scope.node.lineno
            if is_jit(decorator, scope.parent, line) or _jits_inside(decorator, scope.parent, index):
                found[id(scope.node)] = JitFunction(scope.node, scope)
                break
    for at in (at for part in index.parts.values() for at in calling(part).passing):
        assert isinstance(at.call.args[0], ast.Name)
        functions = _functions_named(at.call.args[0].id, at.scope, index)
        for scope in functions if functions and is_jit(at.call.func, at.scope, at.call.lineno) else ():
            assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            kernel = found.setdefault(id(scope.node), JitFunction(scope.node, scope))
            kernel.wrappers.append((at.call.func, at.scope))
    ordered = sorted(found.values(), key=lambda k: (k.node.lineno, k.node.col_offset))
    return {id(kernel.node): kernel for kernel in ordered}


def attach_wrappers(index: ModuleIndex, resolver: KernelResolver) -> None:
    """Note on each kernel the `triton.autotune(…)`, `heuristics(…)` and project calls that wrap it in call form."""
    for at in (at for part in index.parts.values() for at in calling(part).curried):
        inner = at.call.func
        assert isinstance(inner, ast.Call)
        path, call = decorator_path(inner, at.scope, at.call.lineno)
        if path is None or call is None or path.rpartition(".")[2] not in ("autotune", "heuristics"):
            continue
        for kernel in resolver.resolve(at.call.args[0], at.scope):
            kernel.wrappers.insert(0, (inner, at.scope))


def _functions_named(name: str, scope: Scope, index: ModuleIndex) -> list[Scope]:
    found = scope.lookup(name)
    if found is None or (len(found[1]) == 1 and found[1][0].kind != "function"):
        return []
    return [index.scopes[id(b.node)] for b in found[1] if b.kind == "function" and id(b.node) in index.scopes]


def _jits_inside(decorator: ast.expr, scope: Scope, index: ModuleIndex) -> bool:
    """Tell whether a decorator is a function of this file that hands what it decorates to `triton.jit`."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(target, ast.Name):
        return False
    for outer in _functions_named(target.id, scope, index):
        for inner in (s for s in index.functions() if s is outer or s.parent is outer):
            assert isinstance(inner.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            own = {parameter.arg for parameter, _ in parameters_of(inner.node)}
            for call in inner.calls:
                passed = call.args[0] if call.args else None
                if isinstance(passed, ast.Name) and passed.id in own and is_jit(call.func, inner):
                    return True
    return False


class KernelResolver:
    """Answers which jit functions an expression may stand for: aliases, dicts, attributes, wrappers, parameters."""

    def __init__(self, index: ModuleIndex, jits: Mapping[int, JitFunction]) -> None:
        self._index = index
        self._jits = jits
        self._callers: dict[str, list[CallAt]] | None = None
        self._busy: set[tuple[int, int]] = set()

    def resolve(self, node: ast.expr, scope: Scope) -> list[JitFunction]:
        """Return the kernels `node` may be, read in `scope`; empty when it is none of this file."""
        found = self._resolve(node, scope, _DEPTH)
        return list({id(k): k for k in found}.values())

    def _resolve(self, node: ast.expr, scope: Scope, depth: int) -> list[JitFunction]:
        key = (id(node), id(scope))
        if depth == 0 or key in self._busy:
            return []
        self._busy.add(key)
        try:
            return self._dispatch(node, scope, depth - 1)
        finally:
            self._busy.discard(key)

    def _all(self, nodes: list[ast.expr], scope: Scope, depth: int) -> list[JitFunction]:
        return [kernel for node in nodes for kernel in self._resolve(node, scope, depth)]

    def _dispatch(self, node: ast.expr, scope: Scope, depth: int) -> list[JitFunction]:
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self._all([node.body, node.orelse], scope, depth)
        if isinstance(node, ast.BoolOp):
            return self._all(node.values, scope, depth)
        if isinstance(node, ast.NamedExpr):
            return self._resolve(node.value, scope, depth)
        if isinstance(node, ast.Subscript):
            return self._entry(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._call(node, scope, depth)
        return []

    def _name(self, name: str, scope: Scope, depth: int) -> list[JitFunction]:
        found = scope.lookup(name)
        if found is None:
            return []
        owner, bindings = found
        kernels: list[JitFunction] = []
        start = next((i for i in range(len(bindings) - 1, -1, -1) if not bindings[i].branch), 0)
        for binding in bindings[start:]:
            if binding.kind == "function" and id(binding.node) in self._jits:
                kernels.append(self._jits[id(binding.node)])
            elif binding.kind == "assign" and binding.value is not None and not binding.element:
                kernels += self._resolve(binding.value, self._value_scope(binding.value, name, owner), depth)
            elif binding.kind == "loop" and isinstance(binding.value, (ast.Tuple, ast.List)):
                kernels += self._all(binding.value.elts, owner, depth)
            elif binding.kind == "parameter":
                kernels += self._argument(name, owner, depth)
                if binding.value is not None and owner.parent is not None:
                    kernels += self._resolve(binding.value, owner.parent, depth)
        return kernels

    def _value_scope(self, value: ast.expr, name: str, owner: Scope) -> Scope:
        """`kernel = kernel[…]` in a function reads the outer name: look there when the value names itself."""
        if isinstance(value, ast.Name) and value.id == name and owner.parent is not None:
            return owner.parent
        return owner

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> list[JitFunction]:
        holder = node.value
        if isinstance(holder, ast.Name):
            classes = [b for b in (scope.lookup(holder.id) or (scope, []))[1] if b.kind == "class"]
            if holder.id in ("self", "cls"):
                inside = scope.function()
                if inside is not None and inside.parent is not None and isinstance(inside.parent.node, ast.ClassDef):
                    found = self._member(inside.parent, node.attr, depth)
                    if found:
                        return found
            for binding in classes:
                owner = self._index.scopes.get(id(binding.node))
                if owner is not None:
                    return self._member(owner, node.attr, depth)
        if node.attr in ("fn", "kernel", "jit_fn", "wrapped", "__wrapped__"):
            found = self._resolve(holder, scope, depth)
            if found:
                return found
        values = self._index.attributes.get(node.attr, [])
        return [k for value, at in values for k in self._resolve(value, at, depth)]

    def _member(self, owner: Scope, name: str, depth: int) -> list[JitFunction]:
        if name not in owner.bindings:
            return []
        return self._name(name, owner, depth)

    def _entry(self, node: ast.Subscript, scope: Scope, depth: int) -> list[JitFunction]:
        container, at = self._container(node.value, scope, depth)
        if isinstance(container, ast.Dict):
            if isinstance(node.slice, ast.Constant):
                for key, value in zip(container.keys, container.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == node.slice.value:
                        return self._resolve(value, at, depth)
            return self._all(container.values, at, depth)
        if isinstance(container, (ast.Tuple, ast.List)):
            return self._all(container.elts, at, depth)
        return []

    def _container(self, node: ast.expr, scope: Scope, depth: int) -> tuple[ast.expr | None, Scope]:
        """Follow a name or attribute to the dict, list or tuple it holds."""
        if depth == 0 or isinstance(node, (ast.Dict, ast.Tuple, ast.List)):
            return node, scope
        if isinstance(node, ast.Name):
            found = scope.lookup(node.id)
            if found is not None and len(found[1]) == 1 and found[1][0].value is not None and not found[1][0].element:
                return self._container(found[1][0].value, found[0], depth - 1)
        if isinstance(node, ast.Attribute):
            values = list(self._index.attributes.get(node.attr, []))
            for owner in self._index.scopes.values():
                if isinstance(owner.node, ast.ClassDef):
                    values += [(b.value, owner) for b in owner.bindings.get(node.attr, []) if b.value is not None]
            if len(values) == 1:
                return self._container(*values[0], depth - 1)
        return None, scope

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> list[JitFunction]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "warmup":
            return self._resolve(node.func.value, scope, depth)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            container, at = self._container(node.func.value, scope, depth)
            if isinstance(container, ast.Dict):
                return self._all(container.values, at, depth)
        if isinstance(node.func, ast.Name):
            for function in _functions_named(node.func.id, scope, self._index):
                if id(function.node) in self._jits:
                    return []
                returned = [
                    kernel
                    for statement in function.returns
                    if statement.value is not None
                    for kernel in self._resolve(statement.value, function, depth)
                ]
                if returned:
                    return returned
        if len(node.args) > 3:  # a launch or a computation, not a wrapper
            return []
        first = next((a for a in node.args if isinstance(a, (ast.Name, ast.Attribute, ast.Call))), None)
        return self._resolve(first, scope, depth) if first is not None else []

    def _argument(self, name: str, owner: Scope, depth: int) -> list[JitFunction]:
        """Return the kernels that calls in this file pass for a host function's parameter."""
        if not isinstance(owner.node, (ast.FunctionDef, ast.AsyncFunctionDef)) or id(owner.node) in self._jits:
            return []
        if self._callers is None:
            self._callers = {}
            for at in self._index.calls:
                func = at.call.func
                called = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
                self._callers.setdefault(called, []).append(at)
        names = [parameter.arg for parameter, _ in parameters_of(owner.node)]
        position = names.index(name) if name in names else -1
        if names[:1] in (["self"], ["cls"]):
            position -= 1
        kernels: list[JitFunction] = []
        for at in self._callers.get(owner.node.name, []):
            passed = [k.value for k in at.call.keywords if k.arg == name]
            if not passed and 0 <= position < len(at.call.args):
                passed = [at.call.args[position]]
            kernels += self._all([p for p in passed if not isinstance(p, ast.Starred)], at.scope, depth)
        return kernels
