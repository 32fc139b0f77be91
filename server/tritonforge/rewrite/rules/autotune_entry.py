"""A further `triton.Config` for an autotuner whose list of configs is written out, or made by comprehensions.

The new one goes to the front: what is compiled and compared without measuring is an autotuner's first choice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.computed_configs import Model, is_open, may_hold, models_in, possible
from tritonforge.rewrite.rules.keyword_arguments import prepend_item
from tritonforge.rewrite.rules.launch_values import (
    COMPILER_DEFAULTS,
    OPTIONS,
    AlreadySo,
    Refused,
    called_name,
    integer,
)
from tritonforge.rewrite.scopes import Scopes
from tritonforge.rewrite.text import Source


def add_config(
    source: Source, scopes: Scopes, function: ast.FunctionDef | None, wanted: Mapping[str, int]
) -> tuple[Edit, ...]:
    """Return the edit that puts a config with `wanted` at the head of the list of `@triton.autotune` above `function`.

    A list that stands in the decorator, or in a variable of the module that nothing else reads, gets one more item. To
    one that is computed (by a comprehension, say) a list with the new config is added. Values that `wanted` does not
    give are those of the list's first config.

    Raises:
        Refused: what the list is made of is not seen, a value is none that it tunes, or the config is there already.
    """
    given = _given(scopes, function)
    configs = _written(scopes, given)
    if configs is None:
        return _added(source, scopes, given, wanted)
    calls = [e for e in configs.elts if isinstance(e, ast.Call) and called_name(e) == "Config"]
    entries = [_entry(c) for c in calls]
    if len(calls) != len(configs.elts) or any(e is None for e in entries):
        raise Refused("already autotuned: not all of its configs are written out")
    first, model = calls[0], entries[0]
    assert model is not None
    tiles, options = dict(model[0]), dict(model[1])
    for name, value in wanted.items():
        if name in tiles:
            tiles[name] = str(value)
        elif name in OPTIONS:
            options[name] = str(value)
        else:
            raise Refused(_NOT_TUNED.format(name))
    if any(e == (tiles, options) for e in entries):
        raise AlreadySo("nothing to change: the autotuner has this config already")
    called = source.segment(first.func)
    return (prepend_item(source, configs.elts, _config(called, {f'"{k}"': v for k, v in tiles.items()}, options)),)


def _added(source: Source, scopes: Scopes, given: ast.expr, wanted: Mapping[str, int]) -> tuple[Edit, ...]:
    """Return the edits that add a list with a config like those of a computed list, in front of that."""
    models = _models(scopes, given)
    first = models[0]
    for name in wanted:
        if name not in first.tiles and name not in OPTIONS:
            raise Refused(_NOT_TUNED.format(name))
    values: dict[str, str] = {}
    for name, node in first.values().items():
        seen = possible(scopes, node) if name not in wanted else None
        if name in wanted:
            values[name] = str(wanted[name])
        elif seen:
            values[name] = source.segment(node) if len(seen) == 1 and not is_open(scopes, node) else seen[0]
        elif not is_open(scopes, node):
            values[name] = source.segment(node)
        elif name not in COMPILER_DEFAULTS:
            raise Refused(f"already autotuned: what its configs give for {name} is computed")
    values |= {name: str(value) for name, value in wanted.items()}
    if any(may_hold(scopes, model, values) for model in models):
        raise AlreadySo("nothing to change: the autotuner has this config already, at least on some devices")
    tiles = {source.segment(first.keys[name]): values[name] for name in first.tiles}
    options = {name: value for name, value in values.items() if name not in first.tiles}
    return _in_front(source, given, _config(source.segment(first.call.func), tiles, options))


def _models(scopes: Scopes, given: ast.expr) -> list[Model]:
    models = models_in(scopes, given)
    if models is None:
        raise Refused(f"{_COMPUTED} ({_how(given)})")
    return models


def _config(called: str, tiles: Mapping[str, str], options: Mapping[str, str]) -> str:
    body = ", ".join(f"{key}: {value}" for key, value in tiles.items())
    return f"{called}({{{body}}}{''.join(f', {name}={value}' for name, value in options.items())})"


def _in_front(source: Source, given: ast.expr, config: str) -> tuple[Edit, ...]:
    """Return the edits that add a list with `config` in front of a list, in two lines where one is too short."""
    start, end = source.span(given)
    line = source.line_text(source.line_of(start))
    before = source.text[source.line_starts[source.line_of(start) - 1] : start]
    between = " "
    if len(line) + len(config) + len("[] + ") > _LONGEST:
        deeper = "    " if line.lstrip().startswith("@") else ""
        between = source.newline + before[: len(before) - len(before.lstrip())] + deeper
    text = f"[{config}]{between}+ "
    if isinstance(given, ast.IfExp):
        return source.insert(start, f"{text}("), source.insert(end, ")")
    return (source.insert(start, text),)


def _given(scopes: Scopes, function: ast.FunctionDef | None) -> ast.expr:
    """Return what the decorator is given as configs.

    Raises:
        Refused: it is given nothing, or a name that another file sets.
    """
    decorators = function.decorator_list if function else ()
    calls = (d for d in decorators if isinstance(d, ast.Call) and called_name(d).endswith("autotune"))
    decorator = next(calls, None)
    given = next((k.value for k in decorator.keywords if k.arg == "configs"), None) if decorator else None
    given = given or (decorator.args[0] if decorator and decorator.args else None)
    if given is None:
        raise Refused(_COMPUTED)
    if isinstance(given, ast.Name):
        variable = scopes.resolve(given)
        if variable is None or variable.values == [None]:
            raise Refused(f"already autotuned: its list of configs, {given.id}, is not written in this file")
    return given


def _written(scopes: Scopes, given: ast.expr) -> ast.List | None:
    """Return the list of configs that is written out for this kernel's decorator alone; None for any other."""
    if isinstance(given, ast.Name):
        variable = scopes.resolve(given)
        single = variable.single if variable is not None else None
        if variable is None or not isinstance(single, ast.List) or any(read is not given for read in variable.reads):
            return None
        given = single
    if isinstance(given, ast.List) and not given.elts:
        raise Refused("already autotuned: its list of configs is empty")
    return given if isinstance(given, ast.List) else None


_LONGEST = 120
_NOT_TUNED = "already autotuned: {} is not among the values that its configs give"
_COMPUTED = "already autotuned: its list of configs is computed, so that no config can be added to it by an edit"


def _how(given: ast.expr) -> str:
    if isinstance(given, ast.ListComp | ast.GeneratorExp):
        return f"a comprehension at line {given.lineno}"
    if isinstance(given, ast.Call):
        return f"what {ast.unparse(given.func)}() returns"
    if isinstance(given, ast.Name):
        return f"{given.id} at line {given.lineno}"
    return f"line {given.lineno}"


def _entry(call: ast.Call) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the constexprs and options of a config that is written out in integers, None otherwise."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "kwargs"), None)
    if not isinstance(given, ast.Dict) or len(call.args) > 1 or any(k.arg is None for k in call.keywords):
        return None
    tiles = {}
    for key, value in zip(given.keys, given.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return None
        tiles[key.value] = ast.unparse(value)
    options = {str(k.arg): ast.unparse(k.value) for k in call.keywords if k.arg != "kwargs"}
    if any(integer(k.value) is None for k in call.keywords if k.arg in {"num_warps", "num_stages"}):
        return None
    return tiles, options
