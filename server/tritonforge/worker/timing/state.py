"""The `LookAtGpu` job: clocks, temperature and other users of the GPU, as NVIDIA's driver tells (NVML, by ctypes)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from typing import Any

import torch

from tritonforge.domain.baseline import GpuState
from tritonforge.domain.messages import LookAtGpu
from tritonforge.worker.failures import JobContext
from tritonforge.worker.on_device import need_gpu
from tritonforge.worker.timing.health import REASONS, open_nvml

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_GPU_TEMPERATURE = 0
_PROCESSES = 64
_SETTLE_S = 0.3
_LOOKS = 6
_IDLE = 0.03
"""The driver sums utilisation up over a sixth of a second to a second, so what ran here just before is still in the
first looks: it is looked at until the GPU seems idle, or what keeps it busy cannot be that any more."""


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_t`, version 2 (which `…_v3` of the function fills)."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def look_at_gpu(request: LookAtGpu, context: JobContext) -> GpuState:
    """Answer a `LookAtGpu` request; everything is None where the driver does not tell.

    Who asks will use the GPU next, so this lane is made ready for it too.

    Raises:
        JobFailed: `unsupported` without a GPU.
    """
    del context
    need_gpu()
    with contextlib.suppress(RuntimeError):  # a job that runs something there will say it better
        torch.empty(1, device="cuda")
    nvml, device = open_nvml()
    if nvml is None:
        return GpuState()
    return read_state(nvml, device, idle=request.idle)


def read_state(nvml: Any, device: Any, *, idle: bool) -> GpuState:
    """Ask `nvml` about `device`. What it refuses to say is None."""
    looks = []
    for number in range(_LOOKS if idle else 1):
        if number:
            time.sleep(_SETTLE_S)
        looks.append(_utilisation(nvml, device))
        if looks[-1] is None or looks[-1] < _IDLE:
            break
    known = [one for one in looks if one is not None]
    reasons = ctypes.c_ulonglong(0)
    told = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(reasons)) == 0
    return GpuState(
        sm_clock=_number(nvml.nvmlDeviceGetClockInfo, device, _SM_CLOCK),
        sm_clock_max=_number(nvml.nvmlDeviceGetMaxClockInfo, device, _SM_CLOCK),
        memory_clock=_number(nvml.nvmlDeviceGetClockInfo, device, _MEMORY_CLOCK),
        temperature=_number(nvml.nvmlDeviceGetTemperature, device, _GPU_TEMPERATURE),
        utilisation=min(known) if known and idle else None,
        others=_others(nvml, device),
        held_back=tuple(text for bit, text in REASONS.items() if told and reasons.value & bit),
    )


def _number(ask: Any, device: Any, which: int) -> int | None:
    value = ctypes.c_uint(0)
    return value.value if ask(device, which, ctypes.byref(value)) == 0 and value.value else None


def _utilisation(nvml: Any, device: Any) -> float | None:
    found = _Utilisation()
    return found.gpu / 100.0 if nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(found)) == 0 else None


def _others(nvml: Any, device: Any) -> int | None:
    """Count the processes that use the GPU besides this one.

    In a container the driver may name processes by numbers of the host, or none: those that do not exist here are not
    counted, since this process may be among them.
    """
    ask = getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    if ask is None:
        return None
    count = ctypes.c_uint(_PROCESSES)
    found = (_Process * _PROCESSES)()
    if ask(device, ctypes.byref(count), found) != 0:
        return None
    here = [found[i].pid for i in range(min(count.value, _PROCESSES)) if os.path.exists(f"/proc/{found[i].pid}")]  # noqa: PTH110
    return len([pid for pid in here if pid != os.getpid()])
