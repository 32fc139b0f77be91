"""How many instructions of a machine loop wait for each other: its longest dependence chain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tritonforge.compilation.flow import Span
from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.machine import Machine

_REGISTER = re.compile(r"\b(U?R|U?P)(\d{1,4})\b(\.64)?")
_AMD_REGISTER = re.compile(r"\b([vsa])(?:(\d{1,4})|\[(\d{1,4}):(\d{1,4})\])")
_WITHOUT_RESULT = frozenset({"store_global", "store_shared", "store_local", "async_copy", "barrier", "branch"})
_WIDE_RESULT = {"64": 2, "128": 4, "256": 8, "WIDE": 2, "16816": 4, "1688": 4, "16832": 4, "1684": 4}
_MEMORY = ("shared stores", 0)
_BARRIER = ("barrier", 0)
Register = tuple[str, int]


def chain_of(machine: Machine, span: Span) -> tuple[int, int]:
    """Return the longest dependence chain of a loop's body, and by how many a further pass makes it longer.

    In a chain each instruction needs the result of the one before it; its length is how many there are.
    Registers and predicates count, and shared memory across barriers: what is read behind a barrier needs what was
    stored before it. Predicates that guard instructions do not. Latencies are all taken alike.
    """
    skipped = _skipped(machine, span)
    body = [
        (*effects(machine, machine.stream[index], machine.kinds[index]), index in skipped)
        for index in range(*span)
        if machine.stream[index].mnemonic not in {"NOP", "s_nop"}
    ]
    depths: dict[Register, int] = {}
    lengths = []
    for _ in range(3):
        longest = 0
        for results, sources, sometimes in body:
            depth = 1 + max((depths.get(source, 0) for source in sources), default=0)
            longest = max(longest, depth)
            for result in results:
                # What a branch may skip leaves the value before it in place, too.
                merged = sometimes or result == _MEMORY
                depths[result] = max(depth, depths.get(result, 0)) if merged else depth
        lengths.append(longest)
    return lengths[0], lengths[2] - lengths[1]


def _skipped(machine: Machine, span: Span) -> set[int]:
    """Return the indexes of what a branch forward within the body may skip."""
    found: set[int] = set()
    for index in range(*span):
        instruction = machine.stream[index]
        target = machine.labels.get(instruction.target or "", 0)
        if index + 1 < target <= span[1] and instruction.mnemonic.startswith(("BRA", "s_cbranch")):
            found.update(range(index + 1, target))
    return found


def innermost(loops: Sequence[Span]) -> list[Span]:
    """Return the loops that hold no other."""
    return [one for one in loops if not any(_inside(other, one) for other in loops if other != one)]


def _inside(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def effects(machine: Machine, instruction: Instruction, kind: str) -> tuple[list[Register], list[Register]]:
    """Return what an instruction writes and what it reads (the guard in front of it left out)."""
    first, _, rest = instruction.operands.partition(",")
    everything = _registers(instruction.operands, amd=machine.amd)
    if kind in _WITHOUT_RESULT or (kind == "atomic" and instruction.mnemonic.startswith(("RED", "REDG"))):
        results, sources = [], everything
    else:
        results, sources = _registers(first, amd=machine.amd), _registers(rest, amd=machine.amd)
        if not machine.amd and results:
            results += _further(instruction, results[0])
            if instruction.mnemonic.endswith("SETP"):
                second, _, rest = rest.partition(",")
                results += _registers(second, amd=False)
                sources = _registers(rest, amd=False)
    if kind in {"store_shared", "async_copy"}:
        return [*results, _MEMORY], [*sources, _BARRIER]
    if kind == "load_shared":
        return results, [*sources, _BARRIER]
    if instruction.mnemonic in {"BAR", "s_barrier"}:
        return [_BARRIER], [_MEMORY, _BARRIER]
    return results, sources


def _further(instruction: Instruction, first: Register) -> list[Register]:
    count = max((_WIDE_RESULT.get(part, 1) for part in instruction.modifiers.split(".")), default=1)
    if instruction.mnemonic == "LDSM":
        count = 4 if instruction.modifiers.endswith(".4") else 2 if instruction.modifiers.endswith(".2") else 1
    return [(first[0], first[1] + i) for i in range(1, count)]


def _registers(text: str, *, amd: bool) -> list[Register]:
    if not amd:
        return [
            (name, int(number) + i) for name, number, wide in _REGISTER.findall(text) for i in range(2 if wide else 1)
        ]
    return [
        (name, number)
        for name, one, low, high in _AMD_REGISTER.findall(text)
        for number in (range(int(low), int(high) + 1) if low else (int(one),))
    ]
