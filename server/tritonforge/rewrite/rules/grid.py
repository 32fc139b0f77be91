"""Reading a grid: what each axis divides by, and the expressions it is made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tritonforge.rewrite.rules.launch_values import called_name, integer, literal_in
from tritonforge.rewrite.scopes import FUNCTIONS, Function, Scopes, Variable

_CEILING = re.compile(
    r"_*(cdiv|ceil_?div(ide)?|div_?(round_?)?up|div_?ceil|round_?up_?div|ceiling_?div)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Divisor:
    """A division in a grid: `node` the whole of it, `factors` what it divides by, `terms` the sum that it divides.

    `terms` are the integer literals and names of a rounding sum (`31` of `(M + 31) // 32`), `numerator` is the rest as
    normalised text (`M`).
    """

    node: ast.expr
    factors: tuple[ast.expr, ...]
    terms: tuple[ast.expr, ...]
    numerator: str


def divisors(expression: ast.AST) -> Iterator[Divisor]:
    """Yield every division in `expression`: ceiling-division calls, `//`, `/` and `%`, outermost first."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and _CEILING.match(called_name(node)) and len(node.args) == 2:
            yield Divisor(node, tuple(_factors(node.args[1])), (), ast.unparse(node.args[0]))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div | ast.Mod):
            terms = list(_terms(node.left))
            rounding = tuple(t for t in terms if isinstance(t, ast.Constant | ast.Name | ast.Attribute))
            rest = [t for t in terms if integer(t) is None and not _is_in(t, node.right)]
            numerator = ast.unparse(rest[0]) if len(rest) == 1 else ast.unparse(node.left)
            yield Divisor(node, tuple(_factors(node.right)), rounding, numerator)


def _is_in(term: ast.expr, divisor: ast.expr) -> bool:
    return any(ast.unparse(term) == ast.unparse(f) for f in _factors(divisor))


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left)
        yield from _terms(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _terms(node.operand)
    else:
        yield node


@dataclass
class Grid:
    """What a grid expression is made of.

    `axes` maps an axis to its alternatives (branches of a conditional grid), each the expressions it is computed
    from; what belongs to no known axis is under None. `roots` are the stretches of source it is read from: the
    expression at the launch, values of variables, functions. `meta` are names by which functions of the grid see
    the launch's values.
    """

    axes: dict[int | None, list[list[ast.expr]]] = field(default_factory=dict)
    roots: list[ast.AST] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    meta: set[str] = field(default_factory=set)


def read_grid(scopes: Scopes, expression: ast.expr) -> Grid:
    """Follow a grid expression through variables, lambdas and local functions."""
    grid = Grid()
    grid.roots.append(expression)
    _split(scopes, grid, expression, depth=0)
    return grid


def _split(scopes: Scopes, grid: Grid, node: ast.expr, depth: int) -> None:
    if depth > 8:
        _add(scopes, grid, None, node)
        return
    if isinstance(node, ast.Tuple | ast.List):
        for axis, element in enumerate(node.elts):
            starred = any(isinstance(e, ast.Starred) for e in node.elts[: axis + 1])
            _add(scopes, grid, None if starred else axis, element)
    elif isinstance(node, ast.IfExp):
        _split(scopes, grid, node.body, depth + 1)
        _split(scopes, grid, node.orelse, depth + 1)
    elif isinstance(node, ast.Lambda):
        _split_function(scopes, grid, node, depth)
    elif isinstance(node, ast.Name):
        variable = scopes.resolve(node)
        if variable is None or variable.parameter is not None or None in variable.values or not variable.values:
            _add(scopes, grid, None, node)
            return
        if variable in grid.variables:
            return
        grid.variables.append(variable)
        for value in values_at(scopes, node, variable):
            if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef):
                grid.roots.append(value)
                _split_function(scopes, grid, value, depth)
            elif isinstance(value, ast.expr):
                grid.roots.append(value)
                _split(scopes, grid, value, depth + 1)
    elif isinstance(node, ast.Call) and called_name(node) in {"tuple", "list"} and len(node.args) == 1:
        _split(scopes, grid, node.args[0], depth + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_local_function(scopes, node.func):
        for argument in (*node.args, *(k.value for k in node.keywords)):
            _add(scopes, grid, None, argument)
        _split(scopes, grid, node.func, depth + 1)
    else:
        _add(scopes, grid, 0 if not isinstance(node, ast.Call) else None, node)


def values_at(scopes: Scopes, read: ast.Name, variable: Variable) -> list[ast.expr | Function | None]:
    """Return what a variable may be where it is read: the value set last where all are set one after the other.

    A host function often launches several kernels, each with a `grid` of its own under the same name.
    """
    body = getattr(variable.scope, "body", None)
    if len(variable.values) < 2 or not isinstance(body, list) or scopes.scope_of(read) is not variable.scope:
        return variable.values
    places: list[int] = []
    for value in variable.values:
        statement = value if isinstance(value, ast.FunctionDef) else scopes.parents.get(value) if value else None
        plain = isinstance(statement, ast.FunctionDef) or (
            isinstance(statement, ast.Assign) and statement.value is value
        )
        place = next((i for i, one in enumerate(body) if one is statement), None)
        if not plain or place is None:
            return variable.values
        places.append(place)
    here = next((i for i, one in enumerate(body) if scopes.inside(read, one)), 0)
    before = [i for i, place in enumerate(places) if place < here]
    return [variable.values[max(before, key=lambda i: places[i])]] if before else variable.values


def _is_local_function(scopes: Scopes, name: ast.Name) -> bool:
    variable = scopes.resolve(name)
    return variable is not None and isinstance(variable.single, FUNCTIONS)


def _split_function(scopes: Scopes, grid: Grid, function: Function, depth: int) -> None:
    parameters = [*function.args.posonlyargs, *function.args.args]
    if len(parameters) == 1:
        grid.meta.add(parameters[0].arg)
    if isinstance(function, ast.Lambda):
        _split(scopes, grid, function.body, depth + 1)
        return
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None and scopes.function_of(node) is function:
            _split(scopes, grid, node.value, depth + 1)


def _add(scopes: Scopes, grid: Grid, axis: int | None, node: ast.expr) -> None:
    """Record `node` as an alternative for `axis`, with the expressions behind the variables that it reads."""
    alternative: list[ast.expr] = []
    grid.axes.setdefault(axis, []).append(alternative)
    pending = [node]
    while pending:
        expression = pending.pop()
        alternative.append(expression)
        for name in ast.walk(expression):
            variable = scopes.resolve(name) if isinstance(name, ast.Name | ast.Attribute) else None
            value = variable.single if variable is not None else None
            if variable is None or not isinstance(value, ast.expr) or literal_in(value) is not None:
                continue
            if isinstance(value, ast.Lambda) or value in alternative or value in pending:
                continue
            pending.append(value)
            if variable not in grid.variables:
                grid.variables.append(variable)
                grid.roots.append(value)


def counted(scopes: Scopes, expressions: Sequence[ast.expr]) -> ast.expr | None:
    """Return the part of an axis whose extent is read off the device (`.item()`), where there is one.

    Directly, or by a function of the file that returns a tensor whose extent it is.
    """
    for expression in expressions:
        for node in ast.walk(expression):
            if _reads_device(node):
                assert isinstance(node, ast.expr)
                return node
            if isinstance(node, ast.Name) and _returned_by_counting(scopes, node):
                return node
    return None


def _reads_device(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"item", "tolist"}


def _returned_by_counting(scopes: Scopes, name: ast.Name) -> bool:
    variable = scopes.resolve(name)
    if variable is None or len(variable.values) != 1 or variable.parameter is not None:
        return False
    for node in ast.walk(variable.scope):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if not any(isinstance(n, ast.Name) and n.id == name.id for t in node.targets for n in ast.walk(t)):
            continue
        called = node.value.func
        function = scopes.resolve(called) if isinstance(called, ast.Name) else None
        if function is not None and isinstance(function.single, FUNCTIONS):
            return any(_reads_device(inner) for inner in ast.walk(function.single))
    return False


def meta_key(grid: Grid, node: ast.AST) -> str | None:
    """Return `BLOCK` for `META["BLOCK"]` or `META.get("BLOCK")` in a function of the grid."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in grid.meta:
        key = node.slice
    elif isinstance(node, ast.Call) and called_name(node) == "get" and node.args:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(owner, ast.Name) or owner.id not in grid.meta:
            return None
        key = node.args[0]
    else:
        return None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
