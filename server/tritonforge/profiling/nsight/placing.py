"""Which line of the user's file a machine instruction belongs to, library frames inlined into it included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from tritonforge.profiling.nsight.launch import ReportedInstruction

_LIBRARY = re.compile(r"(?:^|[/\\])triton[/\\](?:language|tools|experimental|runtime|backends)[/\\]")


def is_library(file: str) -> bool:
    """Tell whether a file is Triton's own, whose lines are charged to those that call it."""
    return _LIBRARY.search(file) is not None


def kernel_file(instructions: Sequence[ReportedInstruction]) -> str | None:
    """Return the file that the kernel is written in: the compiler places its first instructions at its `def`.

    None without line information.
    """
    for instruction in instructions:
        for file, _ in reversed(instruction.frames):
            if not is_library(file):
                return file
        if instruction.file and not is_library(instruction.file):
            return instruction.file
    counted = Counter(one.file for one in instructions if one.file)
    return counted.most_common(1)[0][0] if counted else None


def first_line(instructions: Sequence[ReportedInstruction], file: str) -> int | None:
    """Return the first line of `file` in the stream: that of the kernel's `def`, or one inside it."""
    return next((line for one in instructions if (line := _own_line(one, file)) is not None), None)


def user_lines(instructions: Sequence[ReportedInstruction], file: str) -> list[int | None]:
    """Return the line of `file` that each instruction belongs to.

    From the chain of inlined frames where it is known. Where only the innermost frame is known and lies in another
    file, the user's line before it in the stream is charged: what a library function does with a value follows what
    made it. At the start of the stream that is the first line after.
    """
    own = [_own_line(instruction, file) for instruction in instructions]
    before = next((line for line in own if line is not None), None)
    out: list[int | None] = []
    for line in own:
        before = line if line is not None else before
        out.append(before)
    return out


def same_file(reported: str, path: str) -> bool:
    """Tell whether the file that a compiler named may be the one at `path`: one path must end like the other.

    Reports are made on other machines, in other folders; the name and as many folders as both have must agree, or at
    least the name and the folder above it.
    """
    first = PurePosixPath(reported.replace("\\", "/")).parts
    second = PurePosixPath(path.replace("\\", "/")).parts
    return bool(first) and bool(second) and first[-1] == second[-1]


def _own_line(instruction: ReportedInstruction, file: str) -> int | None:
    # The innermost frame of the user's file: a helper of theirs is hotter news than the line that calls it.
    for name, line in instruction.frames:
        if name == file:
            return line
    return instruction.line if instruction.file == file else None
