"""Kernels, launches and times that the tests of whole programs share."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.program import GpuTimeNote, GpuTimes, KernelTime
from tritonforge.workload.program_launches import SeenKernel, SeenLaunch

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""

(KERNEL,) = analyze(SOURCE.encode(), "kernels.py").kernels


def launch(file: str = "kernels.py", name: str = "scale", line: int = 6, n: int = 1 << 20) -> RecordedLaunch:
    tensor = Tensor((n,), (1,), "float32", buffer=0)
    other = Tensor((n,), (1,), "float32", buffer=1)
    return RecordedLaunch(
        file, name, line, (("x", tensor), ("y", other), ("n", Scalar(n))), (("BLOCK", Scalar(1024)),),
        (("num_warps", Scalar(4)), ("num_stages", Scalar(3))), (n // 1024, 1, 1), CallSite("train.py", 7, "step"),
    )  # fmt: skip


def seen(name: str = "scale", count: int = 10, typical_us: float | None = None, file: str = "kernels.py") -> SeenKernel:
    own = SeenLaunch(launch(file, name), count, typical_us)
    return SeenKernel(file, name, 6, (own,), KERNEL if name == "scale" else None)


def times(**us: float) -> GpuTimes:
    """GPU times of kernels that ran ten times each."""
    return GpuTimes(
        {name: KernelTime(name, 10, value) for name, value in us.items()}, processes=1, gpus=("NVIDIA H200",)
    )


def leave(spool: Path, name: str, state: str, tree: object = None, reason: str = "") -> None:
    """Leave in `spool` what a process leaves: its note and, where it wrote one, Proton's tree."""
    note = GpuTimeNote(7, state, reason, 1, 2, ("NVIDIA H200",))  # type: ignore[arg-type]
    (spool / f"{name}.gputime").write_text(json.dumps(asdict(note)))
    if tree is not None:
        (spool / f"{name}.hatchet").write_text(tree if isinstance(tree, str) else json.dumps(tree))


def frame(name: str, count: int, ns: int, *children: object) -> dict[str, object]:
    """One node of Proton's tree."""
    metrics = {"count": count, "time (ns)": ns, "device_id": "0", "device_type": "CUDA"}
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}
