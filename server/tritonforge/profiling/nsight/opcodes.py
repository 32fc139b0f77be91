"""What one machine instruction computes: floating-point operations, from its text."""

from __future__ import annotations

import re

_OPCODE = re.compile(r"^(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[\w]+)*)\s*(.*)$")
_LANE_FLOPS = {
    "FFMA": 2, "FFMA2": 4, "HFMA2": 4, "DFMA": 2, "FADD": 1, "FADD2": 2, "FMUL": 1, "FMUL2": 2, "HADD2": 2, "HMUL2": 2,
    "DADD": 1, "DMUL": 1,
}  # fmt: skip
"""By lane; the packed ones work on two values."""
_WARP_SHAPES = {
    "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "168128": (16, 8, 128), "168256": (16, 8, 256), "8816": (8, 8, 16), "8832": (8, 8, 32),
}  # fmt: skip
"""M, N and K of a matrix instruction of one warp, as its modifier spells them ("Warp-level matrix" in the PTX ISA)."""
_GROUP_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_WARPS_PER_GROUP = 4
INSTRUCTION_BYTES = 16
"""On every chip since Volta."""


def split(sass: str) -> tuple[str, str, str]:
    """Return mnemonic, modifiers (with dots) and operands; empty texts when it is no instruction."""
    found = _OPCODE.match(sass.strip())
    return (found[1], found[2], found[3]) if found else ("", "", "")


def lane_flops(mnemonic: str, operands: str) -> int:
    """Return the floating-point operations of one lane; a multiply-add counts 2.

    Compilers load constants with a multiply-add of zeros (`HFMA2 R1, -RZ, RZ, 0, 0`): those count nothing.
    """
    return 0 if "-RZ, RZ" in operands else _LANE_FLOPS.get(mnemonic, 0)


def warp_flops(mnemonic: str, modifiers: str) -> tuple[float, str] | None:
    """Return the operations that a matrix instruction does per warp, and the type of its operands; None for others.

    A warpgroup's instruction counts a quarter, because each of its four warps is counted as executing it.
    """
    if not mnemonic.endswith(("MMA",)) or mnemonic.startswith("UTC"):
        return None  # Blackwell's take their shape from a descriptor: it is not in the text
    parts = modifiers.strip(".").split(".")
    for part in parts:
        if shape := _WARP_SHAPES.get(part):
            m, n, k = shape
            return 2.0 * m * n * k, _operand_type(mnemonic, parts)
        if group := _GROUP_SHAPE.match(part):
            m, n, k = (int(extent) for extent in group.groups())
            return 2.0 * m * n * k / _WARPS_PER_GROUP, _operand_type(mnemonic, parts)
    return None


def _operand_type(mnemonic: str, parts: list[str]) -> str:
    if mnemonic[0] in "QO" or any(part.startswith(("E4M3", "E5M2")) for part in parts):
        return "fp8"
    if mnemonic[0] == "I":
        return "int8"
    if mnemonic[0] == "D":
        return "fp64"
    return "tf32" if "TF32" in parts else "bf16" if "BF16" in parts else "fp16"
