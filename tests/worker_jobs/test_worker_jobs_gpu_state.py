"""How a GPU is, as its driver tells: read from a library that answers as NVML does, and on a real GPU."""

# ruff: noqa: N802, E402 - the functions are named as NVML names them

from __future__ import annotations

import ctypes
import os

import pytest

torch = pytest.importorskip("torch")

from tritonforge.domain.baseline import GpuState
from tritonforge.domain.messages import LookAtGpu
from tritonforge.worker.timing import state
from tritonforge.worker.timing.state import read_state


class Nvml:
    """Answers with what it was given; a question that is not there is not supported (3)."""

    def __init__(self, **answers):
        self.answers = answers

    def _number(self, name, out):
        if name not in self.answers:
            return 3
        ctypes.cast(out, ctypes.POINTER(ctypes.c_uint))[0] = self.answers[name]
        return 0

    def nvmlDeviceGetClockInfo(self, _, which, out):
        return self._number({1: "sm", 2: "memory"}[which], out)

    def nvmlDeviceGetMaxClockInfo(self, _, which, out):
        return self._number("sm_max", out)

    def nvmlDeviceGetTemperature(self, _, which, out):
        assert which == 0
        return self._number("temperature", out)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _, out):
        if "reasons" not in self.answers:
            return 3
        ctypes.cast(out, ctypes.POINTER(ctypes.c_ulonglong))[0] = self.answers["reasons"]
        return 0

    def nvmlDeviceGetUtilizationRates(self, _, out):
        if "busy" not in self.answers:
            return 3
        values = self.answers["busy"]
        ctypes.cast(out, ctypes.POINTER(ctypes.c_uint))[0] = values.pop(0) if len(values) > 1 else values[0]
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, _, count, out):
        pids = self.answers.get("pids")
        if pids is None:
            return 3
        # As the driver lays it out: 24 bytes a process, its number first.
        memory = ctypes.cast(out, ctypes.POINTER(ctypes.c_uint))
        for index, pid in enumerate(pids):
            memory[index * 6] = pid
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = len(pids)
        return 0


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(state, "_SETTLE_S", 0.0)


def test_everything_is_read():
    nvml = Nvml(sm=1980, sm_max=1980, memory=2619, temperature=44, reasons=0x4 | 0x20, busy=[90, 0, 0],
                pids=[os.getpid(), os.getppid(), 2**22 + 12345])  # fmt: skip
    assert read_state(nvml, None, idle=True) == GpuState(
        1980, 1980, 2619, 44, 0.0, 1, ("its power limit", "its temperature")
    )


def test_somebody_who_computes_all_the_time_is_seen_in_every_look():
    assert read_state(Nvml(busy=[90, 40, 60, 80, 70, 50]), None, idle=True).utilisation == 0.4


def test_while_we_compute_ourselves_utilisation_says_nothing_of_others():
    assert read_state(Nvml(busy=[100]), None, idle=False).utilisation is None


def test_what_the_driver_does_not_tell_is_not_known():
    assert read_state(Nvml(), None, idle=True) == GpuState()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_tells():
    found = state.look_at_gpu(LookAtGpu(), None)
    assert found.sm_clock
    assert found.temperature
    assert found.others is None or found.others >= 0
