"""Which line of the user's file a machine instruction belongs to, library frames inlined into it included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
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


def user_lines(
    instructions: Sequence[ReportedInstruction], file: str, callers: Collection[int] = ()
) -> list[int | None]:
    """Return the line of `file` that each instruction belongs to.

    From the chain of inlined frames where it is known. Where only the innermost frame is known and lies in another
    file, a line that calls functions of other files (`callers`) is charged: the neighbour in the stream that is one,
    else the nearest of them. Without `callers` it is the line before, since what a library function does with a value
    follows what made it.
    """
    own = [_own_line(instruction, file) for instruction in instructions]
    after: list[int | None] = []
    upcoming = None
    for line in reversed(own):
        upcoming = line if line is not None else upcoming
        after.append(upcoming)
    after.reverse()
    before = after[0] if after else None
    out: list[int | None] = []
    for line, following in zip(own, after, strict=True):
        before = line if line is not None else _caller(before, following, callers)
        out.append(before)
    return out


def _caller(before: int | None, after: int | None, callers: Collection[int]) -> int | None:
    for neighbour in (before, after):
        if neighbour is not None and (neighbour in callers or not callers):
            return neighbour
    if before is None:
        return after
    return min(callers, key=lambda line: (abs(line - before), line))


def agreement(reported: str, path: str) -> int:
    """Return how many parts two paths have in common at their ends: of several files of a name the most alike wins."""
    first = PurePosixPath(reported.replace("\\", "/")).parts
    second = PurePosixPath(path.replace("\\", "/")).parts
    common = 0
    for a, b in zip(reversed(first), reversed(second), strict=False):
        if a != b:
            break
        common += 1
    return common


def _own_line(instruction: ReportedInstruction, file: str) -> int | None:
    # The innermost frame of the user's file: a helper of theirs is hotter news than the line that calls it.
    for name, line in instruction.frames:
        if name == file:
            return line
    return instruction.line if instruction.file == file else None
