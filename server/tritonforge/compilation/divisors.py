"""How far addresses are aligned, whatever the program and the iteration: the largest power of two that divides them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from tritonforge.compilation.mlir import Operation

Divisor = int | None
"""A power of two that divides the first lane of a value in every program and iteration; `ANY` when it is zero; None
when nothing is known."""
ANY = 1 << 30
_SAME = {
    "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "tt.bitcast", "ttg.convert_layout",
    "triton_gpu.convert_layout", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.unsplat",
}  # fmt: skip
_GCD = {"arith.addi", "arith.subi", "tt.addptr", "arith.remsi", "arith.remui", "arith.minsi", "arith.maxsi"} | {
    "arith.minui", "arith.maxui",
}  # fmt: skip


def power_of_two(value: float) -> int:
    """Return the largest power of two that divides an integer; `ANY` for zero."""
    whole = int(value)
    return ANY if whole == 0 else min(ANY, whole & -whole)


def common(parts: Sequence[Divisor]) -> Divisor:
    """Return what divides each of the parts; None as soon as one is not known."""
    return math.gcd(*(p for p in parts if p is not None)) if parts and None not in parts else None


def divisor_of(operation: Operation, operands: Sequence[Divisor]) -> Divisor:
    """Return the divisor of an operation's result from those of its operands."""
    if operation.name == "arith.constant":
        text = re.match(r"(?:dense<)?(-?\d+)(?![\d.ex])", operation.text.strip())
        return power_of_two(int(text[1])) if text else None
    if operation.name == "tt.make_range":
        start = re.search(r"start = (-?\d+)", operation.text)
        return power_of_two(int(start[1])) if start else None
    if operation.name in {"tt.get_program_id", "tt.get_num_programs"}:
        return 1
    if operation.name in _SAME:
        return operands[0] if operands else None
    if operation.name in _GCD:
        return common(operands[:2])
    rule = _BINARY.get(operation.name)
    if rule is not None and len(operands) > 1 and operands[0] is not None and operands[1] is not None:
        return rule(operands[0], operands[1])
    if operation.name == "arith.select":
        return common(operands[1:3])
    return None


_BINARY: dict[str, Callable[[int, int], int]] = {
    "arith.muli": lambda a, b: min(ANY, a * b),
    # Quotients and bits: nothing is left but that they are whole numbers.
    "arith.divsi": lambda *_: 1,
    "arith.divui": lambda *_: 1,
    "arith.andi": min,
    "arith.ori": min,
    "arith.xori": min,
    "arith.shli": lambda *_: 1,
    "arith.shrsi": lambda *_: 1,
    "arith.shrui": lambda *_: 1,
}
