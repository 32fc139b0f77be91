"""Loads, stores and what their values feed: the part of the flow that touches memory."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Literal

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.facts import AccessFact, Facts, OperationFact
from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import Scope
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.values import SCALAR, SOME_BLOCK, STATIC, Value, merge

_HINTS = frozenset(["eviction_policy", "cache_modifier", "volatile"])


class MemoryFlow:
    """The state of a flow, and its accesses to memory."""

    facts: Facts
    text: SourceText
    scope: Scope
    env: dict[str, Value]
    jits: Mapping[int, JitFunction]
    loop_stack: tuple[int, ...]
    constexprs: set[str]
    positions: dict[str, int]
    """Of the kernel's parameters."""

    guards: tuple[frozenset[int], ...]
    """For each condition around the place, the loops that it depends on."""

    paths: dict[int, str | None]
    """Canonical paths by the id of their expression: each is asked for in every pass over a loop."""

    def path(self, node: ast.expr) -> str | None:
        """Return the canonical path of a dotted expression."""
        if id(node) not in self.paths:
            self.paths[id(node)] = dotted(node, self.scope)
        return self.paths[id(node)]

    def order(self, name: str) -> int:
        """Return a key that sorts parameters as the signature lists them."""
        return self.positions.get(name, 0)

    def eval(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        raise NotImplementedError

    def _access(
        self,
        node: ast.Call,
        kind: Literal["load", "store"],
        operands: list[ast.expr],
        named: Mapping[str, ast.expr],
        *,
        method: bool,
    ) -> Value:
        """Note a load or store. With `method` it goes through a descriptor: `desc.load([x, y])`."""
        for keyword in node.keywords:
            if keyword.arg not in ("mask", "other", "pointer", "value"):
                self.eval(keyword.value)
        pointer = named.get("pointer", operands[0] if operands else None)
        if pointer is None:
            return SCALAR
        address = self.eval(pointer)
        mask = other = value = None
        varies = set(address.loops).union(*self.guards)
        if method:
            rest = [self.eval(o) for o in operands[1:]]
            loops = address.loops.union(*(r.loops for r in rest)) if rest else address.loops
            address = address._replace(rank=address.rank or SOME_BLOCK, loops=loops)
            varies |= loops
            value = rest[-1] if kind == "store" and rest else None
        else:
            places = ("pointer", "mask", "other") if kind == "load" else ("pointer", "value", "mask")
            given = {**dict(zip(places, operands, strict=False)), **named}
            mask, other = self._optional(given.get("mask"), varies), self._optional(given.get("other"))
            if "value" in given:
                value = self.eval(given["value"])
            if mask is None and "boundary_check" in named:
                mask = f"boundary_check={self.text.segment(named['boundary_check'])}"
                if "padding_option" in named:
                    other = f"padding_option={self.text.segment(named['padding_option'])}"
        if value is not None:
            self._feed([value], "store")
        fact = self.facts.accesses.get(id(node))
        if fact is None:
            segment = self.text.segment(pointer)
            fact = AccessFact(node, kind, segment, mask, other, self.loop_stack, address.bases, address.rank)
            self.facts.accesses[id(node)] = fact
        else:
            fact.bases = tuple(dict.fromkeys(fact.bases + address.bases))
            if fact.rank != address.rank:
                fact.rank = merge(Value(rank=fact.rank), Value(rank=address.rank)).rank
        fact.varies |= varies
        fact.chosen_by |= address.loads
        fact.hints = tuple((k.arg, self.text.segment(k.value)) for k in node.keywords if k.arg in _HINTS)
        self._note_address(address)
        self._note_loop_access(kind, address)
        if kind == "store":
            return STATIC
        return Value(rank=address.rank, loads=frozenset([id(node)]), loops=address.loops)

    def _optional(self, node: ast.expr | None, varies: set[int] | None = None) -> str | None:
        """Evaluate a mask or `other`, add its loops to `varies`, return its text; an explicit None is no mask."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        value = self.eval(node)
        if varies is not None:
            varies |= value.loops
        return self.text.segment(node)

    def _note_address(self, address: Value) -> None:
        if address.bases:
            self.facts.pointers.add(self.base_of(address.bases))
        self.facts.address_factors |= address.factors

    @staticmethod
    def base_of(bases: tuple[str, ...]) -> str:
        """Choose the pointer among the parameters added up in an address: one named so, else the leftmost."""
        return next((b for b in bases if "ptr" in b.lower()), bases[0])

    def _note_loop_access(self, kind: str, address: Value) -> None:
        for index in self.loop_stack:
            if index not in address.loops:
                continue
            if address.rank:
                self.facts.loops[index].block_work = True
            elif address.rank == 0 and kind == "load" and index == self.loop_stack[-1]:
                self.facts.loops[index].scalar_access = True

    def _feed(self, values: list[Value], what: str) -> None:
        for value in values:
            loads = value.loads
            for part in value.items or ():
                loads |= part.loads
            for load in loads:
                self.facts.accesses[load].feeds.add(what)

    def _operation(self, kind: dict[int, OperationFact], node: ast.Call, name: str, operands: list[ast.expr]) -> None:
        if id(node) in kind:
            return
        segment = self.text.segment
        keywords = tuple((k.arg, segment(k.value)) for k in node.keywords if k.arg is not None)
        kind[id(node)] = OperationFact(node, name, tuple(segment(o) for o in operands), keywords, self.loop_stack)
