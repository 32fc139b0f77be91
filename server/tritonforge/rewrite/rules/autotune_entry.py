"""A further `triton.Config` for an autotuner whose list of configs is written out.

The new one goes to the front: what is compiled and compared without measuring is an autotuner's first choice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.rules.keyword_arguments import prepend_item
from tritonforge.rewrite.rules.launch_values import (
    OPTIONS,
    AlreadySo,
    Refused,
    called_name,
    integer,
    kernel_function,
)
from tritonforge.rewrite.scopes import Scopes, read
from tritonforge.rewrite.text import Source


def add_config(
    source: Source, scopes: Scopes, function: ast.FunctionDef | None, wanted: Mapping[str, int]
) -> tuple[Edit, ...]:
    """Return the edit that puts a config with `wanted` at the head of the list of `@triton.autotune` above `function`.

    The list stands in the decorator, or in a variable of the module that nothing else reads. Values that `wanted` does
    not give are those of the list's first config.

    Raises:
        Refused: the list is not written out, a value is none that it tunes, or the config is there already.
    """
    configs = _list_of(scopes, function)
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
            raise Refused(f"already autotuned: {name} is not among the values that its configs give")
    if any(e == (tiles, options) for e in entries):
        raise AlreadySo("nothing to change: the autotuner has this config already")
    called = source.segment(first.func)
    body = ", ".join(f'"{k}": {v}' for k, v in tiles.items())
    tail = "".join(f", {k}={v}" for k, v in options.items())
    return (prepend_item(source, configs.elts, f"{called}({{{body}}}{tail})"),)


def config_first(kernel: Kernel, text: str, index: int) -> str | None:
    """Return the text of the kernel's file with config `index` of its list in the first one's place, and back.

    None where the list is not written out for this kernel alone.
    """
    try:
        source, scopes = read(kernel.file, text)
        configs = _list_of(scopes, kernel_function(scopes, kernel)).elts
    except (Refused, SyntaxError):
        return None
    if not 0 < index < len(configs):
        return None
    first, other = source.segment(configs[0]), source.segment(configs[index])
    return apply_edits(text, (source.replace(configs[0], other), source.replace(configs[index], first)))


def _list_of(scopes: Scopes, function: ast.FunctionDef | None) -> ast.List:
    """Return the list of configs, where this kernel's decorator alone reads it.

    Raises:
        Refused: saying how the list is made, and why it is left alone.
    """
    decorators = function.decorator_list if function else ()
    calls = (d for d in decorators if isinstance(d, ast.Call) and called_name(d).endswith("autotune"))
    decorator = next(calls, None)
    given = next((k.value for k in decorator.keywords if k.arg == "configs"), None) if decorator else None
    given = given or (decorator.args[0] if decorator and decorator.args else None)
    if isinstance(given, ast.Name):
        variable = scopes.resolve(given)
        values = variable.values if variable is not None else []
        if variable is None or values == [None]:
            raise Refused(f"already autotuned: its list of configs, {given.id}, is not written in this file")
        if not isinstance(variable.single, ast.List):
            raise Refused(f"{_COMPUTED} ({given.id} at line {given.lineno})")
        other = next((read for read in variable.reads if read is not given), None)
        if other is not None:
            raise Refused(f"already autotuned: its list of configs, {given.id}, is read at line {other.lineno} too")
        given = variable.single
    if not isinstance(given, ast.List) or not given.elts:
        raise Refused(f"{_COMPUTED} ({_how(given)})" if given is not None else _COMPUTED)
    return given


_COMPUTED = "already autotuned: its list of configs is computed, so that no config can be added to it by an edit"


def _how(given: ast.expr) -> str:
    if isinstance(given, ast.ListComp | ast.GeneratorExp):
        return f"a comprehension at line {given.lineno}"
    if isinstance(given, ast.Call):
        return f"what {ast.unparse(given.func)}() returns"
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
