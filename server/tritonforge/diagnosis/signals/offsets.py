"""Offsets that are computed in 32 bits and pass, or come near, what 32 bits hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.reaching import extremes, room
from tritonforge.domain.kernel import Product, Reach

HOLDS = (1 << 31) - 1
"""The largest signed integer of 32 bits."""
_NEAR = HOLDS // 4
"""Offsets from which a tensor four times as large no longer fits: another batch size, a longer context."""
_INDICES = frozenset(["program", "loaded"])


@dataclass(frozen=True)
class Overflow:
    """An offset into `pointer` whose largest value in 32 bits is `largest`, on `line`; `passes` what they hold."""

    pointer: str
    line: int
    largest: int
    elements: int

    @property
    def passes(self) -> bool:
        """Whether it does not fit."""
        return self.largest > HOLDS


@dataclass(frozen=True)
class Uneven:
    """`product` is computed in 32 bits for `pointer`, where the same index is widened for `other`, on `other_line`."""

    pointer: str
    product: Product
    other: str
    other_line: int


def overflows(case: Case) -> tuple[Overflow, ...]:
    """Return, for the compiled launch, where offsets do not fit 32 bits, or would not in a tensor four times as large.

    Only tensors that are as large themselves count: a value that passes 32 bits on lanes that are masked off, or on the
    way to a remainder, is no offset.
    """
    found: dict[tuple[str, int], Overflow] = {}
    for extreme, _ in extremes(case):
        elements = room(case, extreme.pointer) or 0
        if extreme.passed and elements > HOLDS:
            seen = Overflow(extreme.pointer, extreme.passed_line, extreme.passed, elements)
        elif _NEAR <= extreme.widest <= min(HOLDS, elements) and extreme.highest < elements:
            seen = Overflow(extreme.pointer, extreme.line, extreme.widest, elements)
        else:
            continue
        key = seen.pointer, seen.line
        if key not in found or found[key].largest < seen.largest:
            found[key] = seen
    return tuple(sorted(found.values(), key=lambda o: (o.line, o.pointer)))


def unevenly_widened(case: Case) -> tuple[Uneven, ...]:
    """Return products in 32 bits of an index that the kernel multiplies in 64 bits by the same stride elsewhere."""
    reaches = case.kernel.reaches or ()
    wide = [(reach, product) for reach in reaches for product in reach.products if _is_widened(product)]
    found: dict[tuple[str, ...], Uneven] = {}
    for reach in reaches:
        for product in reach.products:
            strides = _strides(case, product.narrow)
            if not strides or not _INDICES & set(product.narrow) or len(reach.pointers) != 1:
                continue
            if any(set(p.factors) >= set(product.factors) for r, p in wide if r.pointers == reach.pointers):
                continue
            rival = next((r for r, p in wide if _is_alike(case, reach, product, r, p)), None)
            if rival is not None and rival.pointers:
                key = (*reach.pointers, *product.factors)
                found.setdefault(key, Uneven(reach.pointers[0], product, rival.pointers[0], rival.range.start.line))
    return tuple(found.values())


def _is_widened(product: Product) -> bool:
    return bool(_INDICES & set(product.factors)) and not _INDICES & set(product.narrow)


def _strides(case: Case, names: Iterable[str]) -> frozenset[str]:
    """The run-time parameters among the factors: strides and sizes, which grow with the problem."""
    kernel = case.kernel
    known = ((name, kernel.parameter(name)) for name in names)
    return frozenset(name for name, parameter in known if parameter is not None and not parameter.constexpr)


def _is_alike(case: Case, reach: Reach, product: Product, other: Reach, wide: Product) -> bool:
    """Tell whether `wide` multiplies the same index by the same sizes for another pointer."""
    mine, theirs = _strides(case, product.factors), _strides(case, wide.factors)
    index = _INDICES & set(product.factors)
    return (
        other.pointers != reach.pointers
        and index == _INDICES & set(wide.factors)
        and reach.where == other.where
        and bool(mine)
        and mine == theirs
    )
