"""Which decorators and parameters a proposed kernel may have: what is constant, or stands in the original."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tritonforge.rewrite.llm import vocabulary as words
from tritonforge.rewrite.llm.expressions import Problem, Rules


def decorator_problems(rules: Rules) -> Iterator[Problem]:
    """Yield what is wrong with the decorators of a kernel or a jit helper.

    Allowed: those of the original, word for word; `triton.jit`; `triton.autotune` over configs that are written out;
    `triton.heuristics` with lambdas that compute numbers.
    """
    function = rules.function
    known = {ast.dump(one) for one in rules.before.node.decorator_list} if rules.before is not None else set()
    jit = False
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        path = rules.original.path(called, rules.scope)
        jit = jit or path == "triton.jit" or ast.dump(decorator) in known
        if ast.dump(decorator) in known or (path == "triton.jit" and not isinstance(decorator, ast.Call)):
            continue
        if rules.before is None or not isinstance(decorator, ast.Call):
            yield Problem(decorator.lineno, f"is decorated with {ast.unparse(decorator)[:60]}")
        elif path == "triton.autotune":
            yield from _autotune(decorator, rules)
        elif path == "triton.heuristics":
            yield from _heuristics(decorator, rules)
        else:
            yield Problem(decorator.lineno, f"is decorated with {ast.unparse(decorator.func)[:60]}")
    if not jit:
        yield Problem(function.lineno, f"leaves {function.name} without @triton.jit")


def parameter_problems(rules: Rules) -> Iterator[Problem]:
    """Yield what is wrong with a kernel's parameters: defaults are constants, annotations name types."""
    function = rules.function
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        yield Problem(function.lineno, "takes any number of arguments")
    if function.returns is not None and (
        rules.before is None
        or rules.before.node.returns is None
        or ast.dump(function.returns) != ast.dump(rules.before.node.returns)
    ):
        yield Problem(function.lineno, "annotates what it returns")
    known = set()
    if rules.before is not None:
        old = rules.before.node.args
        known = {ast.dump(one) for one in (*old.defaults, *old.kw_defaults) if one is not None}
    for default in (*arguments.defaults, *arguments.kw_defaults):
        if default is not None and not _is_plain(default) and ast.dump(default) not in known:
            yield Problem(default.lineno, f"has the default argument {ast.unparse(default)[:60]}")
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield from rules.name_bound(one.arg, one.lineno)
        if one.annotation is not None:
            yield from rules.annotation(one.annotation)


def _is_plain(node: ast.expr) -> bool:
    """Tell whether a value is a number, True, False, None or a plain word."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if not isinstance(node, ast.Constant):
        return False
    value = node.value
    if isinstance(value, str):
        return words.PLAIN_WORD.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and abs(value) <= words.LARGEST_INTEGER)


def _autotune(decorator: ast.Call, rules: Rules) -> Iterator[Problem]:
    named = dict(zip(("configs", "key"), decorator.args, strict=False))
    if len(decorator.args) > 2:
        yield Problem(decorator.lineno, "gives @triton.autotune more than configs and key by position")
    for keyword in decorator.keywords:
        if keyword.arg not in words.AUTOTUNE_OPTIONS:
            yield Problem(
                decorator.lineno, f"gives @triton.autotune {keyword.arg or 'keywords that are not written out'}"
            )
        else:
            named[keyword.arg] = keyword.value
    for name, value in named.items():
        if name == "configs":
            if not isinstance(value, ast.List) or not 0 < len(value.elts) <= 64:
                yield Problem(value.lineno, "does not write out the configs of @triton.autotune")
                continue
            for one in value.elts:
                yield from _config(one, rules)
        elif name in {"key", "reset_to_zero", "restore_value"}:
            parts = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
            if not all(
                isinstance(one, ast.Constant) and isinstance(one.value, str) and _is_plain(one) for one in parts
            ):
                yield Problem(value.lineno, f"gives @triton.autotune a {name} that is not written out")
            elif name == "reset_to_zero" and not {
                one.value for one in parts if isinstance(one, ast.Constant)
            } <= _reset_before(rules):
                # Nothing is tuned while a candidate is verified: that an input would be lost then would not be seen.
                yield Problem(
                    value.lineno, "lets @triton.autotune reset what the original does not (use restore_value)"
                )
        elif name in {"warmup", "rep"} and not (
            isinstance(value, ast.Constant) and isinstance(value.value, int) and 0 <= value.value <= _LONGEST_MS
        ):
            yield Problem(value.lineno, f"lets @triton.autotune take more than {_LONGEST_MS} ms for each config")
        elif not _is_plain(value):
            yield Problem(value.lineno, f"gives @triton.autotune a {name} that is not written out")


_LONGEST_MS = 1000


def _reset_before(rules: Rules) -> set[object]:
    """Return the names that the original's own decorators reset."""
    decorators = rules.before.node.decorator_list if rules.before is not None else []
    keywords = [node for one in decorators for node in ast.walk(one) if isinstance(node, ast.keyword)]
    given = [node for one in keywords if one.arg == "reset_to_zero" for node in ast.walk(one.value)]
    return {node.value for node in given if isinstance(node, ast.Constant)}


def _config(node: ast.expr, rules: Rules) -> Iterator[Problem]:
    if not isinstance(node, ast.Call) or rules.original.path(node.func, rules.scope) != "triton.Config":
        yield Problem(node.lineno, "has a config that is no triton.Config(…)")
        return
    if len(node.args) != 1 or not isinstance(node.args[0], ast.Dict):
        yield Problem(node.lineno, "has a triton.Config without a dict that is written out")
        return
    table = node.args[0]
    for key, value in zip(table.keys, table.values, strict=True):
        if key is None or not (isinstance(key, ast.Constant) and _is_plain(key)) or not _is_plain(value):
            yield Problem(node.lineno, "has a triton.Config whose values are not written out")
    meaning = {one.name for one in rules.original.kernel.parameters if one.role == "meaning"}
    for key in table.keys:
        # Without a GPU only the first config is verified, with one the fastest: none may decide what is computed.
        if isinstance(key, ast.Constant) and key.value in meaning:
            yield Problem(node.lineno, f"lets a config choose {key.value}, which says what is computed")
    for keyword in node.keywords:
        if keyword.arg not in words.CONFIG_OPTIONS or not _is_plain(keyword.value):
            yield Problem(node.lineno, f"gives triton.Config {keyword.arg or 'keywords that are not written out'}")


def _heuristics(decorator: ast.Call, rules: Rules) -> Iterator[Problem]:
    values = [*decorator.args, *(keyword.value for keyword in decorator.keywords if keyword.arg == "values")]
    if len(values) != 1 or len(decorator.args) + len(decorator.keywords) != 1 or not isinstance(values[0], ast.Dict):
        yield Problem(decorator.lineno, "does not write out the table of @triton.heuristics")
        return
    for key, value in zip(values[0].keys, values[0].values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_plain(key)):
            yield Problem(decorator.lineno, "has a heuristic whose name is not written out")
        if not isinstance(value, ast.Lambda):
            yield Problem(decorator.lineno, "has a heuristic that is no lambda")
            continue
        yield from _pure(value, rules)


_NUMBERS = frozenset({"min", "max", "abs", "int", "bool"})


def _pure(value: ast.Lambda, rules: Rules) -> Iterator[Problem]:
    """Judge a lambda of a decorator: it computes a number from the arguments of a launch by their names."""
    arguments = value.args
    if len(arguments.args) != 1 or arguments.defaults or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        yield Problem(value.lineno, "has a heuristic that takes more than the arguments")
        return
    own = arguments.args[0].arg
    yield from rules.name_bound(own, value.lineno)
    allowed = (
        ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Constant, ast.operator, ast.unaryop, ast.boolop,
        ast.cmpop, ast.expr_context,
    )  # fmt: skip
    waiting: list[ast.AST] = [value.body]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)) if name == own:
                if not words.PLAIN_WORD.fullmatch(key):
                    yield Problem(value.lineno, "has a heuristic that asks for no parameter")
            case ast.Call(func=function, args=given, keywords=[]):
                path = rules.original.path(function, rules.scope)
                plain = isinstance(function, ast.Name) and function.id in _NUMBERS
                if not plain and (path or "").removeprefix("triton.") not in words.TRITON:
                    yield Problem(value.lineno, f"calls {ast.unparse(function)[:60]} in a heuristic")
                waiting += given
            case ast.Constant():
                if not _is_plain(node):
                    yield Problem(value.lineno, "holds more than numbers in a heuristic")
            case ast.BinOp(op=ast.Pow() | ast.LShift() | ast.MatMult()):
                yield Problem(value.lineno, "uses powers or shifts in a heuristic")
            case ast.AST() if isinstance(node, allowed):
                waiting += ast.iter_child_nodes(node)
            case _:
                yield Problem(value.lineno, f"uses {type(node).__name__} in a heuristic")
