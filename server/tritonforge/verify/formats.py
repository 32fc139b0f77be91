"""Number formats by what they can hold, so that one can be called lower than another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """`significand` counts bits with the hidden one, `exponent` those of the exponent (0: an integer)."""

    name: str
    significand: int
    exponent: int

    @staticmethod
    def none() -> Format:
        """Return the format of what is not rounded: nothing is higher."""
        return Format("no rounding", 1 << 10, 1 << 10)


_FLOATS = {
    "f64": Format("fp64", 53, 11),
    "f32": Format("fp32", 24, 8),
    "f16": Format("fp16", 11, 5),
    "bf16": Format("bf16", 8, 8),
    "f8E4M3FN": Format("fp8e4m3", 4, 4),
    "f8E4M3FNUZ": Format("fp8e4m3", 4, 4),
    "f8E4M3B11FNUZ": Format("fp8e4m3", 4, 4),
    "f8E5M2": Format("fp8e5m2", 3, 5),
    "f8E5M2FNUZ": Format("fp8e5m2", 3, 5),
    "f4E2M1FN": Format("fp4e2m1", 2, 2),
}
_INTEGER = re.compile(r"^u?i(\d+)$")
_SCALED = {
    "e2m1": Format("fp4e2m1", 2, 2),
    "e4m3": Format("fp8e4m3", 4, 4),
    "e5m2": Format("fp8e5m2", 3, 5),
    "bf16": Format("bf16", 8, 8),
    "fp16": Format("fp16", 11, 5),
}
# What a product of fp32 operands is worth under `inputPrecision`: three products of halves keep about twice the bits.
_INPUT_PRECISION = {
    "tf32": Format("tf32", 11, 8),
    "tf32x3": Format("tf32x3", 22, 8),
    "bf16x3": Format("bf16x3", 16, 8),
    "bf16x6": Format("bf16x6", 23, 8),
    "ieee": Format("ieee fp32", 24, 8),
}


def format_of(element: str) -> Format | None:
    """Return the format of a floating element type of MLIR (`f16`, `f8E4M3FN`), None for any other type."""
    return _FLOATS.get(element)


def lowers(format_: Format, other: Format) -> bool:
    """Tell whether `format_` cannot hold everything that `other` can: fewer significant bits, or less range."""
    return format_.significand < other.significand or format_.exponent < other.exponent


def lowest(formats: Sequence[Format]) -> Format:
    """Return the least precise of some formats."""
    return min(formats, key=lambda one: (one.significand, one.exponent))


def multiplied_in(operation: str, text: str, elements: Sequence[str]) -> tuple[Format, ...]:
    """Return the formats in which a dot multiplies.

    Args:
        operation: `tt.dot` or `tt.dot_scaled`.
        text: its operands and attributes.
        elements: the element types of its signature, left and right operand first.
    """
    if operation == "tt.dot_scaled":
        named = re.findall(r"\b(?:lhs|rhs) = (\w+)", text)
        return tuple(_SCALED[name] for name in named if name in _SCALED)
    if elements[0] == "f32":
        chosen = re.search(r"inputPrecision = (\w+)", text)
        return (_INPUT_PRECISION.get(chosen[1] if chosen else "ieee", _INPUT_PRECISION["ieee"]),)
    found: list[Format] = []
    for element in elements[:2]:
        integer = _INTEGER.match(element)
        if integer:
            found.append(Format(f"int{integer[1]}", int(integer[1]), 0))
        elif element in _FLOATS:
            found.append(_FLOATS[element])
    return tuple(dict.fromkeys(found))
