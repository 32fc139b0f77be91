"""Which questions about a tensor's address are about its alignment alone, and decide nothing but a launch's constexpr.

Loads of 16 bytes and tensor descriptors need an address that is a multiple of 16. A kernel that has two ways of loading
takes one of them by a constexpr, and both ways have to run on some input (`honesty.never_ran`).
"""

from __future__ import annotations

import ast

from tritonforge.analysis.scopes import Function, Scope

_WIDEST = 16
"""Bytes. No instruction asks for more; what is kept by address would tell addresses apart by larger numbers."""


def alignment_questions(function: Function, scope: Scope) -> frozenset[int]:
    """Return the ids of the `data_ptr` attributes of a host function that only tell how a tensor is aligned.

    Such are `x.data_ptr() % 16 == 0`, alone or joined by `and`, set to a variable that launches of a kernel take by
    keyword, and that nothing else reads, functions inside of it included.

    Args:
        function: the host function.
        scope: its scope.
    """
    nodes = list(ast.walk(function))
    if any(isinstance(node, ast.ClassDef) for node in nodes):
        return frozenset()  # what a class sets is read as its attribute
    reads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    given = {
        id(keyword.value)
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript) and _may_launch(call.func.value, scope)
        for keyword in call.keywords
        if keyword.arg is not None
    }
    found: set[int] = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if all(id(read) in given for read in reads if read.id == name):
                    parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
                    found.update(id(one) for one in map(_address, parts) if one is not None)
            case _:
                pass
    return frozenset(found)


def _may_launch(function: ast.expr, scope: Scope) -> bool:
    """Tell whether what a call takes out of brackets may be a kernel's launch, and no element of a list or dict."""
    found = scope.lookup(function.id) if isinstance(function, ast.Name) else None
    displays = (ast.Dict, ast.List, ast.Tuple, ast.DictComp, ast.ListComp)
    return isinstance(function, ast.Attribute) or (
        found is not None and not any(isinstance(binding.value, displays) for binding in found[1])
    )


def _address(node: ast.expr) -> ast.Attribute | None:
    """Return the attribute of `x.data_ptr() % 16 == 0`; None for anything else."""
    match node:
        case ast.Compare(
            left=ast.BinOp(
                left=ast.Call(func=ast.Attribute(attr="data_ptr") as attribute, args=[], keywords=[]),
                op=ast.Mod(),
                right=ast.Constant(value=int(bytes_)),
            ),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ) if 0 < bytes_ <= _WIDEST:
            return attribute
        case _:
            return None
