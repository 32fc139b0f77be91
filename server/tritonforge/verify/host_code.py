"""Which functions of a file its host functions reach, and what each of them does that a rule is about."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tritonforge.analysis.discovery import JitFunction, find_jit_functions
from tritonforge.analysis.names import dotted, is_jit
from tritonforge.analysis.parsing import parse_source
from tritonforge.analysis.scopes import Function, ModuleIndex, Scope, index_module, parameters_of
from tritonforge.analysis.text import SourceText
from tritonforge.verify.allowed import TENSOR_ATTRIBUTES, TENSOR_QUERIES, TENSOR_VIEWS

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NO_TENSOR = ("torch.cuda.", "torch.finfo", "torch.iinfo", "torch.is_", "torch.promote", "torch.result", "torch.device")
_SCALAR_METHODS = TENSOR_QUERIES | {"item", "tolist", "data_ptr"}


@dataclass(frozen=True)
class File:
    """One parsed file: its module's scopes and its jit functions."""

    text: SourceText
    tree: ast.Module
    index: ModuleIndex
    jits: dict[int, JitFunction]

    def scope(self, node: ast.AST) -> Scope:
        """Return the scope of a function, class or module node."""
        return self.index.scopes[id(node)]


def read_file(text: str) -> File | None:
    """Parse a file; None when it is no Python."""
    source = SourceText(text)
    tree, failure = parse_source(source)
    if tree is None or failure is not None:
        return None
    index = index_module(tree)
    return File(source, tree, index, find_jit_functions(index))


def reached(file: File, hosts: Iterable[str]) -> list[Function]:
    """Return the host functions called `hosts` and every function of the file that they reach by name, in text order.

    Jit functions are left out. `Op.apply` reaches what the class `Op` defines, a class its methods.
    """
    wanted = {host.removesuffix(".apply") for host in hosts}
    functions = list(file.index.functions())
    classes = {s.qualname for s in file.index.scopes.values() if isinstance(s.node, ast.ClassDef)}
    plain: dict[str, list[Scope]] = {}
    methods: dict[str, list[Scope]] = {}
    for scope in functions:
        owner = scope.parent
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            methods.setdefault(scope.qualname.rpartition(".")[2], []).append(scope)
            plain.setdefault(owner.qualname.rpartition(".")[2], []).append(scope)
        else:
            plain.setdefault(scope.qualname.rpartition(".")[2], []).append(scope)
    waiting = [s for s in functions if s.qualname in wanted or s.qualname.rpartition(".")[0] in wanted & classes]
    seen: dict[int, Scope] = {}
    while waiting:
        scope = waiting.pop()
        if id(scope.node) in seen or id(scope.node) in file.jits:
            continue
        seen[id(scope.node)] = scope
        for node in ast.walk(scope.node):
            if isinstance(node, ast.Name):
                waiting += plain.get(node.id, [])
            elif isinstance(node, ast.Attribute):  # `x.softmax()` is not the file's function of that name
                waiting += methods.get(node.attr, [])
        waiting += [inner for inner in functions if inner.parent is scope]
    nodes = [s.node for s in seen.values() if isinstance(s.node, _FUNCTIONS)]
    return sorted(nodes, key=lambda node: node.lineno)


def at_import(file: File) -> Iterator[ast.stmt]:
    """Yield the statements that run when the file is imported, except imports and definitions."""
    waiting = list(reversed(file.tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            waiting += reversed(node.body)
        elif isinstance(node, ast.If) and any(
            isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
        ):
            continue
        elif not isinstance(node, (*_FUNCTIONS, ast.Import, ast.ImportFrom)):
            yield node


def own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, a statement's or an expression's, without those of nested functions.

    The body of a class runs where the class stands, and is part of what stands around it.
    """
    waiting: list[ast.AST] = list(root.body) if isinstance(root, _FUNCTIONS) else [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


class Tensors:
    """Tells which expressions of a host function are tensors, as far as its text shows it."""

    def __init__(self, function: Function | None, scope: Scope, known: Iterable[str] = ()) -> None:
        self._scope = scope
        self._names: set[str] = set(known)
        if function is None:
            return
        nodes = list(own_nodes(function))
        for parameter, _ in parameters_of(function):
            if parameter.annotation is not None and "Tensor" in ast.unparse(parameter.annotation):
                self._names.add(parameter.arg)
        parameters = {parameter.arg for parameter, _ in parameters_of(function)}
        told = TENSOR_ATTRIBUTES | TENSOR_QUERIES | TENSOR_VIEWS
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in told and name in parameters:
                    self._names.add(name)
                case _:
                    pass
        assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))]
        for _ in range(3):  # assignments may stand in any order behind a loop
            for node in sorted(assigned, key=lambda one: one.lineno):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if node.value is None:
                    continue
                for target in targets:
                    self._assign(target, node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and self.holds(value):
            self._names.add(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for one, part in zip(target.elts, value.elts, strict=False):
                self._assign(one, part)

    def holds(self, node: ast.expr) -> bool:
        """Tell whether an expression is a tensor."""
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if self.holds(receiver):
                return name not in _SCALAR_METHODS
            case ast.Call(func=function):
                return _makes_tensor(dotted(function, self._scope) or "")
            case ast.Attribute(value=receiver, attr=name):
                return name in {"T", "mT", "H", "mH", "grad", "data"} and self.holds(receiver)
            case ast.Subscript(value=receiver):
                return self.holds(receiver)
            case ast.BinOp(left=left, right=right):
                return self.holds(left) or self.holds(right)
            case ast.UnaryOp(operand=operand, op=op):
                return not isinstance(op, ast.Not) and self.holds(operand)
            case ast.IfExp(body=body, orelse=other):
                return self.holds(body) or self.holds(other)
            case ast.NamedExpr(value=value):
                return self.holds(value)
            case _:
                return False


def _makes_tensor(path: str) -> bool:
    """Tell whether a function of the library returns a tensor, as nearly all of its lower-case functions do."""
    return (
        path.startswith("torch.")
        and not path.startswith(_NO_TENSOR)
        and path.rpartition(".")[2][:1].islower()
        and not path.endswith("_dtype")
    )


def decorators_of_kernels(file: File) -> Iterator[tuple[ast.expr, Scope]]:
    """Yield what wraps jit functions (configs, heuristics, hooks) and so runs on the host, with its scope."""
    for jit in file.jits.values():
        for decorator, scope in jit.decorators():
            if not is_jit(decorator, scope):
                yield decorator, scope
