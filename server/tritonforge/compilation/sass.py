"""Machine instructions per source line: counts by class, access widths, math functions, spills."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from tritonforge.compilation.locations import Frame
from tritonforge.compilation.machine import Machine, access_width, read_machine
from tritonforge.compilation.stalls import paces
from tritonforge.domain.compilation import LineInstructions, Pace
from tritonforge.domain.instructions import TCGEN05, classify

TensorPath = Literal["none", "fma", "mma", "wgmma", "tcgen05", "mfma"]

_ACCESSES = frozenset({"LDGSTS", "RED", "REDG", "ATOM", "ATOMG"})
_IDLE = frozenset({"NOP", "s_nop"})
_WIDE = {"load_global": "load", "store_global": "store", "atomic": "atomic", "async_copy": "async-copy"}


def read_instructions(
    sass: str, file: str, *, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> dict[int, LineInstructions]:
    """Count the instructions of each line of `file`, library frames inlined into it included (see `read_machine`)."""
    return count_lines(read_machine(sass, file, callers, default_line))


def count_lines(machine: Machine) -> dict[int, LineInstructions]:
    """Count the instructions of each line."""
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    looped: defaultdict[int, Counter[str]] = defaultdict(Counter)
    rare: defaultdict[int, Counter[str]] = defaultdict(Counter)
    functions: defaultdict[int, Counter[str]] = defaultdict(Counter)
    spills: defaultdict[int, Counter[str]] = defaultdict(Counter)
    widths: defaultdict[int, list[int]] = defaultdict(list)
    for index, (line, instruction, kind) in enumerate(zip(machine.lines, machine.stream, machine.kinds, strict=True)):
        if line is None or instruction.mnemonic in _IDLE:
            continue
        counts[line][kind] += 1
        if index in machine.in_rare:
            rare[line][kind] += 1
        elif index in machine.in_loop:
            looped[line][kind] += 1
        if function := machine.function(index):
            functions[line][function] += 1
        if index in machine.spills:
            spills[line][kind] += 1
        if _has_width(machine, index):
            widths[line].append(machine.width(index))
    pace = paces(machine)
    return {
        line: LineInstructions(
            dict(c),
            tuple(sorted(widths[line])),
            dict(looped[line]),
            dict(rare[line]),
            dict(functions[line]),
            spills[line]["store_local"],
            spills[line]["load_local"],
            pace=pace[line][0] if line in pace else Pace(),
            looped_pace=pace[line][1] if line in pace else Pace(),
        )
        for line, c in sorted(counts.items())
    }


def access_widths(machine: Machine) -> dict[tuple[int, str], frozenset[int]]:
    """Return the bytes of one lane's accesses that each line makes, by line and kind as `GlobalAccess` names it."""
    found: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    for index, (line, kind) in enumerate(zip(machine.lines, machine.kinds, strict=True)):
        if line is not None and kind in _WIDE and _has_width(machine, index):
            found[line, _WIDE[kind]].add(machine.width(index))
    return {key: frozenset(widths) for key, widths in found.items()}


def _has_width(machine: Machine, index: int) -> bool:
    kind, mnemonic = machine.kinds[index], machine.stream[index].mnemonic
    if machine.amd:
        return kind in _WIDE and not mnemonic.startswith("ds_")
    return kind in {"load_global", "store_global"} or mnemonic in _ACCESSES


def instruction_lines(
    sass: str, file: str, *, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> list[tuple[str, int | None]]:
    """Return mnemonic and line of `file` of every instruction in order, placed as `read_instructions` places them."""
    machine = read_machine(sass, file, callers, default_line)
    return [(instruction.mnemonic, line) for instruction, line in zip(machine.stream, machine.lines, strict=True)]


def tensor_path(sass: str, *, has_dot: bool) -> TensorPath:
    """Return the instruction family that the kernel's dots use; `fma` when it has dots but no matrix instruction."""
    return tensor_path_of(read_machine(sass, ""), has_dot=has_dot)


def tensor_path_of(machine: Machine, *, has_dot: bool) -> TensorPath:
    """Return the instruction family that the kernel's dots use; `fma` when it has dots but no matrix instruction."""
    kinds = set(machine.kinds)
    if machine.amd and "mma" in kinds:
        return "mfma"
    if any(instruction.mnemonic in TCGEN05 for instruction in machine.stream):
        return "tcgen05"
    if "wgmma" in kinds:
        return "wgmma"
    if "mma" in kinds:
        return "mma"
    return "fma" if has_dot and machine.stream else "none"


__all__ = [
    "TensorPath", "access_width", "access_widths", "classify", "count_lines", "instruction_lines", "read_instructions",
    "tensor_path", "tensor_path_of",
]  # fmt: skip
