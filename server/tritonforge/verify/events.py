"""What host code does that a rule is about: one event for each place, alike wherever it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import Function, Scope, parameters_of
from tritonforge.verify import allowed
from tritonforge.verify.alignment import alignment_questions
from tritonforge.verify.host_code import (
    File,
    Tensors,
    at_import,
    decorators_of_kernels,
    own_nodes,
    reached,
)

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//",
    ast.Mod: "%", ast.USub: "-", ast.Invert: "~", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.UAdd: "+",
}  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Something that a candidate may not add: `what` completes "the candidate …", alike wherever it happens."""

    what: str
    line: int


def events(file: File, hosts: Iterable[str], tensors: Iterable[str] = ()) -> list[Event]:
    """Return what the host functions, all that they reach in the file, and importing it do that rules are about.

    Args:
        file: the file.
        hosts: qualified names of the host functions.
        tensors: parameters of the host functions that are known to be tensors.
    """
    names = set(hosts)
    found: list[Event] = []
    for function in reached(file, names):
        scope = file.scope(function)
        known = Tensors(function, scope, tensors if scope.qualname in names else ())
        found += _of_signature(function, scope)
        found += _of_nodes(own_nodes(function), scope, known, alignment_questions(function, scope))
    nothing = Tensors(None, file.index.module)
    for statement in at_import(file):
        found += _of_nodes(own_nodes(statement), file.index.module, nothing)
    for decorator, scope in decorators_of_kernels(file):
        found += _of_decorator(decorator, scope)
        found += _of_nodes(own_nodes(decorator), scope, nothing)
    for jit in file.jits.values():
        calls = [node for node in ast.walk(jit.node) if isinstance(node, ast.Call)]
        found += [Event("prints from the kernel", call.lineno) for call in calls if _prints(call, jit.scope)]
    found += _of_imports(file)
    return found


def _prints(call: ast.Call, scope: Scope) -> bool:
    path = dotted(call.func, scope) or ""
    return path == "print" or path.endswith(".device_print")


def _of_imports(file: File) -> Iterator[Event]:
    """Yield imports of modules that may do anything when they are imported."""
    import sys

    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        else:
            continue
        for module in modules:
            root = module.partition(".")[0]
            harmless = root in sys.stdlib_module_names or root in {"pytest", "numpy"}  # judged where they are used
            if not harmless and not allowed.is_allowed_module(module) and root != "torch":
                yield Event(f"imports {module}", node.lineno)


def _of_signature(function: Function, scope: Scope) -> Iterator[Event]:
    assert scope.parent is not None
    for decorator in function.decorator_list:
        yield from _of_decorator(decorator, scope.parent)
    for _, default in parameters_of(function):
        if default is not None and any(
            isinstance(n, (ast.Call, ast.List, ast.Dict, ast.Set)) for n in ast.walk(default)
        ):
            yield Event(f"computes the default {ast.unparse(default)} once for all calls", default.lineno)


def _of_decorator(decorator: ast.expr, scope: Scope) -> Iterator[Event]:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    path = dotted(target, scope) or ast.unparse(target)
    if path.partition(".")[0] != "triton" and path not in {"staticmethod", "classmethod", "property"}:
        yield Event(f"decorates a function with {path}", decorator.lineno)


def _of_nodes(
    nodes: Iterable[ast.AST], scope: Scope, tensors: Tensors, harmless: frozenset[int] = frozenset()
) -> Iterator[Event]:
    listed = list(nodes)
    inner = {id(one.value) for one in listed if isinstance(one, ast.Attribute)}
    for node in listed:
        match node:
            case ast.Global() | ast.Nonlocal():
                yield Event(f"keeps state in {', '.join(node.names)}", node.lineno)
            case ast.Try() | ast.TryStar():
                yield Event("catches exceptions around its launches", node.lineno)
            case ast.Import() | ast.ImportFrom():
                yield from _local_import(node)
            case ast.Name(ctx=ast.Load()) if id(node) not in inner:
                yield from _name(node, scope)
            case ast.Attribute(ctx=ast.Store()):
                yield from _stored_attribute(node)
            case ast.Attribute() if id(node) not in harmless:
                yield from _attribute(node, scope, outermost=id(node) not in inner)
            case ast.Subscript(ctx=ast.Store()):
                yield from _stored_element(node, scope, tensors)
            case ast.Subscript(value=value, slice=index) if tensors.holds(value):
                if any(isinstance(one, ast.expr) and tensors.holds(one) for one in ast.walk(index)):
                    yield Event("gathers elements of a tensor with the library", node.lineno)
            case ast.Call():
                yield from _call(node, scope, tensors)
            case ast.BinOp(op=ast.MatMult()):
                yield Event("computes with the library: @", node.lineno)
            case ast.BinOp(left=left, right=right, op=op) if tensors.holds(left) or tensors.holds(right):
                yield Event(f"computes with the library: {_OPERATORS.get(type(op), '?')} on a tensor", node.lineno)
            case ast.AugAssign(target=target, value=value, op=op) if tensors.holds(value) or tensors.holds(target):
                yield Event(f"computes with the library: {_OPERATORS.get(type(op), '?')}= on a tensor", node.lineno)
            case ast.UnaryOp(operand=operand, op=op) if not isinstance(op, ast.Not) and tensors.holds(operand):
                yield Event(f"computes with the library: {_OPERATORS.get(type(op), '?')} on a tensor", node.lineno)
            case ast.Compare(left=left, comparators=others, ops=ops) if not any(
                isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in ops
            ):
                if any(tensors.holds(one) for one in (left, *others)):
                    yield Event("looks at the values of a tensor on the host", node.lineno)
            case _:
                pass


def _local_import(node: ast.Import | ast.ImportFrom) -> Iterator[Event]:
    if isinstance(node, ast.ImportFrom):
        modules = ["." * node.level + (node.module or "")]
    else:
        modules = [alias.name for alias in node.names]
    for module in modules:
        if not allowed.is_allowed_module(module):
            yield Event(f"imports {module}", node.lineno)


def _module_of(name: str, scope: Scope) -> str | None:
    """Return the module that an imported name comes from; None for anything that is no import."""
    found = scope.lookup(name)
    if found is None:
        return None
    return next((binding.path for binding in found[1] if binding.kind == "import"), None)


def _name(node: ast.Name, scope: Scope) -> Iterator[Event]:
    if node.id in allowed.BUILTINS_REFUSED and scope.lookup(node.id) is None:
        yield Event(f"uses {node.id}", node.lineno)
        return
    path = dotted(node, scope) if _module_of(node.id, scope) else None
    if path is not None:
        yield from _imported(path, node.lineno)


_HARMLESS = frozenset(["triton", "math", "typing", "typing_extensions", "__future__", "collections"])


def _imported(path: str, line: int) -> Iterator[Event]:
    root = path.partition(".")[0]
    if root == "torch":
        if not allowed.is_allowed_torch(path):
            verb = "uses" if path.startswith("torch.cuda") else "computes with the library:"
            yield Event(f"{verb} {path}", line)
    elif root not in _HARMLESS or path.startswith(("triton.testing", "triton.runtime.driver.active.set")):
        yield Event(f"uses {path}", line)


def _attribute(node: ast.Attribute, scope: Scope, *, outermost: bool) -> Iterator[Event]:
    if node.attr.startswith("__") and node.attr.endswith("__") and node.attr not in {"__name__", "__init__"}:
        yield Event(f"reaches into {node.attr}", node.lineno)
    if node.attr in allowed.ADDRESSES:
        yield Event(f"looks at where a tensor lies ({node.attr})", node.lineno)
    if not outermost:
        return
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and _module_of(root.id, scope):
        path = dotted(node, scope)
        if path is not None:
            yield from _imported(path, node.lineno)
    elif isinstance(root, ast.Name) and root.id in allowed.BUILTINS_REFUSED and scope.lookup(root.id) is None:
        yield Event(f"uses {root.id}", node.lineno)


def _stored_attribute(node: ast.Attribute) -> Iterator[Event]:
    if isinstance(node.value, ast.Name) and node.value.id == "ctx":
        return  # what an autograd function keeps for its backward pass
    yield Event(f"sets the attribute {ast.unparse(node)}", node.lineno)


def _stored_element(node: ast.Subscript, scope: Scope, tensors: Tensors) -> Iterator[Event]:
    if tensors.holds(node.value):
        yield Event("writes elements of a tensor with the library", node.lineno)
        return
    root: ast.expr = node.value
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        root = root.value
    if isinstance(root, ast.Name) and not _is_local(root.id, scope):
        yield Event(f"keeps state in {root.id}", node.lineno)


def _is_local(name: str, scope: Scope) -> bool:
    found = scope.lookup(name)
    return found is not None and found[0].is_function


def _call(node: ast.Call, scope: Scope, tensors: Tensors) -> Iterator[Event]:
    for keyword in node.keywords:
        if keyword.arg == "stream":
            yield Event("launches on another stream", node.lineno)
    function = node.func
    if not isinstance(function, ast.Attribute):
        return
    receiver, name = function.value, function.attr
    root: ast.expr = receiver
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and _module_of(root.id, scope):
        return  # judged by its path
    if tensors.holds(receiver):
        if name not in allowed.TENSOR_QUERIES | allowed.TENSOR_VIEWS | allowed.ADDRESSES | allowed.COMBINING:
            yield Event(f"computes with the library: .{name}()", node.lineno)
    elif name in allowed.ONLY_TENSORS:
        yield Event(f"computes with the library: .{name}()", node.lineno)
    elif name in allowed.MUTATING and isinstance(receiver, ast.Name) and not _is_local(receiver.id, scope):
        yield Event(f"keeps state in {receiver.id}", node.lineno)
