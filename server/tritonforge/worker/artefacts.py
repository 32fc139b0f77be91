"""Texts of what the compiler produced: its intermediate forms, disassembly and resource usage."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tritonforge.worker.failures import JobFailed
from tritonforge.worker.fakecuda.devices import FakeDevice
from tritonforge.worker.places import cache_folder

_AMD_RESOURCES = re.compile(r"^\s*(?:- )?(;.*|\.amdhsa_.*|\.(vgpr|sgpr|agpr|lds|private|group)\S*.*)$", re.MULTILINE)


def artefacts_of(kernel: Any, wanted: tuple[str, ...], device: FakeDevice) -> dict[str, str]:
    """Return the wanted texts of a compiled kernel; what a backend does not have is left out.

    `sass` is NVIDIA's disassembly with the lines and inlining chains of each run of instructions; AMD's `amdgcn` counts
    as its own `sass`.
    """
    texts: dict[str, str] = {}
    for name in wanted:
        if name == "sass":
            if device.backend == "cuda":
                # Following data says where computed branches go, which nobody reads, and takes an eighth of the time.
                texts[name] = _tool_output("nvdisasm", ("-ndf", "-gi", "-c"), bytes(kernel.asm["cubin"]), "sass")
            elif "amdgcn" in kernel.asm:
                texts[name] = str(kernel.asm["amdgcn"])
        elif name in kernel.asm and name != "resources":
            text = kernel.asm[name]
            if isinstance(text, str):
                texts[name] = text
    return texts


def resources_of(kernel: Any, device: FakeDevice) -> str:
    """Return the resource-usage dump of a compiled kernel (of AMD: the statistics its assembly carries)."""
    if device.backend == "cuda":
        return _tool_output("cuobjdump", ("--dump-resource-usage",), bytes(kernel.asm["cubin"]), "resources")
    return "\n".join(m[0].strip() for m in _AMD_RESOURCES.finditer(str(kernel.asm.get("amdgcn", ""))))


def _tool_output(tool: str, options: tuple[str, ...], binary: bytes, suffix: str) -> str:
    """Run a CUDA binary tool over a cubin, or read what it said before about the same bytes."""
    digest = hashlib.sha256(binary).hexdigest()
    cached = None
    with contextlib.suppress(OSError):  # what cannot be kept is asked for again
        cached = cache_folder("artefacts", digest[:2]) / f"{digest}.{suffix}"
        return cached.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = subprocess.run([tool_path(tool), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise JobFailed("unsupported", f"{tool} failed: {' '.join(done.stderr.split())[:300]}")
    if cached is not None:
        _write_whole(cached, done.stdout)
    return done.stdout


def _write_whole(path: Path, text: str) -> None:
    """Write a file that no reader ever sees half of."""
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(name).replace(path)


def tool_path(tool: str) -> str:
    """Return where `cuobjdump`, `nvdisasm` or `ptxas` is: in Triton's wheel, else on the path.

    Raises:
        JobFailed: `unsupported`, when it is in neither.
    """
    import triton

    bundled = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool
    if bundled.is_file():
        return str(bundled)
    found = shutil.which(tool)
    if found is None:
        raise JobFailed("unsupported", f"{tool} is neither in Triton's package nor on PATH: install the CUDA toolkit.")
    return found
