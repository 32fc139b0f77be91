"""What decides about each access of a kernel, as the nouns that rules read."""

from __future__ import annotations

import ast

from tritonforge.analysis.addresses import Found, follow_addresses
from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.unit import Unit
from tritonforge.analysis.widths import CHOSEN, GATHERED, bases
from tritonforge.domain.kernel import Product, Reach

_MOST_STATEMENTS = 6000
"""Statements walked for one kernel, loops and helpers counted each time."""


def read_reaches(kernel: JitFunction, unit: Unit) -> tuple[Reach, ...] | None:
    """Return the accesses of `kernel`, passes over loops and calls of helpers joined; None when it is too large."""
    try:
        found = follow_addresses(kernel, unit.jits, statements=_MOST_STATEMENTS)
    except RecursionError:
        return None
    if found is None:
        return None
    # A helper that is called twice may store through another pointer each time: one entry for each.
    joined: dict[tuple[int, frozenset[str]], list[Found]] = {}
    for one in found:
        joined.setdefault((id(one.node), bases(one.address)), []).append(one)
    return tuple(sorted((_reach(parts, unit.text) for parts in joined.values()), key=lambda r: r.range))


def _reach(parts: list[Found], text: SourceText) -> Reach:
    first = parts[0]
    products = {term for part in parts for term in part.address.terms if term.product}
    axes = [frozenset().union(*(getattr(part, name) for part in parts)) for name in ("where", "when", "what")]
    where, when, what = (tuple(sorted(one)) for one in axes)
    hidden = {CHOSEN, GATHERED}
    return Reach(
        name=first.name,
        range=text.range(first.node),
        pointers=tuple(sorted(bases(first.address))),
        products=tuple(
            sorted(
                (Product(tuple(sorted(t.atoms)), tuple(sorted(t.narrow)), t.line) for t in products),
                key=lambda p: (p.line, p.factors, p.narrow),
            )
        ),
        where=tuple(one for one in where if one not in hidden),
        when=tuple(one for one in when if one not in hidden),
        what=tuple(one for one in what if one not in hidden),
        value=_value(first, text),
        chosen=CHOSEN in when,
        indexed=GATHERED in where,
    )


def _value(found: Found, text: SourceText) -> str | None:
    if found.name == "load":
        return None
    named = {k.arg: k.value for k in found.node.keywords if k.arg}
    position = 2 if found.name == "atomic_cas" else 1
    value: ast.expr | None = named.get("value", named.get("val"))
    if value is None and len(found.node.args) > position:
        value = found.node.args[position]
    return text.segment(value) if value is not None else None
