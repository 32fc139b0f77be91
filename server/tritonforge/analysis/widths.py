"""In how many bits a kernel computes integers, as far as its text says: products that make up the values of names.

A value is a sum of terms. What matters of a term is what it is made of, and which of its factors were multiplied in 32
bits: widening one factor before a multiplication keeps the product from overflowing, widening the product does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

PROGRAM, LOADED, LOOP, LANE = "program", "loaded", "loop", "lane"
KINDS = frozenset([PROGRAM, LOADED, LOOP, LANE])
"""Atoms that are no parameters: the program's id, what was loaded, a loop's variable, the place within a tile."""
OPEN = -1
"""Stands among program axes for what may differ between programs in a way that the text does not show."""
CHOSEN = -2
"""Stands among program axes for what a constexpr decides: whether this happens is known for a launch alone."""
GATHERED = -3
"""Stands among program axes for what was loaded lane by lane: lanes, and programs, may find the same values."""
_MOST_TERMS = 64


@dataclass(frozen=True)
class Term:
    """One summand: parameters and `KINDS` that it is made of, and those of them multiplied in 32 bits, if any were.

    `line`: where that multiplication stands, 0 for none.
    """

    atoms: frozenset[str]
    narrow: frozenset[str] = frozenset()
    product: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Width:
    """A value: its terms, whether it has 64 bits, for a tuple its items, and the program axes it depends on."""

    terms: frozenset[Term] = frozenset()
    wide: bool = False
    items: tuple[Width, ...] | None = None
    depends: frozenset[int] = frozenset()
    """The program axes that it depends on in whatever way, through loads too; `OPEN` where that cannot be told."""

    @property
    def atoms(self) -> frozenset[str]:
        """All that it is made of."""
        return frozenset().union(*(term.atoms for term in self.terms))

    def __add__(self, other: Width) -> Width:
        return Width(_few(self.terms | other.terms), self.wide or other.wide, depends=self.depends | other.depends)

    def times(self, other: Width, line: int) -> Width:
        """Multiply, in 64 bits where either side has them."""
        wide = self.wide or other.wide
        constant = frozenset([Term(frozenset())])
        terms = set()
        for one in self.terms or constant:
            for another in other.terms or constant:
                atoms = one.atoms | another.atoms
                narrow = one.narrow | another.narrow if wide else atoms
                at = (one.line or another.line) if wide else line
                terms.add(Term(atoms, narrow, bool(atoms), at))
        return Width(_few(terms), wide, depends=self.depends | other.depends)

    def mixed(self, *others: Width) -> Width:
        """Return what depends on several values in another way than as their sum or product.

        An index stays one, whatever sizes it was divided by.
        """
        every = (self, *others)
        atoms = frozenset().union(*(one.atoms for one in every))
        depends = frozenset().union(*(one.depends for one in every))
        return Width(made_of(atoms & KINDS or atoms), any(one.wide for one in every), depends=depends)

    def either(self, other: Width) -> Width:
        """Return what holds after two ways: 64 bits only when it has them on both."""
        if self.items is not None and other.items is not None and len(self.items) == len(other.items):
            return together([a.either(b) for a, b in zip(self.items, other.items, strict=True)])
        depends = self.depends | other.depends
        if not self.terms or not other.terms:  # a literal that a loop replaces takes the type of what replaces it
            return Width(self.terms | other.terms, self.wide or other.wide, depends=depends)
        return Width(_few(self.terms | other.terms), self.wide and other.wide, depends=depends)

    def cast(self, wide: bool | None, line: int) -> Width:
        """Convert; None for a type that is not known."""
        if wide is None or wide == self.wide:
            return self
        if wide:
            return replace(self, wide=True)
        terms = frozenset(replace(t, narrow=t.atoms, line=line) if t.product else t for t in self.terms)
        return Width(terms, depends=self.depends)

    def on(self, axes: frozenset[int]) -> Width:
        """Return the same value, known to depend on `axes` too."""
        if axes <= self.depends and not self.items:
            return self
        items = tuple(item.on(axes) for item in self.items) if self.items is not None else None
        return replace(self, depends=self.depends | axes, items=items)


def made_of(atoms: Iterable[str]) -> frozenset[Term]:
    """Return the terms of a value that is made of `atoms` and no product."""
    found = frozenset(atoms)
    return frozenset([Term(found)]) if found else frozenset()


def atom(name: str, *, wide: bool = False) -> Width:
    """Return the value of a parameter or kind."""
    return Width(made_of([name]), wide)


def bases(address: Width) -> frozenset[str]:
    """Return the parameters that an address starts from: summands of it that are nothing but one parameter."""
    alone = (t.atoms for t in address.terms if not t.product and len(t.atoms) == 1)
    return frozenset().union(*alone) - KINDS


def together(items: Sequence[Width]) -> Width:
    """Return a tuple of values."""
    terms = frozenset().union(*(item.terms for item in items))
    depends = frozenset().union(*(item.depends for item in items))
    return Width(_few(terms), any(item.wide for item in items), tuple(items), depends)


def is_wide(dtype: ast.expr | None) -> bool | None:
    """Tell whether a type has 64 bits as an integer; None for one that the text does not name."""
    if dtype is None:
        return None
    name = dtype.value if isinstance(dtype, ast.Constant) and isinstance(dtype.value, str) else ast.unparse(dtype)
    last = name.strip("'\"").rpartition(".")[2]
    if last in {"int64", "uint64", "i64", "u64"}:
        return True
    return False if last in {"int32", "uint32", "int16", "uint16", "int8", "uint8", "i32", "u32"} else None


def _few(terms: Iterable[Term]) -> frozenset[Term]:
    found = frozenset(terms)
    if len(found) <= _MOST_TERMS:
        return found
    # So many only where values are no addresses any more.
    return made_of(frozenset().union(*(term.atoms for term in found)))
