"""What a call of a function depends on in its file, as a hash: the function, what it uses there, constants it reads.

Whoever recorded what `main` or a test passes to a kernel can tell by it whether an edit may have changed that.
Comments, docstrings, layout, and the bodies of kernels do not count: kernels do not run while calls are recorded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from tritonforge.analysis.discovery import find_jit_functions
from tritonforge.analysis.entries import is_main_test
from tritonforge.analysis.hashing import CodeHasher
from tritonforge.analysis.parsing import parse_source
from tritonforge.analysis.scopes import ModuleIndex, Scope, index_module
from tritonforge.analysis.text import SourceText

MAIN, MODULE = "__main__", "__module__"
"""Stand for the main block, and for what happens when the file is imported."""
GONE, UNREADABLE = "gone", "unreadable"
"""The states of what is not in the file, and of everything in a file that cannot be followed."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def states(text: str, functions: Iterable[str]) -> dict[str, str]:
    """Return a hash for each of `functions` (qualified names, `MAIN`, `MODULE`); of one that is not there, "gone"."""
    return _states(text, tuple(functions)).copy()


@lru_cache(maxsize=64)
def _states(text: str, functions: tuple[str, ...]) -> dict[str, str]:
    # The kernels of one file are asked about one after the other, mostly with the same functions.
    source = SourceText(text)
    tree, _ = parse_source(source)
    if tree is None:
        return dict.fromkeys(functions, UNREADABLE)
    try:
        index = index_module(tree)
        kernels = [jit.scope for jit in find_jit_functions(index).values()]
        hasher = CodeHasher(index, source)
        return {name: _state(name, tree, index, hasher, kernels) for name in functions}
    except RecursionError:
        return dict.fromkeys(functions, UNREADABLE)


def _state(name: str, tree: ast.Module, index: ModuleIndex, hasher: CodeHasher, kernels: list[Scope]) -> str:
    if name == MAIN:
        blocks = [s for s in tree.body if isinstance(s, ast.If) and is_main_test(s.test)]
    elif name == MODULE:
        blocks = []
    else:
        found = next((scope for scope in index.functions() if scope.qualname == name), None)
        return hasher.reading([found.node], found, kernels) if found is not None else GONE
    # A program also does what stands at module level around its main block.
    loose = [s for s in tree.body if not isinstance(s, _DEFINITIONS) and s not in blocks and not _is_main(s)]
    return hasher.reading([*loose, *blocks], index.module, kernels)


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and is_main_test(statement.test)
