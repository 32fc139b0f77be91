"""Kernels of the last version of a file, taken over as they are where nothing that they depend on has changed.

What is said of a kernel and of its launches depends on the top-level statements that the names in them lead to, and on
nothing else of the file. Statements that an edit leaves alone are the very same objects afterwards (`reparsing`), so
that whether a kernel's have changed is a comparison of a few of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.launches import Launch
from tritonforge.analysis.scopes import Part, Reads
from tritonforge.analysis.shifting import Shift, shifted
from tritonforge.analysis.text import SourceText, words
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import Kernel


@dataclass(frozen=True)
class Known:
    """A kernel with its launch sites (its suppressions left out), and whether its body could be followed to the end.

    `parts` are the statements that it depends on, which began at `starts`; `made_of` tells what else it was made of.
    """

    kernel: Kernel
    whole: bool
    parts: tuple[Part, ...]
    starts: tuple[int, ...]
    made_of: tuple[object, ...]


class Links:
    """The statements of one version of a file: which of them a kernel depends on, and the kernels known of those."""

    def __init__(self, unit: Unit, before: dict[int, Known]) -> None:
        """Take over `before`, the kernels of the last version by the id of their `def`, as they are asked for."""
        self._text = unit.text
        self._before = before
        self.known: dict[int, Known] = {}
        """The kernels of this version."""
        self._parts = unit.index.parts
        self._order = {part: number for number, part in enumerate(self._parts.values())}
        self._at = {id(scope): part for part in self._order for scope in part.scopes.values()}
        self._binding: dict[str, list[Part]] = {}
        for part in self._order:
            for name in self._reads(part).bound:
                self._binding.setdefault(name, []).append(part)
        self._names = frozenset(self._binding)
        self._jits: dict[Part, list[JitFunction]] = {}
        for jit in unit.jits.values():
            self._jits.setdefault(self._at[id(jit.scope)], []).append(jit)
        self._wrapping: dict[int, list[Part]] = {}
        wrapped = [jit for jit in unit.jits.values() if jit.wrappers]
        if wrapped:
            by_node = {id(call.call.func): part for part in self._order for call in part.calls}
            for jit in wrapped:
                self._wrapping[id(jit.node)] = [by_node[id(wrapper)] for wrapper, _ in jit.wrappers]

    def find(self, jit: JitFunction, own: list[Launch]) -> Known | None:
        """Return a kernel at its lines now, `own` being its launches; None when something may have changed."""
        found = self._before.get(id(jit.node))
        if found is None or self._text.is_marked:
            return None
        parts = self._reached(jit, own)
        if parts != found.parts or self._made_of(own, parts) != found.made_of:
            return None
        starts = _starts(parts)
        if starts != found.starts:
            moved = shifted(found.kernel, Shift(found.starts, starts))
            found = Known(moved, found.whole, parts, starts, found.made_of)
        self.known[id(jit.node)] = found
        return found

    def keep(self, jit: JitFunction, own: list[Launch], kernel: Kernel, *, whole: bool) -> None:
        """Remember a kernel as it was found."""
        parts = self._reached(jit, own)
        self.known[id(jit.node)] = Known(kernel, whole, parts, _starts(parts), self._made_of(own, parts))

    def _reached(self, jit: JitFunction, own: list[Launch]) -> tuple[Part, ...]:
        waiting = [self._at[id(jit.scope)], *(self._parts[id(launch.at.statement)] for launch in own)]
        seen: set[Part] = set()
        while waiting:
            part = waiting.pop()
            if part in seen:
                continue
            seen.add(part)
            for name in self._reads(part).words & self._names:
                waiting += self._binding[name]
            for inside in self._jits.get(part, ()):
                waiting += self._wrapping.get(id(inside.node), ())
        return tuple(sorted(seen, key=self._order.__getitem__))

    def _reads(self, part: Part) -> Reads:
        if part.reads is None:
            part.reads = _read(part, self._text)
        return part.reads

    def _made_of(self, own: Iterable[Launch], parts: tuple[Part, ...]) -> tuple[object, ...]:
        """Return what decides about a kernel beside the statements: its launches, and what of those is a kernel.

        By the ids of nodes, which the statements hold.
        """
        launches = tuple((id(one.at.call), id(one.grid), id(one.grid_scope)) for one in own)
        jits = tuple(
            (id(inside.node), *(id(wrapper) for wrapper, _ in inside.wrappers))
            for part in parts
            for inside in self._jits.get(part, ())
        )
        return launches, jits


def _starts(parts: tuple[Part, ...]) -> tuple[int, ...]:
    return tuple(part.line - (part.reads.above if part.reads is not None else 0) for part in parts)


def _read(part: Part, text: SourceText) -> Reads:
    node, above = part.statement, 0
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        above = node.lineno - text.definition_range(node).start.line
    members = (scope.bindings for scope in part.scopes.values() if isinstance(scope.node, ast.ClassDef))
    return Reads(
        words=words("\n".join(text.lines[node.lineno - above - 1 : node.end_lineno])),
        bound=frozenset[str]().union(part.bindings, part.attributes, *members),
        above=above,
    )
