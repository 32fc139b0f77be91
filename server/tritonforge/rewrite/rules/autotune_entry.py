"""A further `triton.Config` for an autotuner whose list of configs is written out."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.keyword_arguments import insert_items
from tritonforge.rewrite.rules.launch_values import Refused, called_name, integer
from tritonforge.rewrite.text import Source


def add_config(source: Source, function: ast.FunctionDef | None, wanted: Mapping[str, int]) -> tuple[Edit, ...]:
    """Return the edit that appends a config with `wanted` to the list of `@triton.autotune` above `function`.

    Values that `wanted` does not give are those of the list's first config.

    Raises:
        Refused: the list is not written out, a value is none that it tunes, or the config is there already.
    """
    decorator = next(
        (
            d
            for d in (function.decorator_list if function else ())
            if isinstance(d, ast.Call) and called_name(d) == "autotune"
        ),
        None,
    )
    configs = _list_of(decorator) if decorator else None
    if configs is None or not configs.elts:
        raise Refused(
            "already autotuned: its list of configs is computed, so that no config can be added to it by an edit"
        )
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
        elif name in {"num_warps", "num_stages", "num_ctas", "maxnreg"}:
            options[name] = str(value)
        else:
            raise Refused(f"already autotuned: {name} is not among the values that its configs give")
    if any(e == (tiles, options) for e in entries):
        raise Refused("nothing to change: the autotuner has this config already")
    called = source.segment(first.func)
    body = ", ".join(f'"{k}": {v}' for k, v in tiles.items())
    tail = "".join(f", {k}={v}" for k, v in options.items())
    return insert_items(source, configs, configs.elts, [f"{called}({{{body}}}{tail})"])


def _list_of(decorator: ast.Call) -> ast.List | None:
    given = next((k.value for k in decorator.keywords if k.arg == "configs"), None)
    given = given or (decorator.args[0] if decorator.args else None)
    return given if isinstance(given, ast.List) else None


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
