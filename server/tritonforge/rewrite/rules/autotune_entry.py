"""A further `triton.Config` for an autotuner whose list of configs is written out, or made by comprehensions.

The new one goes to the front: what is compiled and compared without measuring is an autotuner's first choice.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.computed_configs import Model, is_open, may_hold, model_of, models_in, possible
from tritonforge.rewrite.rules.keyword_arguments import prepend_item
from tritonforge.rewrite.rules.launch_values import (
    COMPILER_DEFAULTS,
    OPTIONS,
    AlreadySo,
    Refused,
    called_name,
    integer,
)
from tritonforge.rewrite.scopes import Function, Scopes
from tritonforge.rewrite.text import Source


def add_config(
    source: Source,
    scopes: Scopes,
    function: ast.FunctionDef | None,
    wanted: Mapping[str, int],
    running: Mapping[str, int],
) -> tuple[Edit, ...]:
    """Return the edit that puts a config with `wanted` at the head of the list of `@triton.autotune` above `function`.

    A list that stands in the decorator, or in a variable of the module that nothing else reads, gets one more item. To
    one that is computed (by a comprehension, say) a list with the new config is added. Values that `wanted` does not
    give are those that the launch runs with (`running`, empty where none is known), else those of the list's first
    config.

    Raises:
        Refused: what the list is made of is not seen, a value is none that it tunes, or the config is there already.
    """
    given = _given(scopes, function)
    configs = _written(scopes, given)
    if configs is None:
        return _added(source, scopes, given, wanted, running)
    entries = [entry for entry in map(_entry, configs.elts) if entry is not None]
    if len(entries) != len(configs.elts):
        raise Refused("already autotuned: not all of its configs are written out")
    first = configs.elts[0]
    assert isinstance(first, ast.Call)
    tiles, options = dict(entries[0][0]), dict(entries[0][1])
    for name, value in {**_tuned(running, tiles, options, {n for _, more in entries for n in more}), **wanted}.items():
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


def _tuned(
    running: Mapping[str, int], tiles: Mapping[str, object], options: Mapping[str, object], tuned: Collection[str]
) -> dict[str, int]:
    """Return what the launch runs with of the values that configs give, where the first one need not have it."""
    usual = {name: value for name, value in COMPILER_DEFAULTS.items() if name not in options}
    return {n: v for n, v in running.items() if n in tiles or (n in OPTIONS and n in tuned and usual.get(n) != v)}


def _added(
    source: Source, scopes: Scopes, given: ast.expr, wanted: Mapping[str, int], running: Mapping[str, int]
) -> tuple[Edit, ...]:
    """Return the edits that add a list with a config like those of a computed list, in front of that."""
    models = _models(scopes, given)
    first = models[0]
    for name in wanted:
        if name not in first.tiles and name not in OPTIONS:
            raise Refused(_NOT_TUNED.format(name))
    wanted = {**_tuned(running, first.tiles, first.options, {n for model in models for n in model.options}), **wanted}
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


def _written(scopes: Scopes, given: ast.expr | Function) -> ast.List | ast.Tuple | None:
    """Return the list of configs that is written out for this kernel's decorator alone; None for any other."""
    if isinstance(given, ast.Name):
        variable = scopes.resolve(given)
        single = variable.single if variable is not None else None
        if variable is None or single is None or any(read is not given for read in variable.reads):
            return None
        given = single
    if not isinstance(given, ast.List | ast.Tuple):
        return None
    if not given.elts:
        raise Refused("already autotuned: its list of configs is empty")
    return given


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


def _entry(node: ast.expr) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the constexprs and options of a config whose warps and stages are written out, None otherwise."""
    model = model_of(node)
    if model is None:
        return None
    if any(integer(value) is None for name, value in model.options.items() if name in {"num_warps", "num_stages"}):
        return None
    tiles, options = ({n: ast.unparse(v) for n, v in part.items()} for part in (model.tiles, model.options))
    return tiles, options
