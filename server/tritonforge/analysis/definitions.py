"""What a file defines, without what it does: to load a script's kernels and not run the script again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNING = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def definitions_only(text: str) -> str | None:
    """Return `text` with blank lines in place of what it does at module level; None when it does nothing.

    Also None when it is no Python. Imports, functions and classes stay, and those assignments that a decorated function
    (a kernel, say) or a class needs, directly or through others. Everything that stays keeps its line and column.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    kept = _kept(module.body)
    dropped = [node for node in module.body if node not in kept and not _is_docstring(node)]
    if not dropped:
        return None
    lines = text.splitlines(keepends=True)
    blanked = {n for gone in dropped for n in range(gone.lineno, (gone.end_lineno or gone.lineno) + 1)}
    for number in blanked:
        lines[number - 1] = "\n"
    # Several statements may share a line: those that stay are written again over what was blanked.
    for one in kept:
        if one.lineno in blanked:
            lines[one.lineno - 1] = ast.unparse(one).split("\n")[0] + "\n"
    return "".join(lines)


def _kept(body: list[ast.stmt]) -> list[ast.stmt]:
    needed = set(_names(part for node in body for part in _needing(node)))
    kept = [node for node in body if _only_defines(node)]
    waiting = [node for node in body if node not in kept and isinstance(node, _ASSIGNING)]
    while True:
        found = [node for node in waiting if needed & set(_targets(node))]
        if not found:
            break
        kept += found
        waiting = [node for node in waiting if node not in found]
        needed |= set(_names(found))
    return sorted(kept, key=lambda node: node.lineno)


def _needing(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield what of a statement must find its names once the module is loaded, or a kernel is compiled."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if node.decorator_list:
            yield node
        else:
            yield node.args  # defaults and annotations are evaluated where the function is defined
    elif isinstance(node, ast.ClassDef):
        yield node
    else:
        for inner in _blocks(node):
            yield from _needing(inner)


def _only_defines(node: ast.stmt) -> bool:
    """Tell whether a statement imports or defines, or chooses between such statements (a guarded import)."""
    if isinstance(node, _DEFINING):
        return True
    if isinstance(node, ast.If) and _is_main_guard(node):
        return False
    inner = list(_blocks(node))
    return bool(inner) and all(
        _only_defines(one) or isinstance(one, (*_ASSIGNING, ast.Pass, ast.Raise)) for one in inner
    )


def _blocks(node: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(node, (ast.If, ast.Try)):
        yield from node.body
        yield from node.orelse
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.body
        yield from node.finalbody


def _is_main_guard(node: ast.If) -> bool:
    return any(isinstance(name, ast.Name) and name.id == "__name__" for name in ast.walk(node.test))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that `nodes` read and do not set themselves."""
    for node in nodes:
        found = list(ast.walk(node))
        own = {inner.arg for inner in found if isinstance(inner, ast.arg)}
        own |= {inner.id for inner in found if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)}
        read = {inner.id for inner in found if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}
        yield from read - (own if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else set())


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name):
                yield inner.id
