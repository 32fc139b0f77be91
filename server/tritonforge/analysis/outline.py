"""A file seen from outside: what it imports under which name, what it defines, what each definition uses, what can run.

Coarse on purpose. One unit is one top-level statement, and a use is a dotted path of names in it, so that a question
about a workspace ("what gets to this kernel?") costs a parse of a few files and no resolving of scopes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from tritonforge.analysis.entries import is_main_test, runs_by_itself
from tritonforge.analysis.parsing import parse_source
from tritonforge.analysis.text import SourceText, decode_source
from tritonforge.domain.kernel import RunnableEntry

MAIN = "__main__"
"""The unit of an `if __name__ == "__main__":` block."""
MODULE = ""
"""The unit of module-level statements that define nothing."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Imported:
    """`local` stands for `symbol` of `module` (relative ones with their dots), or for the module when `symbol` is None.

    A star import has `symbol` and `local` "*".
    """

    local: str
    module: str
    symbol: str | None = None


@dataclass(frozen=True)
class Unit:
    """A top-level definition (or `MAIN`, or `MODULE`): its name, line, and the dotted paths that it reads."""

    name: str
    line: int
    uses: frozenset[str]
    jit: bool = False


@dataclass(frozen=True)
class OutlinedEntry:
    """Something that can be run, the names it reads, and whether it runs without a test runner's help."""

    entry: RunnableEntry
    uses: frozenset[str]
    alone: bool


@dataclass(frozen=True)
class Outline:
    """What a file shows to the rest of its workspace."""

    imports: tuple[Imported, ...] = ()
    units: tuple[Unit, ...] = ()
    entries: tuple[OutlinedEntry, ...] = ()


def outline(source: str | bytes) -> Outline:
    """Return the outline of a file. Never raises: of a broken file it is the outline of the parts that are whole."""
    text = decode_source(source)[0] if isinstance(source, bytes) else source
    try:
        tree, _ = parse_source(SourceText(text))
        return _Reader(tree).outline() if tree is not None else Outline()
    except RecursionError:
        return Outline()


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self._imports: list[Imported] = []
        self._units: list[Unit] = []
        self._entries: list[OutlinedEntry] = []
        for statement in tree.body:
            self._statement(statement)

    def outline(self) -> Outline:
        return Outline(tuple(dict.fromkeys(self._imports)), tuple(self._units), tuple(self._entries))

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            uses = self._uses(node)
            self._units.append(Unit(node.name, node.lineno, uses, jit=_is_jit(node)))
            self._function(node, node.name, uses)
        elif isinstance(node, ast.ClassDef):
            self._units.append(Unit(node.name, node.lineno, self._uses(node)))
            if node.name.startswith("Test"):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                        entry = RunnableEntry("function", f"{node.name}.{inner.name}", inner.lineno)
                        self._entries.append(OutlinedEntry(entry, self._uses(inner), alone=False))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            uses = self._uses(node.value) if node.value is not None else frozenset()
            names = [name for target in targets for name in _names_of(target)]
            self._units += [Unit(name, node.lineno, uses) for name in names or [MODULE]]
        elif isinstance(node, ast.If) and is_main_test(node.test):
            uses = self._uses(node)
            self._units.append(Unit(MAIN, node.lineno, uses))
            self._entries.append(OutlinedEntry(RunnableEntry("main", MAIN, node.lineno), uses, alone=True))
        elif isinstance(node, (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    self._statement(child)
                elif isinstance(child, ast.ExceptHandler):
                    for inner in child.body:
                        self._statement(inner)
        else:
            uses = self._uses(node)
            if uses:
                self._units.append(Unit(MODULE, node.lineno, uses))

    def _function(self, node: Function, name: str, uses: frozenset[str]) -> None:
        if name.startswith(("test_", "bench")) or name == "main":
            # A parameter of a test is the name of a fixture, which may be what calls the kernel.
            given = frozenset(a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            entry = RunnableEntry("function", name, node.lineno)
            self._entries.append(OutlinedEntry(entry, uses | given, alone=runs_by_itself(node)))

    def _uses(self, root: ast.AST) -> frozenset[str]:
        """Return the dotted paths that `root` reads, and take note of the imports inside it."""
        found: set[str] = set()
        stack: list[ast.AST] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                path = _dotted(node)
                if path is None:
                    stack.append(node.value)
                else:
                    found.add(path)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
            elif not isinstance(node, ast.Constant):
                stack.extend(ast.iter_child_nodes(node))
        return frozenset(found)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self._imports.append(Imported(alias.asname or alias.name, module, alias.name))
            elif alias.asname:
                self._imports.append(Imported(alias.asname, alias.name))
            else:
                top = alias.name.partition(".")[0]
                self._imports.append(Imported(top, top))


def _dotted(node: ast.Attribute) -> str | None:
    parts: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    return ".".join([at.id, *reversed(parts)]) if isinstance(at, ast.Name) else None


def _names_of(target: ast.expr) -> Iterable[str]:
    if isinstance(target, ast.Name):
        return (target.id,)
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(name for item in target.elts for name in _names_of(item))
    return ()


def _is_jit(node: Function) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) == "jit":
            return True
    return False
