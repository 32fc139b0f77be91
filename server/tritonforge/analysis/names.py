"""What a dotted expression stands for: imports, aliases and conventions → one canonical path."""

from __future__ import annotations

import ast

from tritonforge.analysis.scopes import Binding, Scope

LANGUAGE = "triton.language"
_DEPTH = 6

REDUCTIONS = frozenset(["sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or", "histogram"])
SCANS = frozenset(["associative_scan", "cumsum", "cumprod"])
DOTS = frozenset(["dot", "dot_scaled"])
ATOMICS = frozenset(f"atomic_{what}" for what in ("add", "max", "min", "and", "or", "xor", "xchg", "cas"))
_SLOW = (
    "exp exp2 expm1 log log2 log1p log10 sin cos tan sinh cosh tanh asin acos atan atan2 pow fast_expf fast_logf "
    "fast_powf fast_dividef fast_sinf fast_cosf sqrt rsqrt sqrt_rn div_rn fdiv erf erfc erfinv sigmoid softmax "
    "gelu fmod lgamma tgamma cbrt rcbrt normcdf"
)
SLOW_MATH = frozenset(_SLOW.split())
"""Functions that run on the special-function unit or as a long sequence of instructions."""

PROGRAM = frozenset(["program_id", "num_programs"])


def dotted(node: ast.expr, scope: Scope, line: int | None = None) -> str | None:
    """Return the canonical path of `name` or `a.b.c` as read in `scope`, or None when it is no path.

    Triton's language module is always `triton.language`, however it was imported. A name that nothing binds stands for
    itself, except `triton` and `tl`, which mean Triton even in a snippet without its imports. With `line`, bindings of
    the same scope below that line do not count: decorators run where they stand.
    """
    return _dotted(node, scope, line, _DEPTH)


def _dotted(node: ast.expr, scope: Scope, line: int | None, depth: int) -> str | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or depth == 0:
        return None
    attributes.reverse()
    if "tl" in attributes[:-1]:  # reached through another module: `utils.tl.program_id`
        return ".".join([LANGUAGE, *attributes[attributes.index("tl") + 1 :]])
    root = _root(node.id, scope, line, depth)
    if root is None:
        return None
    return ".".join([root, *attributes])


def _root(name: str, scope: Scope, line: int | None, depth: int) -> str | None:
    found = scope.lookup(name)
    if found is None:
        return {"triton": "triton", "tl": LANGUAGE}.get(name, name)
    owner, bindings = found
    paths: list[str | None] = []
    for binding in reaching(bindings, line if owner is scope else None):
        if binding.kind == "import":
            paths.append(binding.path)
        elif binding.kind == "assign" and binding.value is not None and not binding.element:
            if isinstance(binding.value, (ast.Name, ast.Attribute)):
                paths.append(_dotted(binding.value, owner, binding.line, depth - 1))
            elif not isinstance(binding.value, ast.Constant):  # `triton = None` is what a failed import leaves
                paths.append(None)
        else:
            paths.append(None)
    known = [path for path in paths if path is not None]
    ours = [path for path in known if path.partition(".")[0] == "triton"]
    return next(iter(ours or known), None)


def reaching(bindings: list[Binding], line: int | None = None) -> list[Binding]:
    """Return the bindings that a read may see: the last certain one and whatever alternatives follow it."""
    if line is not None:
        before = [b for b in bindings if b.line < line]
        bindings = before or bindings
    for i in range(len(bindings) - 1, -1, -1):
        if not bindings[i].branch:
            return bindings[i:]
    return bindings


def language_name(path: str | None) -> str | None:
    """Return `load` for `triton.language.load`, `exp` for `triton.language.extra.libdevice.exp`, else None.

    `triton.cdiv` and its like, usable inside kernels, count as the language's.
    """
    if path is None or not path.startswith("triton."):
        return None
    if path.startswith("triton.experimental."):
        return None
    return path.rpartition(".")[2]


def is_jit_path(path: str | None) -> bool:
    """Tell whether a canonical path is Triton's own `jit` (and not Gluon's or another library's)."""
    return path in ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit")


def is_jit(node: ast.expr, scope: Scope, line: int | None = None, depth: int = _DEPTH) -> bool:
    """Tell whether an expression is `triton.jit` under any alias, bare, with options, or through `partial`."""
    if depth == 0:
        return False
    if isinstance(node, ast.Call):
        if is_jit(node.func, scope, line, depth - 1):
            return not node.args
        if dotted(node.func, scope, line) in ("functools.partial", "partial") and node.args:
            return is_jit(node.args[0], scope, line, depth - 1)
        return False
    path = dotted(node, scope, line)
    if is_jit_path(path):
        return True
    if isinstance(node, ast.Name) and path is None:
        found = scope.lookup(node.id)
        if found is None:
            return False
        owner, bindings = found
        return any(
            _binds_jit(binding, owner, depth) for binding in reaching(bindings, line if owner is scope else None)
        )
    return False


def _binds_jit(binding: Binding, owner: Scope, depth: int) -> bool:
    if binding.kind == "assign" and binding.value is not None and not binding.element:
        values = [binding.value]
        if isinstance(binding.value, ast.IfExp):
            values = [binding.value.body, binding.value.orelse]
        return any(is_jit(value, owner, binding.line, depth - 1) for value in values)
    return False


def decorator_path(node: ast.expr, scope: Scope, line: int | None = None) -> tuple[str | None, ast.Call | None]:
    """Return the path of a decorator and its call, following a name that holds the configured decorator."""
    for _ in range(_DEPTH):
        if isinstance(node, ast.Call):
            return dotted(node.func, scope, line), node
        path = dotted(node, scope, line)
        if path is not None or not isinstance(node, ast.Name):
            return path, None
        found = scope.lookup(node.id)
        if found is None or len(found[1]) != 1 or found[1][0].kind != "assign" or found[1][0].value is None:
            return None, None
        scope, node, line = found[0], found[1][0].value, found[1][0].line
    return None, None
