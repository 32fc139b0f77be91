"""The facts about blocks and loops of one compilation: `ttgir` read together with the disassembly and the work."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tritonforge.compilation.block_accesses import global_access, shared_access
from tritonforge.compilation.block_facts import atomic, conversion, dot
from tritonforge.compilation.block_types import Context
from tritonforge.compilation.chains import chain_of, innermost
from tritonforge.compilation.flow import Span
from tritonforge.compilation.locations import read_locations
from tritonforge.compilation.machine import Machine
from tritonforge.compilation.mlir import Operation
from tritonforge.compilation.sass import access_widths
from tritonforge.compilation.ttgir import DOT, LoopSeen, Seen, walk
from tritonforge.compilation.ttir import read_functions
from tritonforge.domain.blocks import Atomic, Conversion, Dot, GlobalAccess, Loop, SharedAccess
from tritonforge.domain.compilation import LineInstructions, Work
from tritonforge.domain.launch import RecordedLaunch, Tensor

_SHARED_USERS = (
    "tt.reduce", "tt.scan", "tt.atomic", "tt.gather", "tt.histogram", "tt.dot", "ttg.local_", "ttg.async_copy", "ttng.",
    "tt.descriptor", "amdg",
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True)
class BlockFacts:
    """What `Compilation` has of blocks and loops."""

    accesses: tuple[GlobalAccess, ...]
    shared_accesses: tuple[SharedAccess, ...]
    conversions: tuple[Conversion, ...]
    dots: tuple[Dot, ...]
    atomics: tuple[Atomic, ...]
    loops: tuple[Loop, ...]


def read_blocks_and_loops(
    texts: Mapping[str, str],
    launch: RecordedLaunch,
    file: str,
    *,
    arch: str,
    num_stages: int,
    machine: Machine,
    instructions: Mapping[int, LineInstructions],
    work: Work | None,
) -> BlockFacts | None:
    """Return the facts about blocks and loops, or None when there is no `ttgir` to read them from."""
    walked = walk(texts.get("ttgir", ""), launch, file)
    if walked is None:
        return None
    lines = work.lines if work is not None else {}
    context = Context(
        aliases=walked.aliases,
        tensors={name: value for name, value in launch.arguments if isinstance(value, Tensor)},
        executions={number: line.executions for number, line in lines.items() if line.exact},
        widths=access_widths(machine),
        used=frozenset(walked.used),
        masked=_masked_lines(texts.get("ttir", ""), file),
        banks=64 if arch.startswith("gfx95") else 32,
    )
    seen = _without_prologues(walked.operations)
    sharing = {one.line for one in walked.operations if one.name.startswith(_SHARED_USERS)}
    moves = (conversion(one, context, shared=_uses_shared(one.line, instructions, sharing)) for one in seen)
    asked = _stages_written(texts.get("ttir", ""), file)
    return BlockFacts(
        _accesses(seen, context),
        _known(shared_access(one, context) for one in seen),
        _known(moves),
        _known(dot(one, context) for one in seen),
        _known(atomic(one, context) for one in seen),
        _loops(walked.loops, asked, num_stages, machine, work),
    )


def _accesses(operations: Sequence[Seen], context: Context) -> tuple[GlobalAccess, ...]:
    """Return the accesses; of several on a line with different widths, the one width left over is the last one's."""
    found = [(one, access) for one in operations if (access := global_access(one, context)) is not None]
    widths: defaultdict[tuple[int, str], list[int | None]] = defaultdict(list)
    for _, access in found:
        if access.shape:
            widths[access.line, access.kind].append(access.lane_bytes)
    complete = []
    for one, access in found:
        place = (access.line, access.kind)
        left = context.widths.get(place, frozenset()) - {width for width in widths[place] if width is not None}
        if access.lane_bytes is None and widths[place].count(None) == 1 and len(left) == 1:
            complete.append(global_access(one, context, next(iter(left))) or access)
        else:
            complete.append(access)
    return tuple(complete)


def _masked_lines(ttir: str, file: str) -> frozenset[int] | None:
    """Return the lines whose loads and stores have masks, or None when the first IR is missing."""
    if not ttir:
        return None
    locations = read_locations(ttir, file)
    masked = {"tt.load": 2, "tt.store": 3}
    lines = (
        locations.line(one.location)
        for one in _all_operations(ttir)
        if len(one.operands) >= masked.get(one.name, len(one.operands) + 1)
    )
    return frozenset(line for line in lines if line is not None)


def _all_operations(ttir: str) -> Iterator[Operation]:
    waiting = list(read_functions(ttir)[1].values())
    while waiting:
        operation = waiting.pop()
        yield operation
        waiting += [one for region in operation.regions for one in region]


def _known(found: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(one for one in found if one is not None)


def _without_prologues(operations: Sequence[Seen]) -> list[Seen]:
    """Leave out what pipelining put in front of a loop or behind it: copies of what the loop does."""
    inside = {(one.name, one.operation.location) for one in operations if one.loop is not None}
    return [one for one in operations if one.loop is not None or (one.name, one.operation.location) not in inside]


def _uses_shared(line: int, instructions: Mapping[int, LineInstructions], sharing: set[int]) -> bool | None:
    if not instructions:
        return None
    counts = instructions[line].instructions if line in instructions else {}
    if not counts.get("store_shared") and not counts.get("load_shared"):
        return False
    return None if line in sharing else True


def _loops(
    loops: Sequence[LoopSeen], asked: Mapping[int, int], num_stages: int, machine: Machine, work: Work | None
) -> tuple[Loop, ...]:
    bodies = _machine_loops(loops, machine)
    found = []
    for index, seen in enumerate(loops):
        if seen.line is None:
            continue
        line = work.lines.get(seen.line) if work is not None else None
        counts = seen.counts
        loop = Loop(
            line=seen.line,
            outer=seen.outer.line if seen.outer is not None else None,
            kind="while" if seen.kind == "while" else "for",
            innermost=seen.innermost,
            trips=line.trips if line is not None else None,
            stages_asked=seen.asked or asked.get(seen.line) or num_stages,
            stages_used=_stages_used(seen),
            buffers=seen.buffers,
            loads=counts["loads"],
            scalar_loads=counts["scalar_loads"],
            async_copies=counts["async_copies"],
            bulk_copies=counts["bulk_copies"],
            dots=counts["dots"],
            warp_specialized=seen.specialized,
        )
        if index in bodies:
            span = bodies[index]
            chain, carried = chain_of(machine, span)
            loop = replace(loop, instructions=span[1] - span[0], chain=chain, carried_chain=carried)
        found.append(loop)
    return _together(found)


def _together(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Make one of the loops that warps with different tasks run in place of one of the source."""
    merged: list[Loop] = []
    for loop in loops:
        at = next((i for i, one in enumerate(merged) if one.line == loop.line and one.warp_specialized), None)
        if at is None or not loop.warp_specialized:
            merged.append(loop)
            continue
        one = merged[at]
        longer = max(one, loop, key=lambda found: found.instructions or 0)
        merged[at] = replace(
            longer,
            innermost=one.innermost and loop.innermost,
            stages_used=max((n for n in (one.stages_used, loop.stages_used) if n is not None), default=None),
            buffers=max(one.buffers or 0, loop.buffers or 0),
            loads=one.loads + loop.loads,
            scalar_loads=one.scalar_loads + loop.scalar_loads,
            async_copies=one.async_copies + loop.async_copies,
            bulk_copies=one.bulk_copies + loop.bulk_copies,
            dots=one.dots + loop.dots,
        )
    return tuple(merged)


def _stages_used(loop: LoopSeen) -> int | None:
    """Return how many iterations are under way at once: one, and those whose loads were issued in front of the loop.

    A dot that was moved in front as well is one iteration less that is only loaded. Where producers and consumers are
    different warps, as many as there are buffers.
    """
    counts = loop.counts
    if not counts["loads"] + counts["async_copies"] + counts["bulk_copies"]:
        return None
    if loop.specialized:
        return loop.buffers or None
    copies = [math.ceil(loop.before.get(at, 0) / n) for at, n in loop.inside.items() if not at.startswith(DOT)]
    ahead = max(copies, default=0)
    started = max((loop.before.get(at, 0) for at in loop.inside if at.startswith(DOT)), default=0)
    return 1 + max(0, ahead - started)


def _stages_written(ttir: str, file: str) -> dict[int, int]:
    """Return the numbers of stages that loops ask for themselves, by the loop's line."""
    locations = read_locations(ttir, file)
    found: dict[int, int] = {}
    for operation in _all_operations(ttir):
        stages = re.search(r"tt\.num_stages = (\d+)", operation.attributes)
        line = locations.line(operation.location) if stages else None
        if stages and line is not None:
            found[line] = int(stages[1])
    return found


def _machine_loops(loops: Sequence[LoopSeen], machine: Machine) -> dict[int, Span]:
    """Return for each innermost loop, by its index, the machine loop that most of its lines lie in."""
    found: dict[int, Span] = {}
    for span in innermost(machine.loops):
        lines = [line for line in machine.lines[span[0] : span[1]] if line is not None]
        best = max(
            (
                (sum(line in loop.lines or line == loop.line for line in lines), -len(loop.lines), index)
                for index, loop in enumerate(loops)
                if loop.innermost
            ),
            default=(0, 0, -1),
        )
        index = best[2]
        if not lines or best[0] * 2 < len(lines):
            continue
        if index not in found or span[1] - span[0] > found[index][1] - found[index][0]:
            found[index] = span
    return found
