"""Which dots multiply without rounding: a product is exact where its factors are short.

Significands of p and q bits make one of p + q bits, so that the products of two numbers of float16 (11 bits) or
bfloat16 (8 bits) fit the 24 bits of fp32, in which a matrix unit adds them up. What such a dot computes from values
that were loaded in 16 bits is what fp32 computes from them.

A longer value may be multiplied in parts: x is high = round(x), then round(x - high), and so on, where a rest may be
scaled by a power of two, so that it does not underflow. Each rest is exact
(Dekker 1971, "A floating-point technique for extending the available precision"), so that parts which hold all of
its bits together lose nothing, if every one of them is multiplied by the same factor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tritonforge.compilation.dataflow import LOADS, Node
from tritonforge.verify.formats import Format, format_of, lowers

NARROWING = frozenset(["arith.truncf", "tt.fp_to_fp"])
_WIDENING = frozenset(["arith.extf", "tt.fp_to_fp"])
_CONSTANT = "arith.constant"
_CONDITIONS = frozenset(["arith.cmpi", "arith.cmpf"])
_NUMBER = re.compile(r"-?\d+\.\d+e[+-]\d+")
_INFINITE = ("0X7F800000", "0XFF800000", "0X7F80", "0XFF80", "0X7C00", "0XFC00")
_LEAST_BITS = 8
"""Of the significand: those of bfloat16."""
EXACT_IN_FP32 = Format("fp32", 24, 8)
"""What products are worth that fp32 holds as they are."""


def are_exact(formats: Sequence[Format], held: Sequence[Format | None]) -> bool:
    """Tell whether fp32 holds every product of a dot as it is, and adds them up.

    Matrix units add products of 8 bits up with fewer bits (sm_90 keeps about 14).

    Args:
        formats: what the dot multiplies in.
        held: for each operand a format that is known to hold its values.
    """
    known = [one for one in held if one is not None]
    if len(known) < len(held) or any(format_.significand < _LEAST_BITS for format_ in formats):
        return False
    if any(lowers(format_, one) for format_ in formats for one in known):
        return False
    return sum(one.significand for one in known) <= EXACT_IN_FP32.significand


def format_held(sources: Sequence[Node]) -> Format | None:
    """Return the longest format among the loads that a value is chosen from; None where any of it is computed.

    Numbers of the kernel's own are none, unless every format holds them: what they were before a conversion is unknown.

    Args:
        sources: what the value comes from through operations that round nothing.
    """
    longest: Format | None = None
    for one in sources:
        if one.element == "i1" or one.name in _CONDITIONS or (one.name == _CONSTANT and _is_short(one)):
            continue
        format_ = format_of(one.element) if one.name in LOADS else None
        if format_ is None:
            return None
        if longest is None or lowers(longest, format_):
            longest = format_
    return longest


def _is_short(constant: Node) -> bool:
    """Tell whether a constant is 0, infinite, or of few enough bits for every format of 16 bits."""
    number = _NUMBER.search(constant.text)
    if number is None:
        return any(word in constant.text.upper() for word in _INFINITE)
    significand, exponent = math.frexp(float(number[0]))
    return (significand * 2**8).is_integer() and -14 < exponent <= 15


def is_rest(node: Node) -> bool:
    """Tell whether a value is `x - round(x)`, which is exact."""
    if node.name != "arith.subf" or len(node.operands) != 2:
        return False
    whole, rounded = node.operands
    if rounded.name not in _WIDENING or not rounded.operands:
        return False
    part = rounded.operands[0]
    return part.name in NARROWING and bool(part.operands) and part.operands[0] is whole


def is_in_parts(dot: Node, place: int) -> bool:
    """Tell whether an operand of a dot is one of the parts of a value that is multiplied in all of them.

    Args:
        dot: the dot.
        place: 0 for its left operand, 1 for the right one.
    """
    operand, factor = dot.operands[place], dot.operands[1 - place]
    if operand.name not in NARROWING or not operand.operands:
        return False
    whole = operand.operands[0]
    while is_rest(_unscaled(whole)):
        whole = _unscaled(whole).operands[0]
    parts = _parts(whole, operand.element)
    format_, source = format_of(operand.element), format_of(whole.element)
    if operand not in parts or format_ is None or source is None or format_.exponent < source.exponent:
        return False
    return len(parts) * format_.significand >= source.significand and all(
        any(
            user.name == dot.name and len(user.operands) > 1 and user.operands[place] is part
            and user.operands[1 - place] is factor for user in part.users
        )
        for part in parts
    )  # fmt: skip


def _unscaled(node: Node) -> Node:
    """Return x where a value is x times a power of two, which rounds nothing; else the value itself."""
    if node.name == "arith.mulf" and len(node.operands) == 2:
        for value, factor in (node.operands, node.operands[::-1]):
            number = _NUMBER.search(factor.text) if factor.name == _CONSTANT else None
            if number and abs(math.frexp(float(number[0]))[0]) == 0.5:
                return value
    return node


def _parts(whole: Node, element: str) -> list[Node]:
    """Return the parts of a value: its rounding, that of the rest, and so on."""
    parts: list[Node] = []
    rest: Node | None = whole
    while rest is not None:
        rounded = [u for u in rest.users if u.name in NARROWING and u.element == element]
        followed = [(u, u.operands[1].operands[0]) for u in rest.users if is_rest(u) and u.operands[0] is rest]
        following = next(((u, part) for u, part in followed if part in rounded), None)
        if following is None:
            return [*parts, *rounded[:1]]
        parts.append(following[1])
        scaled = (u for u in following[0].users if _unscaled(u) is following[0])
        rest = next(scaled, following[0])
    return parts
