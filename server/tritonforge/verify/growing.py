"""Does a candidate's grid grow with its inputs as the original's does? Asked of launches that are not run.

A grid that is right for every size that can be interpreted may still be a number, or have a largest one.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tritonforge.domain.launch import Call, RecordedLaunch, Scalar
from tritonforge.domain.messages import CompiledLaunch, Program
from tritonforge.jobs import JobError, Worker
from tritonforge.verify.grouping import Groups
from tritonforge.verify.host_code import File, read_file
from tritonforge.verify.launched import launched
from tritonforge.verify.resizing import all_tensors, describe, resize
from tritonforge.verify.signature import text_of
from tritonforge.verify.sizes import counted

_TIMES = 4
_MOST_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class Larger:
    """A call of larger sizes than were recorded, with what the original launches for it."""

    call: Call
    launches: tuple[CompiledLaunch, ...]


def larger(call: Call, groups: Groups, grid: frozenset[int], *, tail: int = 0) -> Call | None:
    """Return `call` with the sizes that its grids count four times as large; None where there are none, or too large.

    Args:
        tail: how much larger they are than that.
        call: the recorded call, with its launches where they are known.
        groups: which of its sizes change together.
        grid: extents of the recorded grids.
    """
    wanted = counted(call, groups, grid) or range(len(groups.groups))
    sizes = {place: place.size * _TIMES + tail for index in sorted(wanted) for place in groups.groups[index]}
    if not sizes:
        return None
    grown = replace(resize(call, sizes, seed=call.seed), launches=())
    return grown if all(tensor.elements < _MOST_ELEMENTS for tensor in all_tensors(grown)) else None


async def launched_for(worker: Worker, program: Program, call: Call, arch: str) -> tuple[CompiledLaunch, ...] | None:
    """Return what a program launches for a call, without running it; None where it refuses the call.

    Raises:
        JobError: when the worker cannot do its part.
    """
    try:
        return (await launched(worker, program, [call], arch)).compiled[0]
    except JobError as error:
        if error.kind not in {"user-error", "unsupported", "compile-error"}:
            raise
        return None


def may_stay_behind(candidate: Program) -> bool:
    """Tell whether a kernel of the candidate asks how many programs there are, and so may need no more of them."""
    text = text_of(candidate, candidate.file)
    return text is not None and "num_programs" in text


def changes_hosts(original: Program, candidate: Program) -> bool:
    """Tell whether a candidate changes anything but kernels."""
    for file, after in candidate.overlays:
        texts = text_of(original, file), after
        before_, after_ = (read_file(text) if text is not None else None for text in texts)
        if before_ is None or after_ is None or _hosts(before_) != _hosts(after_):
            return True
    return False


def _hosts(file: File) -> list[str]:
    kernels = {id(jit.node) for jit in file.jits.values()}
    return [ast.dump(node) for node in file.tree.body if id(node) not in kernels]


def alike(before: Sequence[CompiledLaunch], after: Sequence[CompiledLaunch]) -> bool:
    """Tell whether both sides launch the same kernels with the same numbers; their grids may differ."""
    return [_numbers(one.launch) for one in before] == [_numbers(one.launch) for one in after]


def same_grids(before: Sequence[CompiledLaunch], after: Sequence[CompiledLaunch]) -> bool:
    """Tell whether both sides launch as many programs."""
    return [one.launch.grid for one in before] == [one.launch.grid for one in after]


def stays_behind(grown: Larger, after: Sequence[CompiledLaunch]) -> str:
    """Say in one sentence where the candidate launches fewer programs than the original; empty where it does not."""
    if not alike(grown.launches, after):
        return ""
    for one, other in zip(grown.launches, after, strict=True):
        mine, theirs = one.launch.grid, other.launch.grid
        if any(b < a for a, b in zip(mine, theirs, strict=True)) and math.prod(theirs) < math.prod(mine):
            return (
                f"the candidate launches {math.prod(theirs)} programs of {other.launch.kernel} for "
                f"{describe(grown.call)}, where the original launches {math.prod(mine)}; for the recorded sizes both "
                "launch as many"
            )
    return ""


def _numbers(launch: RecordedLaunch) -> tuple[object, ...]:
    named = (*launch.arguments, *launch.constexprs)
    return launch.kernel, tuple((name, value.value) for name, value in named if isinstance(value, Scalar))
