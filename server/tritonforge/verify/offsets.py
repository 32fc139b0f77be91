"""Does a candidate compute an offset in 32 bits that the original computes in 64?

No input of a size that can be run shows it: an offset of 2**31 elements needs a tensor of gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tritonforge.analysis.addresses import follow_addresses
from tritonforge.analysis.widths import KINDS, LANE, Term, bases
from tritonforge.verify.host_code import File


@dataclass(frozen=True)
class _Access:
    """An access through a pointer that is a parameter, with the products of its address."""

    kernel: str
    pointer: str
    terms: frozenset[Term]


def narrowed_offset(original: File, candidate: File) -> tuple[int, str] | None:
    """Return the line and the pointer of an offset that the candidate computes in 32 bits and the original in 64.

    An access is compared to the original's through the pointer of the same name, in the kernel of the same name where
    there is one. A product of 32 bits is a fault where the original multiplies what it is made of in 64 bits there, and
    nowhere the same in 32.
    """
    before = _accesses(original)
    for one in _accesses(candidate):
        rivals = [o for o in before if o.pointer == one.pointer and o.kernel == one.kernel]
        rivals = rivals or [o for o in before if o.pointer == one.pointer] or before
        terms = [term for rival in rivals for term in rival.terms]
        for term in sorted(one.terms, key=lambda t: t.line):
            if _may_overflow(term) and _is_protected(term.narrow, terms) and not _is_narrow(term.narrow, terms):
                return term.line, one.pointer
    return None


def _may_overflow(term: Term) -> bool:
    """Tell whether a product of 32 bits is an offset: the number of a row, which a stride then multiplies, is none."""
    is_number = not term.narrow - KINDS and bool(term.atoms - term.narrow - KINDS)
    return bool(term.narrow - {LANE}) and not is_number


def _is_protected(product: frozenset[str], terms: Iterable[Term]) -> bool:
    """Tell whether the original multiplies any of it in 64 bits."""
    indices = product & (KINDS - {LANE})
    return any(t.product and t.narrow != t.atoms and t.atoms & ((product - KINDS) | indices) for t in terms)


def _is_narrow(product: frozenset[str], terms: Iterable[Term]) -> bool:
    """Tell whether the original multiplies the same in 32 bits: the same strides, or indices by a constant."""
    strides = product - KINDS
    if strides:
        return any(strides <= t.narrow for t in terms)
    return any(product - {LANE} <= t.narrow for t in terms)


def _accesses(file: File) -> list[_Access]:
    found: list[_Access] = []
    for jit in file.jits.values():
        for one in follow_addresses(jit, file.jits) or ():
            found += [_Access(jit.name, name, one.address.terms) for name in sorted(bases(one.address))]
    return found
