"""`Case`: everything that is known of one launch of a kernel, from source text alone up to a measured time."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.domain.compilation import Compilation, Prediction
from tritonforge.domain.counters import Counters
from tritonforge.domain.faults import Fault
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.profile import Ceilings, Roofline, TimeDistribution
from tritonforge.domain.provenance import Provenance


@dataclass(frozen=True)
class Gpu:
    """What a diagnosis must know of a GPU: how many SMs (or compute units) it has, and how fast it goes."""

    sms: int
    ceilings: Ceilings


@dataclass(frozen=True)
class Case:
    """The evidence about one launch; every part but the kernel may be missing, and rules say less without it.

    With the kernel alone a finding is a hint about the source. `compilation` and `prediction` make it a statement about
    what the compiler built; `time` and `roofline`, both measured, about what the GPU did; `counters` about how it did
    it. Counters may come with a launch that was never compiled here (somebody's report); they win where they
    contradict. `faults` are those of the kernel that the interpreter saw when it ran the call behind the launch.
    """

    kernel: Kernel
    launch: Launch | None = None
    compilation: Compilation | None = None
    prediction: Prediction | None = None
    time: TimeDistribution | None = None
    roofline: Roofline | None = None
    gpu: Gpu | None = None
    counters: Counters | None = None
    faults: tuple[Fault, ...] = ()
    launches: tuple[Launch, ...] = ()
    """Every known launch of the kernel, this one included: what varies between them no single one shows."""

    @property
    def compiled(self) -> Compilation | None:
        """The compilation, unless it failed."""
        return self.compilation if self.compilation is not None and self.compilation.error is None else None

    @property
    def launch_id(self) -> str | None:
        """The id that findings carry."""
        return self.launch.id if self.launch is not None else None

    @property
    def programs(self) -> int | None:
        """How many programs the grid has."""
        if self.launch is not None:
            return self.launch.programs
        if self.counters is not None and self.counters.grid is not None:
            x, y, z = self.counters.grid
            return x * y * z
        return self.compilation.programs or None if self.compilation is not None else None

    @property
    def time_us(self) -> float | None:
        """The best known time of the launch in µs: measured, else under the profiler, else predicted.

        Under the profiler caches are cold and clocks its own, so such a time is for judging this one launch alone.
        """
        if self.time is not None:
            return self.time.median
        if self.counters is not None and self.counters.time_us:
            return self.counters.time_us
        return self.prediction.time_us if self.prediction is not None else None

    @property
    def time_provenance(self) -> Provenance:
        """Where `time_us` comes from."""
        counted = self.counters is not None and self.counters.time_us
        return "measured" if self.time is not None or counted else "predicted"
