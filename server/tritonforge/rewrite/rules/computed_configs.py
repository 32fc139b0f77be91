"""Lists of configs that comprehensions, sums and conditions make: what their configs look like, and which there may be.

Nothing is run: of a condition both sides count, so that what a list may hold is known, and not what it does hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tritonforge.rewrite.rules.launch_values import COMPILER_DEFAULTS, OPTIONS, called_name
from tritonforge.rewrite.scopes import Scopes, Variable

_DEPTH = 5


@dataclass(frozen=True)
class Model:
    """One `Config(…)` by which a list is made: its constexprs and options with their expressions, keys as written."""

    call: ast.Call
    keys: Mapping[str, ast.expr]
    tiles: Mapping[str, ast.expr]
    options: Mapping[str, ast.expr]

    def values(self) -> Mapping[str, ast.expr]:
        """Return constexprs and options together."""
        return {**self.tiles, **self.options}


def model_of(node: ast.expr | None) -> Model | None:
    """Return what a `Config(…)` gives; None for anything else, or where its constexprs are not written out."""
    if not isinstance(node, ast.Call) or called_name(node) != "Config" or any(k.arg is None for k in node.keywords):
        return None
    given = {str(k.arg): k.value for k in node.keywords}
    tiles = given.pop("kwargs", node.args[0] if node.args else None)
    if not isinstance(tiles, ast.Dict) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    keys = {k.value: k for k in tiles.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    if len(keys) != len(tiles.keys):
        return None
    options = dict(zip(OPTIONS, node.args[1:], strict=False)) | given
    return Model(node, keys, dict(zip(keys, tiles.values, strict=True)), options)


def models_in(scopes: Scopes, given: ast.expr) -> list[Model] | None:
    """Return what the configs of a list are made by; None where that is not seen, or where it may be no list."""
    found: list[Model] = []
    for one in _lists(scopes, given, _DEPTH):
        elements = [one.elt] if isinstance(one, ast.ListComp) else one.elts if isinstance(one, ast.List) else [None]
        made = [model_of(element) for element in elements]
        if any(model is None for model in made):
            return None
        found += [model for model in made if model is not None]
    return found or None


def possible(scopes: Scopes, node: ast.expr) -> list[str] | None:
    """Return the literals that an expression in a config may be, as text, in order; None where that is not seen."""
    if isinstance(node, ast.Constant):
        return [repr(node.value)]
    if isinstance(node, ast.IfExp):
        return _union([possible(scopes, node.body), possible(scopes, node.orelse)])
    variable = scopes.resolve(node) if isinstance(node, ast.Name) else None
    if variable is None or variable.parameter is not None:
        return None
    iterable = _loop(variable)
    if iterable is not None:
        return _elements(scopes, iterable, _DEPTH)
    return _union([possible(scopes, value) if isinstance(value, ast.Constant) else None for value in variable.values])


def may_hold(scopes: Scopes, model: Model, wanted: Mapping[str, str]) -> bool:
    """Tell whether one of the configs that `model` makes may be `wanted` (constexpr or option → text)."""
    given, chosen = model.values(), dict[Variable, str]()
    for name in dict.fromkeys((*given, *wanted)):
        node = given.get(name)
        default = COMPILER_DEFAULTS.get(name)
        value = wanted.get(name, None if default is None else str(default))
        values = possible(scopes, node) if node is not None else None if default is None else [str(default)]
        if values is None or value is None or value not in values:
            return False
        variable = scopes.resolve(node) if isinstance(node, ast.Name) else None
        if variable is not None and chosen.setdefault(variable, value) != value:
            return False
    return True


def is_open(scopes: Scopes, node: ast.expr) -> bool:
    """Tell whether an expression in a config reads a variable of the comprehension around it."""
    names = (scopes.resolve(one) for one in ast.walk(node) if isinstance(one, ast.Name))
    return any(variable is not None and _loop(variable) is not None for variable in names)


def _lists(scopes: Scopes, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """Yield the lists and comprehensions that an expression puts together; itself where it is something else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    else:
        # Only names count: what one leads to may lead back to it (`CONFIGS = CONFIGS + [...]`).
        variable = scopes.resolve(node) if isinstance(node, ast.Name) and depth else None
        depth -= 1
        parts = [value for value in variable.values if isinstance(value, ast.expr)] if variable is not None else []
        if variable is None or variable.parameter is not None or len(parts) != len(variable.values):
            parts = []
    if not parts:
        yield node
    for part in parts:
        yield from _lists(scopes, part, depth)


def _loop(variable: Variable) -> ast.expr | None:
    """Return what a variable of a comprehension goes through."""
    if not isinstance(variable.scope, ast.ListComp | ast.GeneratorExp):
        return None
    generators = variable.scope.generators
    named = (g.iter for g in generators if isinstance(g.target, ast.Name) and g.target.id == variable.name)
    return next(named, None)


def _elements(scopes: Scopes, node: ast.expr, depth: int) -> list[str] | None:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return _union([possible(scopes, element) for element in node.elts])
    if isinstance(node, ast.IfExp):
        return _union([_elements(scopes, node.body, depth), _elements(scopes, node.orelse, depth)])
    variable = scopes.resolve(node) if isinstance(node, ast.Name) and depth else None
    if variable is None or variable.parameter is not None:
        return None
    parts = [_elements(scopes, v, depth - 1) if isinstance(v, ast.expr) else None for v in variable.values]
    return _union(parts)


def _union(parts: list[list[str] | None]) -> list[str] | None:
    found = dict.fromkeys(value for part in parts for value in part or ())
    return None if any(part is None for part in parts) or not parts else list(found)
