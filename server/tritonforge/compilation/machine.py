"""A disassembly as instructions with their places: which line of the user's file, which loop, which rare path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tritonforge.compilation.amdgcn import amd_class, amd_function, amd_width, is_amd, read_amd_stream
from tritonforge.compilation.flow import Span, main_loops, rare_paths, read_stream
from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.locations import Frame, user_line
from tritonforge.domain.instructions import classify

_UNITS = {
    "EX2": "exp2", "LG2": "log2", "RCP": "rcp", "RCP64H": "rcp", "RSQ": "rsqrt", "RSQ64H": "rsqrt", "SQRT": "sqrt",
    "SIN": "sin", "COS": "cos", "TANH": "tanh",
}  # fmt: skip
_STACK = re.compile(r"\[R1(?:\.\w+)?(?:\+-?0x[0-9a-f]+)?\]")


@dataclass(frozen=True)
class Machine:
    """Instructions in order, the labels behind which they stand, and the user's line of each (None: none)."""

    stream: Sequence[Instruction]
    labels: Mapping[str, int]
    lines: Sequence[int | None]
    amd: bool

    @cached_property
    def kinds(self) -> Sequence[str]:
        """The class of each instruction, as `LineInstructions` names them."""
        return [amd_class(one) if self.amd else classify(one.mnemonic) for one in self.stream]

    @cached_property
    def loops(self) -> list[Span]:
        """The machine loops, without the remainder loops of unrolling."""
        return main_loops(self.stream, dict(self.labels), self.lines)

    @cached_property
    def in_loop(self) -> set[int]:
        """The indexes of what a loop repeats."""
        return _covered(self.loops)

    @cached_property
    def in_rare(self) -> set[int]:
        """The indexes of what lies on slow paths that nearly no value takes."""
        return set() if self.amd else _covered(rare_paths(self.stream, dict(self.labels)))

    @cached_property
    def spills(self) -> set[int]:
        """The indexes of what moves spilled registers.

        On NVIDIA they are stored and read back at constant offsets from the stack pointer; a frame that nothing reads
        back so is an array of a library function.
        """
        if self.amd:
            return {i for i, one in enumerate(self.stream) if one.mnemonic.startswith(("spill_", "scratch_"))}
        found = {i for i, one in enumerate(self.stream) if one.mnemonic in _LOCAL and _STACK.search(one.operands)}
        return found if any(self.stream[i].mnemonic == "LDL" for i in found) else set()

    def width(self, index: int) -> int:
        """Return the bytes of one lane's access."""
        one = self.stream[index]
        return amd_width(one.mnemonic) if self.amd else access_width(one.modifiers)

    def function(self, index: int) -> str | None:
        """Return the function that an instruction computes, as `LineInstructions.functions` names it, or None."""
        one = self.stream[index]
        if self.amd:
            found = amd_function(one.mnemonic)
            return "int_div" if found == "rcp" and self._of_integer(index) else found
        if one.mnemonic == "MUFU":
            unit = one.modifiers.lstrip(".").partition(".")[0]
            return _UNITS.get(unit, unit.lower() or None)
        if one.mnemonic == "FCHK":
            return "div"
        return "int_div" if one.mnemonic in {"I2F", "I2FP"} and one.modifiers.endswith(".RP") else None

    def _of_integer(self, index: int) -> bool:
        """Tell whether AMD's reciprocal is that of an integer, with which a division of integers starts."""
        source = self.stream[index].operands.rpartition(",")[2].strip()
        for earlier in reversed(self.stream[max(0, index - _NEAR) : index]):
            if earlier.operands.partition(",")[0].strip() == source:
                return earlier.mnemonic.startswith(("v_cvt_f32_u32", "v_cvt_f32_i32"))
        return False


_NEAR = 64
"""How many instructions back the conversion in front of a division of integers is looked for."""
_LOCAL = frozenset({"LDL", "STL"})


def read_machine(
    text: str, file: str, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> Machine:
    """Read NVIDIA's disassembly or AMD's assembly, and place each instruction on a line of `file`.

    Newer compilers write the whole inlining chain (`line 216 inlined at "user.py", line 16`); older ones only the
    innermost frame. For those, `callers` gives the user's lines that may have inlined a frame (see
    `ttir.inlined_callers`); of several the one nearest in the instruction stream is charged. What cannot be placed is
    charged to the user's line before it, at first to `default_line`, and to none without one.
    """
    amd = is_amd(text)
    stream, labels = read_amd_stream(text) if amd else read_stream(text)
    return Machine(stream, labels, _lines(stream, file, callers or {}, default_line), amd)


def access_width(modifiers: str) -> int:
    """Return the bytes that one lane moves: `.64` → 8, `.128` → 16, `.U8` → 1, nothing → 4."""
    for part in modifiers.split("."):
        if part in {"U8", "S8"}:
            return 1
        if part in {"U16", "S16"}:
            return 2
        if part in {"64", "128", "256"}:
            return int(part) // 8
    return 4


def _covered(spans: Iterable[Span]) -> set[int]:
    return {index for start, end in spans for index in range(start, end)}


def _lines(
    stream: Sequence[Instruction],
    file: str,
    callers: Mapping[Frame, Sequence[int]],
    default_line: int | None,
) -> list[int | None]:
    places: dict[tuple[Frame, ...], int | None] = {}
    for instruction in stream:
        if instruction.frames not in places:
            places[instruction.frames] = user_line(instruction.frames, file)
    own = [places[instruction.frames] for instruction in stream]
    after: list[int | None] = [None] * len(own)
    upcoming: int | None = None
    for i in range(len(own) - 1, -1, -1):
        upcoming = own[i] if own[i] is not None else upcoming
        after[i] = upcoming
    lines: list[int | None] = []
    before = default_line
    for i, instruction in enumerate(stream):
        line = own[i]
        if line is None:
            candidates = callers.get(instruction.frames[0], ()) if instruction.frames else ()
            line = _nearest(candidates, before, after[i])
        before = line
        lines.append(line)
    return lines


def _nearest(candidates: Sequence[int], before: int | None, after: int | None) -> int | None:
    """Return the line that inlined a frame: a neighbour in the stream that may have inlined it, else the closest."""
    if not candidates:
        return before if before is not None else after
    for neighbour in (before, after):
        if neighbour in candidates:
            return neighbour
    if before is None:
        return candidates[0]
    return min(candidates, key=lambda line: abs(line - before))
