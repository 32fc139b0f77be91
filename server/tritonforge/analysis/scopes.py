"""One pass over a module: its scopes, what every name is bound to, and every call, each with its scope."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.kernel import HostFunction

Function = ast.FunctionDef | ast.AsyncFunctionDef
BindingKind = Literal["import", "assign", "function", "class", "parameter", "loop", "other"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Binding:
    """One place that binds a name.

    `value` is the bound expression (an assignment's right-hand side, a loop's iterable, a parameter's default).
    `element` marks a name that is only part of what `value` gives; `branch` a binding that may not happen (in an arm
    of an `if`, `try` or `match`); `augmented` an in-place change.
    """

    kind: BindingKind
    node: ast.AST
    line: int
    value: ast.expr | None = None
    path: str = ""
    element: bool = False
    branch: bool = False
    augmented: bool = False


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class or function, with its bindings by name. `qualname` has no `<locals>`; "" for the module."""

    node: ast.Module | ast.ClassDef | Function
    parent: Scope | None
    qualname: str
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Names and attributes read directly in this scope (not in the functions nested in it)."""
    returns: list[ast.Return] = field(default_factory=list)
    calls: list[ast.Call] = field(default_factory=list)

    @property
    def is_function(self) -> bool:
        """Whether this is the scope of a function."""
        return isinstance(self.node, _FUNCTIONS)

    def chain(self) -> Iterator[Scope]:
        """Yield the scopes in which a name read here is looked up, innermost first."""
        yield self
        scope = self.parent
        while scope is not None:
            if not isinstance(scope.node, ast.ClassDef):
                yield scope
            scope = scope.parent

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Return the scope that binds `name`, as seen from here, and its bindings there."""
        for scope in self.chain():
            found = scope.bindings.get(name)
            if found:
                return scope, found
        return None

    def function(self) -> Scope | None:
        """Return the innermost function scope around (or at) this one."""
        scope: Scope | None = self
        while scope is not None and not scope.is_function:
            scope = scope.parent
        return scope


@dataclass(slots=True)
class CallAt:
    """A call expression with its scope and the top-level statement it stands in."""

    call: ast.Call
    scope: Scope
    statement: ast.stmt


@dataclass(frozen=True, slots=True)
class Reads:
    """The words in a top-level statement, the names it binds for others, and how many lines its decorators begin above.

    It binds names of the module, of its classes, and attributes of whatever they are set on.
    """

    words: frozenset[str]
    bound: frozenset[str]
    above: int


@dataclass(frozen=True, slots=True)
class Calling:
    """What a top-level statement imports from modules of its project, and what it calls.

    `roots` are the names that each of its functions calls, by the id of the function's scope; of a call to
    `a.b[0].c(…)` that is `a`. Calls, in order: of something with a name first (`passing`), of what another call of one
    argument gives (`curried`), of what is subscripted, an attribute or a name (`named`). `held` are the names that are
    bound to something subscripted.
    """

    imported: frozenset[str]
    roots: dict[int, frozenset[str]]
    passing: tuple[CallAt, ...]
    curried: tuple[CallAt, ...]
    named: tuple[CallAt, ...]
    held: frozenset[str]


@dataclass(slots=True, eq=False)
class Part:
    """What one top-level statement contributes to the index of its module, and the line it stood at.

    It is the very same object as long as the statement stays as it is, wherever that moves.
    """

    statement: ast.stmt
    line: int
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    returns: list[ast.Return] = field(default_factory=list)
    direct: list[ast.Call] = field(default_factory=list)
    scopes: dict[int, Scope] = field(default_factory=dict)
    calls: list[CallAt] = field(default_factory=list)
    attributes: dict[str, list[tuple[ast.expr, Scope]]] = field(default_factory=dict)
    fstrings: list[ast.JoinedStr] = field(default_factory=list)
    reads: Reads | None = None
    """Which names lead here and from here, once that was asked for; so with what follows."""
    calling: Calling | None = None
    host: tuple[int, HostFunction] | None = None
    """The function that this is, as it was when it stood at that line."""

    def moved(self) -> Part:
        """Take the line that the statement has now over into what was found in it."""
        by = self.statement.lineno - self.line
        if by:
            for bindings in (self.bindings, *(scope.bindings for scope in self.scopes.values())):
                for found in bindings.values():
                    for binding in found:
                        binding.line += by
            self.line += by
        return self


@dataclass(slots=True)
class ModuleIndex:
    """What one pass over a module collects."""

    module: Scope
    scopes: dict[int, Scope]
    """By the id of the function, class or module node."""
    calls: list[CallAt]
    attributes: dict[str, list[tuple[ast.expr, Scope]]]
    """`anything.name = value` in the file, by attribute name."""
    fstrings: list[ast.JoinedStr]
    """Outer ones before those inside them."""
    parts: dict[int, Part] = field(default_factory=dict)
    """By the id of the top-level statement."""

    @property
    def body(self) -> list[ast.stmt]:
        """The module's statements."""
        return [part.statement for part in self.parts.values()]

    def functions(self) -> Iterator[Scope]:
        """Yield every function scope in source order."""
        return (scope for scope in self.scopes.values() if scope.is_function)


def index_module(tree: ast.Module, before: ModuleIndex | None = None) -> ModuleIndex:
    """Collect scopes, bindings and calls of `tree`.

    `before` is the index of an earlier state of the very same tree. What it says of statements that the tree still has
    is taken over, so that it is used up.
    """
    known: dict[int, Part] = {}
    module = Scope(tree, None, "")
    if before is not None and before.module.node is tree:
        module, known = before.module, before.parts
    index = ModuleIndex(module, {id(tree): module}, [], {}, [])
    bindings: dict[str, list[Binding]] = {}
    names: set[str] = set()
    returns: list[ast.Return] = []
    calls: list[ast.Call] = []
    for statement in tree.body:
        found = known.get(id(statement))
        part = found.moved() if found is not None else _Indexer(statement, module).part
        index.parts[id(statement)] = part
        for name, own in part.bindings.items():
            bindings.setdefault(name, []).extend(own)
        names |= part.names
        returns += part.returns
        calls += part.direct
        index.scopes |= part.scopes
        index.calls += part.calls
        for name, values in part.attributes.items():
            index.attributes.setdefault(name, []).extend(values)
        index.fstrings += part.fstrings
    module.bindings, module.names, module.returns, module.calls = bindings, names, returns, calls
    return index


class _Indexer:
    """Reads one top-level statement; while it does, what the module's scope is told goes to the statement's part."""

    def __init__(self, statement: ast.stmt, module: Scope) -> None:
        self.part = part = Part(statement, statement.lineno)
        self.statement = statement
        module.bindings, module.names, module.returns, module.calls = (
            part.bindings,
            part.names,
            part.returns,
            part.direct,
        )
        self._statement(statement, module, branch=False)

    def _bind(self, scope: Scope, name: str, binding: Binding) -> None:
        scope.bindings.setdefault(name, []).append(binding)

    def _expression(self, root: ast.expr, scope: Scope) -> None:
        stack: list[ast.AST] = [root]
        names, calls = scope.names, scope.calls
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind is ast.Name:
                names.add(node.id)  # type: ignore[attr-defined]
            elif kind is ast.Constant:
                pass
            elif kind is ast.Attribute:
                names.add(node.attr)  # type: ignore[attr-defined]
                stack.append(node.value)  # type: ignore[attr-defined]
            elif kind is ast.Call:
                assert isinstance(node, ast.Call)
                calls.append(node)
                self.part.calls.append(CallAt(node, scope, self.statement))
                stack.append(node.func)
                stack.extend(node.args)
                stack.extend([k.value for k in node.keywords])
            elif kind is ast.NamedExpr:
                assert isinstance(node, ast.NamedExpr)
                if isinstance(node.target, ast.Name):
                    self._bind(scope, node.target.id, Binding("assign", node, node.lineno, node.value))
                stack.append(node.value)
            elif kind is ast.BinOp:
                stack.append(node.left)  # type: ignore[attr-defined]
                stack.append(node.right)  # type: ignore[attr-defined]
            elif kind is ast.Tuple or kind is ast.List:
                stack.extend(node.elts)  # type: ignore[attr-defined]
            elif kind is ast.Subscript:
                stack.append(node.value)  # type: ignore[attr-defined]
                stack.append(node.slice)  # type: ignore[attr-defined]
            else:
                if kind is ast.JoinedStr:
                    assert isinstance(node, ast.JoinedStr)
                    self.part.fstrings.append(node)
                stack.extend(ast.iter_child_nodes(node))

    def _target(self, target: ast.expr, scope: Scope, binding: Binding) -> None:
        if isinstance(target, ast.Name):
            self._bind(scope, target.id, binding)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr] | None = None
            if binding.kind == "assign" and isinstance(binding.value, (ast.Tuple, ast.List)):
                values = binding.value.elts
                if len(values) != len(target.elts) or any(isinstance(e, ast.Starred) for e in [*values, *target.elts]):
                    values = None
            for i, item in enumerate(target.elts):
                part = Binding(binding.kind, binding.node, binding.line, binding.value, branch=binding.branch)
                if values is not None:
                    part.value = values[i]
                else:
                    part.element = True
                self._target(item, scope, part)
        elif isinstance(target, ast.Starred):
            binding.element = True
            self._target(target.value, scope, binding)
        elif isinstance(target, ast.Attribute):
            if binding.value is not None and not binding.element:
                self.part.attributes.setdefault(target.attr, []).append((binding.value, scope))
            self._expression(target.value, scope)
        else:
            self._expression(target, scope)

    def _statement(self, node: ast.stmt, scope: Scope, *, branch: bool) -> None:
        line = node.lineno
        if isinstance(node, ast.Assign):
            self._expression(node.value, scope)
            for target in node.targets:
                self._target(target, scope, Binding("assign", node, line, node.value, branch=branch))
        elif isinstance(node, ast.AnnAssign):
            self._expression(node.annotation, scope)
            if node.value is not None:
                self._expression(node.value, scope)
                self._target(node.target, scope, Binding("assign", node, line, node.value, branch=branch))
        elif isinstance(node, ast.AugAssign):
            self._expression(node.value, scope)
            if isinstance(node.target, ast.Name):
                scope.names.add(node.target.id)
            augmented = Binding("other", node, line, node.value, branch=branch, augmented=True)
            self._target(node.target, scope, augmented)
        elif isinstance(node, ast.Return):
            scope.returns.append(node)
            if node.value is not None:
                self._expression(node.value, scope)
        elif isinstance(node, _FUNCTIONS):
            self._function(node, scope, branch=branch)
        elif isinstance(node, ast.ClassDef):
            self._bind(scope, node.name, Binding("class", node, line, branch=branch))
            for expression in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
                self._expression(expression, scope)
            inner = self._open(node, scope)
            for statement in node.body:
                self._statement(statement, inner, branch=False)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope, branch=branch)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._expression(node.iter, scope)
            self._target(node.target, scope, Binding("loop", node, line, node.iter, branch=branch))
            self._block([*node.body, *node.orelse], scope, branch=branch)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._expression(item.context_expr, scope)
                if item.optional_vars is not None:
                    self._target(item.optional_vars, scope, Binding("other", node, line, branch=branch))
            self._block(node.body, scope, branch=branch)
        elif isinstance(node, ast.If):
            self._expression(node.test, scope)
            self._block([*node.body, *node.orelse], scope, branch=True)
        elif isinstance(node, ast.While):
            self._expression(node.test, scope)
            self._block([*node.body, *node.orelse], scope, branch=branch)
        else:
            self._other(node, scope, branch=branch)

    def _block(self, body: list[ast.stmt], scope: Scope, *, branch: bool) -> None:
        for statement in body:
            self._statement(statement, scope, branch=branch)

    def _other(self, node: ast.AST, scope: Scope, *, branch: bool) -> None:
        """Descend into statements that bind nothing themselves: `try`, `match`, an expression."""
        inside = branch or isinstance(node, (ast.Try, ast.TryStar, ast.Match))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child, scope)
            elif isinstance(child, ast.stmt):
                self._statement(child, scope, branch=inside)
            else:
                self._other(child, scope, branch=inside)

    def _open(self, node: Function | ast.ClassDef, scope: Scope) -> Scope:
        qualname = f"{scope.qualname}.{node.name}" if scope.qualname else node.name
        inner = Scope(node, scope, qualname)
        self.part.scopes[id(node)] = inner
        return inner

    def _function(self, node: Function, scope: Scope, *, branch: bool) -> None:
        self._bind(scope, node.name, Binding("function", node, node.lineno, branch=branch))
        inner = self._open(node, scope)
        for decorator in node.decorator_list:
            self._expression(decorator, scope)
        for parameter, default in parameters_of(node):
            self._bind(inner, parameter.arg, Binding("parameter", parameter, parameter.lineno, default))
            if default is not None:
                self._expression(default, scope)
        for rest in (node.args.vararg, node.args.kwarg):
            if rest is not None:
                self._bind(inner, rest.arg, Binding("parameter", rest, rest.lineno, element=True))
        for statement in node.body:
            self._statement(statement, inner, branch=False)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, *, branch: bool) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                # Projects hand Triton on (`from vllm.triton_utils import tl, triton`): it is the same module.
                path = {"triton": "triton", "tl": "triton.language"}.get(alias.name, f"{module}.{alias.name}")
                name = alias.asname or alias.name
            else:
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                name = alias.asname or path
            self._bind(scope, name, Binding("import", node, node.lineno, path=path, branch=branch))


def parameters_of(node: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the named parameters of a function in order, each with its default."""
    positional = [*node.args.posonlyargs, *node.args.args]
    missing = len(positional) - len(node.args.defaults)
    defaults: list[ast.expr | None] = [None] * missing + list(node.args.defaults)
    return [
        *zip(positional, defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
