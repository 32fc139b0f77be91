"""Loops and rare paths in a disassembly, from its branches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.locations import Frame

_MARK = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@!?U?P[T\d]\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)([^;]*)"
)
_LABEL = re.compile(r"^\s*(\.L_\w+|\$?\w+):")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_ARRAY = re.compile(r"^\s*\[R(?!1[\].+])\d+")

Span = tuple[int, int]
"""Indexes into the instruction stream, the end excluded."""


def read_stream(sass: str) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions in order, and for each label the index of the instruction behind it."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    frames: list[Frame] = []
    fresh = True
    for row, text in enumerate(sass.splitlines()):
        found = _INSTRUCTION.match(text)
        if found:
            fresh = True
            target = _TARGET.search(found[4])
            branch = target[1] if target else None
            instructions.append(Instruction(tuple(frames), found[2], found[3], found[4], branch, row))
            continue
        mark = _MARK.match(text)
        if mark:
            if fresh:
                frames, fresh = [], False
            frames.append((mark[1], int(mark[2])))
            if mark[3] is not None:
                frames.append((mark[3], int(mark[4])))
            continue
        label = _LABEL.match(text)
        if label:
            labels[label[1]] = len(instructions)
    return instructions, labels


def main_loops(instructions: Sequence[Instruction], labels: dict[str, int], lines: Sequence[int | None]) -> list[Span]:
    """Return the loops, without the remainder loops that unrolling leaves beside a main one.

    A remainder loop stands apart from its main loop, comes from the same source lines, and is shorter. `lines` gives
    the source line of each instruction.
    """
    loops: list[Span] = []
    for index, instruction in enumerate(instructions):
        start = labels.get(instruction.target or "")
        if instruction.mnemonic.startswith(("BRA", "s_cbranch", "s_branch")) and start is not None and start < index:
            loops.append((start, index + 1))
    sources = {loop: {line for line in lines[loop[0] : loop[1]] if line is not None} for loop in loops}

    def remainder_of(loop: Span, other: Span) -> bool:
        apart = loop[1] <= other[0] or other[1] <= loop[0]
        return apart and loop[1] - loop[0] < other[1] - other[0] and sources[loop] <= sources[other]

    return [loop for loop in loops if not any(remainder_of(loop, other) for other in loops)]


def rare_paths(instructions: Sequence[Instruction], labels: dict[str, int]) -> list[Span]:
    """Return the slow paths of library functions that nearly no value takes.

    Such a path (the range reduction of `sin` for huge arguments) is a divergent region that fills an array in local
    memory; spilled registers are stored relative to the stack pointer R1 instead.
    """
    paths: list[Span] = []
    for index, instruction in enumerate(instructions):
        end = labels.get(instruction.target or "")
        if instruction.mnemonic != "BSSY" or end is None or end <= index:
            continue
        region = range(index, end)
        if not any(instructions[i].mnemonic == "STL" and _ARRAY.match(instructions[i].operands) for i in region):
            continue
        first = next((i for i in region if instructions[i].mnemonic == "BRA"), end)
        paths.append((first + 1, end))
    return paths
