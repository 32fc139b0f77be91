"""The facts about blocks and loops of one compilation: `ttgir` read together with the disassembly and the work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
        banks=64 if arch.startswith("gfx95") else 32,
    )
    seen = _without_prologues(walked.operations)
    sharing = {one.line for one in walked.operations if one.name.startswith(_SHARED_USERS)}
    moves = (conversion(one, context, shared=_uses_shared(one.line, instructions, sharing)) for one in seen)
    asked = _stages_written(texts.get("ttir", ""), file)
    return BlockFacts(
        _known(global_access(one, context) for one in seen),
        _known(shared_access(one, context) for one in seen),
        _known(moves),
        _known(dot(one, context) for one in seen),
        _known(atomic(one, context) for one in seen),
        _loops(walked.loops, asked, num_stages, machine, work),
    )


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
    return tuple(found)


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

    def visit(operations: Sequence[Operation]) -> None:
        for operation in operations:
            if "tt.num_stages = " in operation.attributes:
                line = locations.line(operation.location)
                if line is not None:
                    found[line] = int(operation.attributes.split("tt.num_stages = ")[1].split(" ")[0].rstrip("},"))
            for region in operation.regions:
                visit(region)

    for function in read_functions(ttir)[1].values():
        visit([function])
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
