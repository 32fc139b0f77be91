"""The `Describe` job: what this worker runs on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import triton

from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.messages import Describe
from tritonforge.domain.target import GpuInfo, WorkerInfo
from tritonforge.worker.failures import JobContext

_OLDEST, _NEWEST = (3, 2), (3, 9)


def describe_machine(request: Describe, context: JobContext) -> WorkerInfo:
    """Say which Python, torch, Triton and GPUs this worker has. Asks CUDA, so it belongs in a lane, not a zygote."""
    del request, context
    problems: list[str] = []
    gpus = _gpus(problems)
    version = tuple(int(p) for p in triton.__version__.split(".")[:2])
    if not _OLDEST <= version <= _NEWEST:
        problems.append(
            f"Triton {triton.__version__} is outside the versions that were tested "
            f"({_OLDEST[0]}.{_OLDEST[1]} to {_NEWEST[0]}.{_NEWEST[1]})."
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return WorkerInfo(
        protocol=PROTOCOL_VERSION,
        python=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(),
        torch=str(torch.__version__),
        triton=str(triton.__version__),
        cores=cores,
        lanes=max(1, cores - 1),
        gpus=gpus,
        problems=tuple(problems),
    )


def _gpus(problems: list[str]) -> tuple[GpuInfo, ...]:
    try:
        if not torch.cuda.is_available():
            return ()
        driver = _driver_version()
        found = []
        for i in range(torch.cuda.device_count()):
            p = torch.cuda.get_device_properties(i)
            hip = getattr(torch.version, "hip", None)
            arch = str(p.gcnArchName).partition(":")[0] if hip else f"sm_{p.major}{p.minor}"
            found.append(GpuInfo(str(p.name), arch, int(p.multi_processor_count), int(p.total_memory), driver))
    except RuntimeError as error:
        problems.append(f"CUDA cannot be used: {' '.join(str(error).split())[:200]}")
        return ()
    return tuple(found)


def _driver_version() -> str:
    """Return the kernel driver's version, from the kernel itself where it says so, else from nvidia-smi."""
    try:
        for word in Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split():
            if word.count(".") >= 1 and word.replace(".", "").isdigit():
                return word
    except OSError:
        pass
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    done = subprocess.run(
        [tool, "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    return done.stdout.split("\n")[0].strip() if done.returncode == 0 else ""
