"""Golden artefacts: what the compiler said, kept by `benchmarks/compile_golden.py`."""

import json
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tritonforge.compilation import read
from tritonforge.domain.codec import decode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.messages import CompiledLaunch

DATA = Path(__file__).parents[1] / "data"


@cache
def artefacts(name: str) -> Mapping[str, CompiledLaunch]:
    """Return the compiled launches of one golden file."""
    entries = json.loads(lzma.decompress((DATA / "compilation" / f"{name}.json.xz").read_bytes()))
    return {key: decode(CompiledLaunch, entry) for key, entry in entries.items()}


@cache
def compilations(name: str) -> Mapping[str, Compilation]:
    """Return the same, read."""
    kind = name.partition("-")[0]
    file = f"/golden/{kind if kind in {'samples', 'blocks'} else 'pathologies'}.py"
    return {key: read(c, launch_id=key, kernel_file_path=file) for key, c in artefacts(name).items()}


def measured():
    """Return what was measured on an H200: times, registers, spills, shared memory."""
    return _facts("pathologies_times.json")


def nsight():
    """Return what Nsight Compute counted for the same launches."""
    return _facts("nsight_facts.json")


@cache
def _facts(name: str):
    facts = json.loads((DATA / "h200" / name).read_text())
    return {key: entry for key, entry in facts.items() if not key.startswith("_")}
