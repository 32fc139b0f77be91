"""From the worker's texts to the noun `Compilation`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tritonforge.compilation.architectures import architecture, occupancy
from tritonforge.compilation.extremes import read_extremes
from tritonforge.compilation.formats import read_formats
from tritonforge.compilation.resources import read_resources
from tritonforge.compilation.sass import TensorPath, read_instructions, tensor_path
from tritonforge.compilation.ttir import inlined_callers, read_work
from tritonforge.domain.compilation import Compilation, Work
from tritonforge.domain.launch import Scalar
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.domain.semantics import Semantics
from tritonforge.domain.source import Range


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
    callers = inlined_callers(ttir, kernel_file_path)
    return replace(
        facts,
        resources=resources,
        occupancy=occupancy(resources, facts.num_warps, arch) if resources and arch else None,
        instructions=read_instructions(sass, kernel_file_path, callers=callers, default_line=first),
        work=work,
        tensor_path=_tensor_path(texts, work),
        semantics=_semantics(ttir, compiled, kernel_file_path) if ttir else None,
    )


def _semantics(ttir: str, compiled: CompiledLaunch, file: str) -> Semantics:
    dots, sums = read_formats(ttir, file)
    return Semantics(read_extremes(ttir, compiled.launch, file), dots, sums)


def _tensor_path(texts: Mapping[str, str], work: Work | None) -> TensorPath:
    has_dot = work is not None and work.dot_tile is not None
    sass = texts.get("sass", "")  # AMD's assembly arrives under the same name
    if re.search(r"\bv_mfma_", sass):
        return "mfma"
    return tensor_path(sass, has_dot=has_dot)


def _option(compiled: CompiledLaunch, name: str, default: int) -> int:
    try:
        return int(compiled.metadata[name])
    except (KeyError, ValueError):
        value = dict(compiled.launch.options).get(name)
        return value.value if isinstance(value, Scalar) and isinstance(value.value, int) else default
