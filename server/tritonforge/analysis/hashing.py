"""Hashes of code that ignore comments, docstrings and layout, and are the same on every Python from 3.11."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.scopes import Function, ModuleIndex, Scope
from tritonforge.analysis.text import SourceText

_LENGTH = 16
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class CodeHasher:
    """Hashes kernels and host functions of one module, whose tree it normalises in place: use it last.

    `restore` gives the tree back as it was.
    """

    def __init__(self, index: ModuleIndex, text: SourceText) -> None:
        self._index = index
        self._source = text
        self._texts: dict[int, str] = {}
        self._hashes: dict[int, str] = {}
        self._undo = _normalise(index)

    def restore(self) -> None:
        """Undo what was done to the tree."""
        for node, name, value in self._undo:
            setattr(node, name, value)
        self._undo = []

    def kernel(self, kernel: JitFunction) -> str:
        """Hash a kernel with its wrappers, the functions it uses, and the module constants that any of them reads."""
        parts: dict[int, str] = {}
        self._collect(kernel.scope, parts)
        own = parts.pop(id(kernel.node))
        wrappers = [ast.unparse(wrapper) for wrapper, _ in kernel.wrappers]
        for wrapper, scope in kernel.wrappers:
            self._collect_names({n.id for n in ast.walk(wrapper) if isinstance(n, ast.Name)}, scope, parts)
        return _digest("\n".join([own, *wrappers, *sorted(parts.values())]))

    def host(self, node: ast.AST) -> str:
        """Hash a host function, or the module-level statement that launches."""
        if id(node) not in self._hashes:
            self._hashes[id(node)] = _digest(self._text(node))
        return self._hashes[id(node)]

    def reading(self, nodes: Sequence[ast.AST], scope: Scope, without: Iterable[Scope]) -> str:
        """Hash `nodes`, read in `scope`, with every function, class and constant of the module that they lead to.

        The bodies of the functions in `without` do not count.
        """
        parts: dict[int, str] = {id(left_out.node): "" for left_out in without}
        parts |= {id(node): self._text(node) for node in nodes}
        read = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
        self._collect_names(read - scope.bindings.keys() if scope.is_function else read, scope, parts, classes=True)
        own = [parts.pop(id(node)) for node in nodes]
        return _digest("\n".join([*own, *sorted(parts.values())]))

    def _text(self, node: ast.AST) -> str:
        if id(node) not in self._texts:
            try:
                self._texts[id(node)] = ast.unparse(node)
            except RecursionError:  # nested too deeply: its own text still tells a change
                self._texts[id(node)] = self._source.segment(node)
        return self._texts[id(node)]

    def _collect(self, scope: Scope, parts: dict[int, str], *, classes: bool = False) -> None:
        node = scope.node
        if id(node) in parts or not isinstance(node, _FUNCTIONS):
            return
        parts[id(node)] = self._text(node)
        assert scope.parent is not None
        self._collect_names(_read_names(node, scope), scope, parts, classes=classes)

    def _collect_names(self, names: set[str], scope: Scope, parts: dict[int, str], *, classes: bool = False) -> None:
        for name in sorted(names):
            found = scope.lookup(name)
            if found is None or (found[0] is scope and scope.is_function):
                continue
            for binding in found[1]:
                if binding.kind == "function":
                    self._collect(self._index.scopes[id(binding.node)], parts, classes=classes)
                elif classes and binding.kind == "class" and id(binding.node) not in parts:
                    parts[id(binding.node)] = self._text(binding.node)
                    read = {n.id for n in ast.walk(binding.node) if isinstance(n, ast.Name)}
                    self._collect_names(read, found[0], parts, classes=True)
                elif binding.kind in ("assign", "other") and id(binding.node) not in parts:
                    parts[id(binding.node)] = self._text(binding.node)
                    if binding.value is not None:
                        read = {n.id for n in ast.walk(binding.value) if isinstance(n, ast.Name)}
                        self._collect_names(read, found[0], parts, classes=classes)


def _read_names(node: Function, scope: Scope) -> set[str]:
    names = set(scope.names)
    for decorator in node.decorator_list:
        names |= {n.id for n in ast.walk(decorator) if isinstance(n, ast.Name)}
    return names - scope.bindings.keys()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _normalise(index: ModuleIndex) -> list[tuple[ast.AST, str, object]]:
    """Drop docstrings; put digests for f-strings, whose unparsed quotes differ between Python versions.

    Returns what was there before, by node and field.
    """
    undo: list[tuple[ast.AST, str, object]] = []
    for scope in index.scopes.values():
        body = scope.node.body
        if body and _is_text(body[0]):
            undo.append((scope.node, "body", body))
            scope.node.body = [*body[1:]] or [ast.Pass()]
    for node in reversed(index.fstrings):  # inner ones stand later in the list and must be replaced first
        undo.append((node, "values", node.values))
        node.values = [ast.Constant(_digest("\n".join(_parts(node))))]
    return undo


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _parts(node: ast.JoinedStr) -> list[str]:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            parts += ["{", ast.unparse(part.value), str(part.conversion)]
            if isinstance(part.format_spec, ast.JoinedStr):
                parts += [":", *_parts(part.format_spec)]
            parts.append("}")
        elif isinstance(part, ast.Constant) and part.value != "":  # some versions leave empty texts behind
            parts.append(str(part.value))
    return parts
