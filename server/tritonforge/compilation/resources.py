"""Registers, spills and shared memory from the resource-usage dump and the kernel's metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tritonforge.compilation.architectures import Architecture
from tritonforge.domain.compilation import Resources

_USAGE = re.compile(r"Function\s+(?P<name>[^\s:]+):\s*\n\s*(?P<fields>[^\n]*REG:[^\n]*)")
_FIELD = re.compile(r"(\w+)(?:\[\d+\])?:(\d+)")
_RELOAD = re.compile(r"\bLDL(?:\.\w+)* \w+, \[R1(?:\.\w+)?(?:\+-?0x[0-9a-f]+)?\]")
_AMD = {
    "registers": r"\.vgpr_count:\s*(\d+)", "spills": r"\.vgpr_spill_count:\s*(\d+)",
    "accumulators": r"\.agpr_count:\s*(\d+)", "scalars": r"\.sgpr_count:\s*(\d+)",
    "static": r"\.group_segment_fixed_size:\s*(\d+)",
}  # fmt: skip


def read_resources(dump: str, metadata: Mapping[str, str], sass: str, arch: Architecture | None) -> Resources | None:
    """Return the resources of the kernel that `metadata["name"]` names (else of the dump's only function), or None.

    `dump` is what `cuobjdump --dump-resource-usage` prints, or the statistics in AMD's assembly. NVIDIA's SHARED is the
    static part and, from sm_90 on, contains the part that the driver reserves, which is left out here: the occupancy
    rules add it. The stack counts as spilled only as far as `sass` reads it back (see `spilled_bytes`).
    """
    shared = _number(metadata.get("shared"))
    functions = {m["name"]: dict(_FIELD.findall(m["fields"])) for m in _USAGE.finditer(dump)}
    fields = functions.get(metadata.get("name", ""))
    if fields is None and len(functions) == 1:
        (fields,) = functions.values()
    if fields is None:
        return _read_amd(dump, shared)
    static = int(fields.get("SHARED", 0))
    reserved = arch.shared_reserved if arch is not None else 0
    if static >= reserved:
        static -= reserved
    stack = max(int(fields.get("STACK", 0)), int(fields.get("LOCAL", 0)))
    return Resources(
        int(fields.get("REG", 0)), spilled_bytes(stack, sass), static + (shared or 0), static, shared, 0, None
    )


def spilled_bytes(stack: int, sass: str) -> int:
    """Return the part of a stack frame of `stack` bytes that holds spilled registers, in bytes per thread.

    Spilled registers are read back at constant offsets from the stack pointer (R1). A frame that is only read through
    other registers is an array of a library function (the slow path of `sin` keeps one), not a spill.
    """
    if stack == 0 or not sass:
        return stack
    return stack if _RELOAD.search(sass) else 0


def _read_amd(dump: str, shared: int | None) -> Resources | None:
    found = {key: int(m[1]) for key, pattern in _AMD.items() if (m := re.search(pattern, dump))}
    if "registers" not in found:
        return None
    # Triton asks for its shared memory when it launches; what the metadata of the assembly has on top is static.
    static = found.get("static")
    return Resources(
        found["registers"],
        4 * found.get("spills", 0),
        (static or 0) + (shared or 0),
        static,
        shared,
        found.get("accumulators"),
        found.get("scalars"),
    )


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
