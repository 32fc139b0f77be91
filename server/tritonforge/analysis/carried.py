"""Which names a loop hands from one iteration to the next."""

from __future__ import annotations

import ast
from collections import defaultdict


def carried_names(node: ast.For | ast.While, known: set[str], read_by: dict[int, set[str]]) -> set[str]:
    """Return the `known` names whose value depends on what an earlier iteration left in them.

    Directly (`x += …`, `x = f(x)`), through other names (`mid = low + 1; low = mid`), or through the condition under
    which they are set. `read_by` remembers, by the id of an expression, the names it reads.
    """
    reads: defaultdict[str, set[str]] = defaultdict(set)
    _note(node.body, frozenset(), reads, read_by)
    return {name for name in known & reads.keys() if name in _reached(name, reads)}


def _note(
    body: list[ast.stmt], given: frozenset[str], reads: defaultdict[str, set[str]], read_by: dict[int, set[str]]
) -> None:
    """Note for each name that `body` sets the names it is computed from, those of conditions (`given`) included."""
    for statement in body:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            reads[name] |= {name} | _names(statement.value, read_by) | given
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Name):
                        reads[part.id] |= _names(statement.value, read_by) | given
        elif isinstance(statement, (ast.If, ast.While)):
            inner = given | _names(statement.test, read_by)
            _note(statement.body, inner, reads, read_by)
            _note(statement.orelse, inner, reads, read_by)
        elif isinstance(statement, ast.For):
            _note(statement.body, given, reads, read_by)
            _note(statement.orelse, given, reads, read_by)
        elif isinstance(statement, ast.With):
            _note(statement.body, given, reads, read_by)


def _names(node: ast.expr, read_by: dict[int, set[str]]) -> set[str]:
    if id(node) not in read_by:
        read_by[id(node)] = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return read_by[id(node)]


def _reached(name: str, reads: defaultdict[str, set[str]]) -> set[str]:
    """All names that `name` is computed from, through any number of others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for read in reads.get(waiting.pop(), ()):
            if read not in found:
                found.add(read)
                waiting.append(read)
    return found
