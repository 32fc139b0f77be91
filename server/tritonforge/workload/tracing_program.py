"""Run a command under `trace` with every kernel's device time counted as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.domain.program import GpuTimes
from tritonforge.domain.trace import Spool
from tritonforge.workload.gpu_times import read_gpu_times
from tritonforge.workload.program_launches import SeenKernel, seen_kernels
from tritonforge.workload.tracing import Traced, trace_command
from tritonforge.workload.tracing_injection import Injection
from tritonforge.workload.tracing_kernels import Sources

COUNTING = ("worker.tracing.gpu_time",)
"""What counts device times in each process, beside what records launches."""


@dataclass(frozen=True)
class TracedProgram:
    """What came of a command: its launches by kernel, the device times of all its kernels, and how long it took."""

    traced: Traced
    wall_s: float
    kernels: tuple[SeenKernel, ...]
    times: GpuTimes

    @property
    def failures(self) -> tuple[str, ...]:
        """What could not be recorded, a sentence each."""
        return tuple(
            f"{failure.kernel}: {failure.reason}" if failure.kernel else failure.reason
            for failure in self.traced.trace.failures
        )


def trace_program(command: Sequence[str], root: Path, *, arch: str = "sm_90") -> TracedProgram:
    """Run `command` as `trace_command` does, and read its kernels' device times.

    Raises:
        CommandNotStarted: with the exit code that a shell gives.
    """
    read: list[tuple[tuple[SeenKernel, ...], GpuTimes]] = []

    def look(injection: Injection, spools: Sequence[Spool], sources: Sources) -> None:
        read.append((seen_kernels(spools, sources), read_gpu_times(injection.spool)))

    traced = trace_command(command, root, arch=arch, also=COUNTING, look=look)
    ((kernels, times),) = read
    return TracedProgram(traced, traced.wall_s, kernels, times)
