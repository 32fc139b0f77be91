"""Statements of the original that a proposal keeps word for word, in a place where they do what they did.

A host function may call anything: read a file, log, look up a configuration. A proposal may keep such a statement but
not make one, move it before what guarded it, or feed it other values.
"""

from __future__ import annotations

import ast

from tritonforge.rewrite.llm.original import Replaceable, bound_names

_EXITS = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Try, ast.TryStar, ast.With, ast.Yield)


def is_kept(before: Replaceable, function: ast.FunctionDef, number: int) -> bool:
    """Tell whether statement `number` of a proposed function is one of the original's that does what it did there.

    It must be the same, no more often than before; every statement of the original before it that may end the function
    or guard what follows must come before it in the proposal too; and every local name in it must be set by the same
    statements as in the original, and so on for the names in those.
    """
    dumps = [ast.dump(one) for one in function.body]
    wanted = dumps[number]
    if wanted not in before.dumps or dumps.count(wanted) > before.dumps.count(wanted):
        return False
    place = before.dumps.index(wanted)
    guards = [
        dump
        for dump, node in zip(before.dumps[:place], before.node.body[:place], strict=True)
        if any(isinstance(one, _EXITS) for one in ast.walk(node))
    ]
    earlier = iter(dumps[:number])
    if not all(any(dump == guard for dump in earlier) for guard in guards):
        return False
    return all(_same_origin(name, before.node, function, set()) for name in _read(function.body[number]))


def _read(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _same_origin(name: str, before: ast.FunctionDef, after: ast.FunctionDef, seen: set[str]) -> bool:
    if name in seen:
        return True
    seen.add(name)
    old, new = _binding(name, before), _binding(name, after)
    if sorted(map(ast.dump, old)) != sorted(map(ast.dump, new)):
        return False
    return all(_same_origin(one, before, after, seen) for node in new for one in _read(node))


def _binding(name: str, function: ast.FunctionDef) -> list[ast.stmt]:
    """Return the statements of the function's own body that set `name` anywhere in them."""
    return [node for node in function.body if name in set(_names_set(node))]


def _names_set(node: ast.stmt) -> set[str]:
    own = {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set()
    return own | set(bound_names(node))
