"""What `@triton.autotune` and `@triton.heuristics` say, as far as it is written out."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.names import decorator_path
from tritonforge.analysis.scopes import Scope
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import Autotune, ConfigEntry

_MOST_CONFIGS = 512
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_DEPTH = 4


def read_autotune(kernel: JitFunction, text: SourceText) -> Autotune | None:
    """Return the kernel's autotuner, a project's own (`fla_cache_autotune`) included, or None."""
    for decorator, scope in kernel.decorators():
        path, call = decorator_path(decorator, scope, kernel.node.lineno)
        if path is None or call is None or "autotune" not in path.rpartition(".")[2]:
            continue
        given = {k.arg: k.value for k in call.keywords if k.arg is not None}
        configs = given.get("configs", call.args[0] if call.args else None)
        key = given.get("key", call.args[1] if len(call.args) > 1 else None)
        if path != "triton.autotune" and configs is None:
            continue
        reading = _Reading()
        read = tuple(reading.configs(configs, scope, _DEPTH) or ()) if configs is not None else ()
        return Autotune(
            range=text.range(decorator),
            configs=tuple(dict.fromkeys(read)) if reading.varies else read,
            key=_strings(key, scope),
            reset_to_zero=_strings(given.get("reset_to_zero"), scope),
            restore_value=_strings(given.get("restore_value"), scope),
            hooks="hook" in text.segment(call) or (configs is not None and _has_hooks(configs, scope)),
            computed=any(
                given.get(name) is not None and not _strings(given[name], scope)
                for name in ("reset_to_zero", "restore_value")
            ),
            varies=reading.varies and bool(read),
        )
    return None


def read_heuristics(kernel: JitFunction) -> tuple[str, ...]:
    """Return the names that `@triton.heuristics` decorators fill in, in order."""
    names: list[str] = []
    for decorator, scope in kernel.decorators():
        path, call = decorator_path(decorator, scope, kernel.node.lineno)
        if path is None or call is None or path.rpartition(".")[2] != "heuristics":
            continue
        values = [k.value for k in call.keywords if k.arg == "values"] or call.args[:1]
        for value in values:
            names += [key for key, _ in _entries(value, scope) or ()]
    return tuple(dict.fromkeys(names))


def follow(node: ast.expr, scope: Scope) -> tuple[ast.expr, Scope]:
    """Follow a name that is assigned exactly once to its value; anything else is returned as it is."""
    for _ in range(_DEPTH):
        if not isinstance(node, ast.Name):
            break
        found = scope.lookup(node.id)
        if found is None or len(found[1]) != 1:
            break
        binding = found[1][0]
        if binding.kind != "assign" or binding.value is None or binding.element:
            break
        node, scope = binding.value, found[0]
    return node, scope


def _has_hooks(configs: ast.expr, scope: Scope) -> bool:
    """Whether what makes the configurations, followed through names and functions of the module, names a hook."""
    waiting, seen = [(configs, scope)], set[int]()
    while waiting:
        node, where = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in ast.walk(node):
            if isinstance(part, ast.keyword) and part.arg is not None and "hook" in part.arg:
                return True
            if isinstance(part, ast.Name):
                if "hook" in part.id:
                    return True
                found = where.lookup(part.id)
                for binding in found[1] if found is not None and found[0].parent is None else []:
                    inner = binding.value if binding.kind == "assign" else binding.node
                    if isinstance(inner, (ast.expr, ast.FunctionDef)):
                        waiting.append((inner, where))  # type: ignore[arg-type]
    return False


def _strings(node: ast.expr | None, scope: Scope) -> tuple[str, ...]:
    if node is None:
        return ()
    value, _ = follow(node, scope)
    if not isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return ()
    return tuple(e.value for e in value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str))


def _entries(node: ast.expr, scope: Scope) -> list[tuple[str, ast.expr]] | None:
    """Return the entries of a dict literal or `dict(…)` call, or None."""
    node, _ = follow(node, scope)
    if isinstance(node, ast.Dict):
        return [
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return [(k.arg, k.value) for k in node.keywords if k.arg is not None]
    return None


class _Reading:
    """Reads a list of configs. `varies` once a condition decides what is in it: then all counts that there may be."""

    def __init__(self) -> None:
        self.varies = False

    def configs(self, node: ast.expr, scope: Scope, depth: int) -> list[ConfigEntry] | None:
        """Return the configs that an expression lists; None when it computes them."""
        if depth == 0:
            return None
        found: list[ConfigEntry] = []
        for one, where in self._alternatives(node, scope):
            listed = self._listed(one, where, depth)
            if listed is None:
                return None
            found += listed
        return found

    def _alternatives(self, node: ast.expr, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """Return what an expression may be: of a condition both, of a name whatever is assigned to it, itself else."""
        node, scope = follow(node, scope)
        parts: list[tuple[ast.expr, Scope]] = []
        if isinstance(node, ast.IfExp):
            parts = [(node.body, scope), (node.orelse, scope)]
        elif isinstance(node, ast.Name) and (found := scope.lookup(node.id)) is not None:
            values = [b.value for b in found[1] if b.kind == "assign" and not (b.element or b.augmented)]
            if len(values) == len(found[1]) > 1:
                parts = [(value, found[0]) for value in values if value is not None]
        if not parts:
            return [(node, scope)]
        self.varies = True
        return [follow(*part) for part in parts]

    def _listed(self, node: ast.expr, scope: Scope, depth: int) -> list[ConfigEntry] | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.configs(node.left, scope, depth - 1), self.configs(node.right, scope, depth - 1)
            return None if left is None or right is None else left + right
        if isinstance(node, (ast.List, ast.Tuple)):
            listed: list[ConfigEntry] = []
            for item in node.elts:
                if isinstance(item, ast.Starred):
                    more = self.configs(item.value, scope, depth - 1)
                else:
                    more = _one_config(item, scope, {})
                if more is None:
                    return None
                listed += more
            return listed
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._comprehension(node, scope)
        return None

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> list[ConfigEntry] | None:
        names: list[str] = []
        choices: list[list[ast.expr]] = []
        for generator in node.generators:
            values = self._literals(generator.iter, scope)
            if values is None or not isinstance(generator.target, ast.Name):
                return None
            self.varies |= bool(generator.ifs)
            names.append(generator.target.id)
            choices.append(values)
        if math.prod(map(len, choices)) > _MOST_CONFIGS:
            return None
        configs: list[ConfigEntry] = []
        for combination in itertools.product(*choices):
            one = _one_config(node.elt, scope, dict(zip(names, combination, strict=True)))
            if one is None:
                return None
            configs += one
        return configs

    def _literals(self, node: ast.expr, scope: Scope) -> list[ast.expr] | None:
        """Return the literals that a loop goes through, of several lists that it may be each literal once."""
        parts = [_literals(one, where) for one, where in self._alternatives(node, scope)]
        values = [value for part in parts for value in part or ()]
        if any(part is None for part in parts):
            return None
        return values if len(parts) == 1 else list({ast.unparse(value): value for value in values}.values())


def _literals(node: ast.expr, scope: Scope) -> list[ast.expr] | None:
    node, _ = follow(node, scope)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and all(_is_literal(e) for e in node.elts):
        return list(node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        bounds = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(bounds) == len(node.args) and 1 <= len(bounds) <= 3 and not (len(bounds) == 3 and bounds[2] == 0):
            values = range(*bounds)
            return [ast.Constant(v) for v in values] if len(values) <= _MOST_CONFIGS else None
    return None


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, ast.Constant)


def _one_config(node: ast.expr, scope: Scope, chosen: Mapping[str, ast.expr]) -> list[ConfigEntry] | None:
    node, scope = follow(node, scope)
    if not isinstance(node, ast.Call):
        return None
    path, _ = decorator_path(node, scope)
    if path is None or path.rpartition(".")[2] != "Config":
        return None
    given = {k.arg: k.value for k in node.keywords if k.arg is not None}
    values = given.get("kwargs", node.args[0] if node.args else None)
    entries = _entries(values, scope) if values is not None else []
    if entries is None:
        return None
    options = [(name, value) for name, value in zip(_OPTIONS, node.args[1:], strict=False)]
    options += [(name, value) for name, value in given.items() if name not in ("kwargs", "pre_hook")]
    return [
        ConfigEntry(
            constexprs=tuple((name, _value_text(value, chosen)) for name, value in entries),
            options=tuple((name, _value_text(value, chosen)) for name, value in options),
        )
    ]


def _value_text(node: ast.expr, chosen: Mapping[str, ast.expr]) -> str:
    """Return a config value's source, loop variables of a comprehension replaced and arithmetic on literals done."""
    number = _fold(node, chosen)
    if number is not None:
        return repr(number)
    if isinstance(node, ast.Name) and node.id in chosen:
        return ast.unparse(chosen[node.id])
    return ast.unparse(node)


def _fold(node: ast.expr, chosen: Mapping[str, ast.expr]) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name) and node.id in chosen:
        return _fold(chosen[node.id], {})
    if isinstance(node, ast.BinOp):
        left, right = _fold(node.left, chosen), _fold(node.right, chosen)
        if left is None or right is None or not 0 <= right < 1 << 20 or abs(left) > 1 << 40:
            return None
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Pow) and right < 64:
            return int(left**right)
        if isinstance(node.op, ast.LShift) and right < 64:
            return left << right
    return None
