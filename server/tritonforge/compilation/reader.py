"""From the worker's texts to the noun `Compilation`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tritonforge.compilation.architectures import architecture, occupancy
from tritonforge.compilation.extremes import read_extremes
from tritonforge.compilation.facts import read_blocks_and_loops
from tritonforge.compilation.formats import read_formats
from tritonforge.compilation.machine import read_machine
from tritonforge.compilation.resources import read_resources
from tritonforge.compilation.sass import count_lines, tensor_path_of
from tritonforge.compilation.ttir import inlined_callers, read_work
from tritonforge.domain.compilation import Compilation, LineInstructions, Resources, Work
from tritonforge.domain.launch import Scalar
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.domain.semantics import Semantics
from tritonforge.domain.source import Range
from tritonforge.domain.weighting import executed_by_line


def read(
    compiled: CompiledLaunch, *, launch_id: str, kernel_file_path: str, source_range: Range | None = None
) -> Compilation:
    """Read the artefacts of one compiled launch.

    `kernel_file_path` is the absolute path of the kernel's file as the compiler's line tables name it; `source_range`
    is the kernel's place in it, whose first line takes what cannot be charged to any other. Texts that are missing or
    odd leave their facts empty; nothing is guessed and nothing raised.
    """
    launch = compiled.launch
    facts = Compilation(
        launch=launch_id,
        kernel=launch.kernel,
        arch=compiled.arch,
        triton=compiled.triton,
        num_warps=_option(compiled, "num_warps", 4),
        num_stages=_option(compiled, "num_stages", 3),
        programs=launch.grid[0] * launch.grid[1] * launch.grid[2],
        compile_ms=compiled.compile_ms,
        error=compiled.error,
    )
    if compiled.error is not None:
        return facts
    texts = compiled.artefacts
    ttir, sass = texts.get("ttir", ""), texts.get("sass", "")
    arch = architecture(compiled.arch)
    resources = read_resources(texts.get("resources", ""), compiled.metadata, sass, arch)
    work = read_work(ttir, launch, kernel_file_path)
    first = source_range.start.line if source_range is not None else launch.kernel_line or None
    machine = read_machine(sass, kernel_file_path, inlined_callers(ttir, kernel_file_path), first)
    lines = _weighted(count_lines(machine), work, facts.num_warps, arch.warp if arch else 32, resources)
    blocks = read_blocks_and_loops(
        texts,
        launch,
        kernel_file_path,
        arch=compiled.arch,
        num_stages=facts.num_stages,
        machine=machine,
        instructions=lines,
        work=work,
    )
    return replace(
        facts,
        resources=resources,
        occupancy=occupancy(resources, facts.num_warps, arch) if resources and arch else None,
        instructions=lines,
        work=work,
        tensor_path=tensor_path_of(machine, has_dot=work is not None and work.dot_tile is not None),
        semantics=_semantics(ttir, compiled, kernel_file_path) if ttir else None,
        **(vars(blocks) if blocks is not None else {}),
    )


def _weighted(
    lines: Mapping[int, LineInstructions], work: Work | None, num_warps: int, lanes: int, resources: Resources | None
) -> dict[int, LineInstructions]:
    """Add how often instructions run, and leave out spills of a kernel whose registers all fit."""
    executed = executed_by_line(lines, work, num_warps, lanes) if work is not None else {}
    fits = resources is not None and resources.spill_bytes == 0
    found = {}
    for number, line in lines.items():
        known = work is not None and (number not in work.lines or work.lines[number].exact)
        spills = (0, 0) if fits else (line.spill_stores, line.spill_loads)
        found[number] = replace(
            line,
            executed=executed.get(number) if known else None,
            spill_stores=spills[0],
            spill_loads=spills[1],
        )
    return found


def _semantics(ttir: str, compiled: CompiledLaunch, file: str) -> Semantics:
    dots, sums = read_formats(ttir, file)
    return Semantics(read_extremes(ttir, compiled.launch, file), dots, sums)


def _option(compiled: CompiledLaunch, name: str, default: int) -> int:
    try:
        return int(compiled.metadata[name])
    except (KeyError, ValueError):
        value = dict(compiled.launch.options).get(name)
        return value.value if isinstance(value, Scalar) and isinstance(value.value, int) else default
