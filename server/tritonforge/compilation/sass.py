"""Machine instructions of NVIDIA GPUs, per source line, from `nvdisasm -gi -c`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tritonforge.compilation.flow import Instruction, Span, main_loops, rare_paths, read_stream
from tritonforge.compilation.locations import Frame, user_line
from tritonforge.domain.compilation import LineInstructions
from tritonforge.domain.instructions import TCGEN05, classify

TensorPath = Literal["none", "fma", "mma", "wgmma", "tcgen05", "mfma"]


_ACCESSES = frozenset({"LDGSTS", "RED", "REDG", "ATOM", "ATOMG"})


def read_instructions(
    sass: str, file: str, *, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> dict[int, LineInstructions]:
    """Count the instructions of each line of `file`, library frames inlined into it included.

    Newer compilers write the whole inlining chain (`line 216 inlined at "user.py", line 16`); older ones only the
    innermost frame. For those, `callers` gives the user's lines that may have inlined a frame (see
    `ttir.inlined_callers`); of several the one nearest in the instruction stream is charged. What cannot be placed is
    charged to the user's line before it, at first to `default_line`, and dropped without one.
    """
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    looped: defaultdict[int, Counter[str]] = defaultdict(Counter)
    rare: defaultdict[int, Counter[str]] = defaultdict(Counter)
    widths: defaultdict[int, list[int]] = defaultdict(list)
    stream, labels = read_stream(sass)
    lines = _lines(stream, file, callers or {}, default_line)
    in_loop = _covered(main_loops(stream, labels, lines))
    in_rare = _covered(rare_paths(stream, labels))
    for index, (line, instruction) in enumerate(zip(lines, stream, strict=True)):
        if line is None or instruction.mnemonic == "NOP":
            continue
        kind = classify(instruction.mnemonic)
        counts[line][kind] += 1
        if index in in_rare:
            rare[line][kind] += 1
        elif index in in_loop:
            looped[line][kind] += 1
        if kind in {"load_global", "store_global"} or instruction.mnemonic in _ACCESSES:
            widths[line].append(access_width(instruction.modifiers))
    return {
        line: LineInstructions(dict(c), tuple(sorted(widths[line])), dict(looped[line]), dict(rare[line]))
        for line, c in sorted(counts.items())
    }


def instruction_lines(
    sass: str, file: str, *, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> list[tuple[str, int | None]]:
    """Return mnemonic and line of `file` of every instruction in order, placed as `read_instructions` places them."""
    stream, _ = read_stream(sass)
    lines = _lines(stream, file, callers or {}, default_line)
    return [(instruction.mnemonic, line) for instruction, line in zip(stream, lines, strict=True)]


def _covered(spans: Iterable[Span]) -> set[int]:
    return {index for start, end in spans for index in range(start, end)}


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


def tensor_path(sass: str, *, has_dot: bool) -> TensorPath:
    """Return the instruction family that the kernel's dots use; `fma` when it has dots but no matrix instruction."""
    mnemonics = {instruction.mnemonic for instruction in read_stream(sass)[0]}
    if mnemonics.intersection(TCGEN05):
        return "tcgen05"
    kinds = {classify(mnemonic) for mnemonic in mnemonics}
    if "wgmma" in kinds:
        return "wgmma"
    if "mma" in kinds:
        return "mma"
    return "fma" if has_dot and mnemonics else "none"


def _lines(
    stream: Sequence[Instruction],
    file: str,
    callers: Mapping[Frame, Sequence[int]],
    default_line: int | None,
) -> list[int | None]:
    own = [user_line(instruction.frames, file) for instruction in stream]
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
