"""Who is meant by a name: the variables of a file, where each is set and where it is read.

Just enough of Python's scoping for host code (functions, lambdas, comprehensions, classes, `global`, `nonlocal`). A
variable set in any way that this module cannot follow has `None` among its values, so that nobody takes it for known.
An attribute of a class is a variable of the class's body, which `self.BLOCK`, `cls.BLOCK` and `Class.BLOCK` read.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from tritonforge.rewrite.text import Source

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.expr
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Read = ast.Name | ast.Attribute
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Variable:
    """One variable. `values` holds one entry per place that sets it, None where the value is not an expression.

    `parameter` is set for a function's parameter (its default is not among the values). `reads` are the places that
    read it, in source order.
    """

    name: str
    scope: ast.AST
    values: list[ast.expr | Function | None] = field(default_factory=list)
    parameter: ast.arg | None = None
    reads: list[Read] = field(default_factory=list)

    @property
    def single(self) -> ast.expr | Function | None:
        """The one value it ever has, where that is an expression or a function; None otherwise."""
        return self.values[0] if len(self.values) == 1 and self.parameter is None else None


class Scopes:
    """The scopes of one syntax tree. `nodes` are all its nodes, `parents` the node around each. Not to be changed."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = [tree]
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)
        self._variables: dict[ast.AST, dict[str, Variable]] = {}
        self._outer_names: dict[ast.AST, dict[str, str]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Global | ast.Nonlocal):
                kind = "global" if isinstance(node, ast.Global) else "nonlocal"
                names = self._outer_names.setdefault(self.scope_of(node), {})
                names.update(dict.fromkeys(node.names, kind))
        for node in self.nodes:
            self._bind(node)
        self._by_read: dict[Read, Variable] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                variable = self._lookup(node.id, self.scope_of(node))
                if variable is not None:
                    variable.reads.append(node)
                    self._by_read[node] = variable
        self._read_attributes()
        self._set_by: dict[ast.AST, list[Variable]] = {}
        for variables in self._variables.values():
            for variable in variables.values():
                variable.reads.sort(key=lambda n: (n.lineno, n.col_offset))
                for value in variable.values:
                    if value is not None:
                        self._set_by.setdefault(value, []).append(variable)

    def resolve(self, name: Read) -> Variable | None:
        """Return the variable that `name` reads; None for builtins, names set nowhere and attributes of objects."""
        return self._by_read.get(name)

    def set_by(self, target: ast.Name) -> Variable | None:
        """Return the variable that an assignment to `target` sets."""
        return self._lookup(target.id, self.scope_of(target))

    def _read_attributes(self) -> None:
        """Find who reads the variables of class bodies by way of the class or its objects.

        What is set on an object or a class from elsewhere, set anew by a class derived from it, or read of something
        that nobody knows, is not known either.
        """
        classes = {scope: own for scope, own in self._variables.items() if isinstance(scope, ast.ClassDef)}
        named = {name for own in classes.values() for name in own}
        for node in self.nodes:
            if not isinstance(node, ast.Attribute) or node.attr not in named:
                continue
            owner = self._class_of(node.value) if isinstance(node.ctx, ast.Load) else None
            if owner is not None and node.attr in classes.get(owner, {}):
                variable = classes[owner][node.attr]
                variable.reads.append(node)
                self._by_read[node] = variable
                if owner.decorator_list or any(
                    node.attr in own and any(owner.name in ast.unparse(base) for base in other.bases)
                    for other, own in classes.items()
                ):
                    variable.values.append(None)
                continue
            for own in classes.values():
                if node.attr in own:
                    own[node.attr].values.append(None)

    def _class_of(self, node: ast.expr) -> ast.ClassDef | None:
        """Return the class that `node` names, or that it is an object of, being a method's first parameter."""
        if not isinstance(node, ast.Name) or (variable := self.resolve(node)) is None:
            return None
        function = variable.scope
        if variable.parameter is not None and isinstance(function, ast.FunctionDef) and not variable.values:
            around = self.parents[function]
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
            first = next(iter((*function.args.posonlyargs, *function.args.args)), None)
            return around if isinstance(around, ast.ClassDef) and not static and first is variable.parameter else None
        made = [n for n in self._variables if isinstance(n, ast.ClassDef) and n.name == node.id]
        return made[0] if len(made) == 1 and variable.values == [None] else None

    def alike(self, variables: Iterable[Variable]) -> list[Variable]:
        """Return `variables` and all that get their value with or from them: B and C of `A = B = 64` and `C = A`."""
        found = list(variables)
        for variable in found:
            places = [*(v for v in variable.values if v is not None), *variable.reads]
            found += [v for place in places for v in self._set_by.get(place, ()) if v not in found]
        return found

    def tests_around(self, variables: Iterable[Variable]) -> list[ast.expr]:
        """Return the tests of `if` and `while` statements that decide whether one of `variables` is set."""
        places = [value for variable in variables for value in variable.values if value is not None]
        return [a.test for place in places for a in self.ancestors(place) if isinstance(a, ast.If | ast.While)]

    def depends(self, node: ast.AST, variables: Collection[Variable]) -> bool:
        """Tell whether `node` reads one of `variables`, directly or by what other variables are set to."""
        pending, seen = [node], set[Variable]()
        while pending and variables:
            for inner in ast.walk(pending.pop()):
                found = self.resolve(inner) if isinstance(inner, ast.Name | ast.Attribute) else None
                if found in variables:
                    return True
                if found is not None and found not in seen:
                    seen.add(found)
                    pending += [value for value in found.values if isinstance(value, ast.expr)]
        return False

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Tell whether `node` is `outer` or lies in it."""
        return node is outer or any(a is outer for a in self.ancestors(node))

    def function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost `def` around `node`."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.FunctionDef | ast.AsyncFunctionDef)), None)

    def scope_of(self, node: ast.AST) -> ast.AST:
        """Return the scope in which a name at `node` is looked up first."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, ast.Module):
                return parent
            if isinstance(parent, FUNCTIONS) and not _outside_own_scope(parent, child):
                return parent
            if isinstance(parent, ast.ClassDef) and child in parent.body:
                return parent
            if isinstance(parent, _COMPREHENSIONS) and child is not parent.generators[0]:
                return parent
            if isinstance(parent, _COMPREHENSIONS) and not self.inside(node, parent.generators[0].iter):
                return parent
            child = parent
        return self.tree

    def _variable(self, name: str, scope: ast.AST) -> Variable:
        outer = self._outer_names.get(scope, {}).get(name)
        if outer == "global":
            scope = self.tree
        elif outer == "nonlocal":
            scope = next((a for a in self.ancestors(scope) if isinstance(a, FUNCTIONS)), self.tree)
        return self._variables.setdefault(scope, {}).setdefault(name, Variable(name, scope))

    def _lookup(self, name: str, scope: ast.AST) -> Variable | None:
        outer = self._outer_names.get(scope, {}).get(name)
        if outer == "global":
            scope = self.tree
        first = True
        for candidate in (scope, *self.ancestors(scope)):
            # A class body's names are seen in the body itself and not in its methods.
            visible = not isinstance(candidate, ast.ClassDef) or first
            if visible and name in self._variables.get(candidate, {}):
                return self._variables[candidate][name]
            first = False
        return None

    def _set(self, name: str, at: ast.AST, value: ast.expr | Function | None) -> None:
        scope = self.scope_of(at)
        if isinstance(at, ast.NamedExpr):
            # A walrus in a comprehension binds in the function around it.
            while isinstance(scope, _COMPREHENSIONS):
                scope = self.scope_of(scope)
        self._variable(name, scope).values.append(value)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_target(target, node, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._bind_target(target, node, value)
            case ast.NamedExpr(target=target, value=value):
                self._bind_target(target, node, value)
            case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
                self._bind_target(target, node, None)
            case ast.comprehension(target=target):
                self._bind_target(target, target, None)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        self._bind_target(item.optional_vars, node, None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                # A decorated function is whatever its decorators return.
                self._set(name, node, None if node.decorator_list else node)
                self._bind_parameters(node)
            case ast.Lambda():
                self._bind_parameters(node)
            case ast.ClassDef(name=name):
                self._set(name, node, None)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    self._set((alias.asname or alias.name).partition(".")[0], node, None)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._set(name, node, None)
            case ast.MatchMapping(rest=str(name)):
                self._set(name, node, None)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._bind_target(target, node, None)
            case _:
                pass

    def _bind_parameters(self, node: Function) -> None:
        a = node.args
        for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
            if arg is not None:
                self._variable(arg.arg, node).parameter = arg

    def _bind_target(self, target: ast.expr, at: ast.AST, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, at, value)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, at, None)
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.IfExp):
            # Each arm sets the names: a value more for everyone who asks.
            for arm in (value.body, value.orelse):
                self._bind_target(target, at, arm)
        elif isinstance(target, ast.Tuple | ast.List):
            parts: list[ast.expr | None] = [None] * len(target.elts)
            plain = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            if plain and not any(isinstance(e, ast.Starred) for e in (*value.elts, *target.elts)):  # type: ignore[union-attr]
                parts = list(value.elts)  # type: ignore[union-attr]
            for element, part in zip(target.elts, parts, strict=True):
                self._bind_target(element, at, part)


def _outside_own_scope(function: Function, child: ast.AST) -> bool:
    """Decorators, defaults and annotations of a function are evaluated around it, not in it."""
    if isinstance(function, ast.Lambda):
        return child is function.args
    return child not in function.body


def default_of(function: Function, name: str) -> ast.expr | None:
    """Return the default of the parameter `name`, or None."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    for arg, default in zip(reversed(positional), reversed(a.defaults), strict=False):
        if arg.arg == name:
            return default
    for arg, keyword_default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if arg.arg == name:
            return keyword_default
    return None


@lru_cache(maxsize=12)
def read(file: str, text: str) -> tuple[Source, Scopes]:
    """Return a text with its scopes. A search asks for dozens of edits of one text, by rules of both kinds.

    Raises:
        SyntaxError: as `Source` does.
    """
    source = Source(file, text)
    return source, Scopes(source.tree)
