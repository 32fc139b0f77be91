"""The launches that a traced program made, all its processes together, by kernel."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, KernelLaunch, RecordedLaunch, Scalar, is_repeatable
from tritonforge.domain.trace import Spool
from tritonforge.workload.tracing_kernels import Sources
from tritonforge.workload.tracing_spools import by_names, described, told


@dataclass(frozen=True)
class SeenLaunch:
    """A launch of a program: how often it was made, replays of graphs included, and the median of its samples in µs."""

    launch: RecordedLaunch
    count: int
    typical_us: float | None = None
    call: Call | None = None
    """A call of a host function that makes it, where one was recorded."""

    @property
    def sampled_us(self) -> float | None:
        """All runs of it together, in µs, as far as samples tell."""
        return None if self.typical_us is None else self.typical_us * self.count


@dataclass(frozen=True)
class SeenKernel:
    """A kernel of a program with its launches, in the order of their first sight.

    `kernel` is None when its source cannot be had, `why` says why then.
    """

    file: str
    name: str
    line: int
    launches: tuple[SeenLaunch, ...]
    kernel: Kernel | None = None
    why: str = ""

    @property
    def simple_name(self) -> str:
        """The name that Triton gives to the compiled kernel, unless the kernel has a `repr` of its own."""
        return self.name.rpartition(".")[2]

    @property
    def count(self) -> int:
        """How often it was launched."""
        return sum(one.count for one in self.launches)

    @property
    def sampled_us(self) -> float | None:
        """All its launches together in µs; those without a sample are taken to be as long as those with one."""
        timed = [one for one in self.launches if one.typical_us is not None]
        known = sum(one.count for one in timed)
        return sum(one.sampled_us or 0.0 for one in timed) / known * self.count if known else None


def seen_kernels(spools: Sequence[Spool], sources: Sources) -> tuple[SeenKernel, ...]:
    """Return the kernels that the processes behind `spools` launched, in the order of their first launch."""
    found: dict[tuple[str, str, int], list[SeenLaunch]] = {}
    calls = _calls(spools, sources)
    for one in told(spools):
        launch = one.traced.launch
        typical = statistics.median(one.samples) if one.samples else None
        seen = SeenLaunch(launch, one.count, typical, calls.get(id(one.traced)))
        found.setdefault((launch.kernel_file, launch.kernel, launch.kernel_line), []).append(seen)
    kernels: list[SeenKernel] = []
    for (file, name, line), launches in found.items():
        resolved = sources.resolve(launches[0].launch)
        kernel = None if resolved.unrepeatable else resolved.kernel
        kernels.append(SeenKernel(file, name, line, tuple(launches), kernel, resolved.unrepeatable))
    return tuple(kernels)


def _calls(spools: Sequence[Spool], sources: Sources) -> dict[int, Call]:
    """Return the first call that can be made again for each launch, by the identity of the launch's record."""
    found: dict[int, Call] = {}
    names = by_names(spools)
    for spool in spools:
        launches = described(spool, names)
        for made in spool.calls:
            if not sources.has(made.file):
                continue
            name = f"{made.function}@{made.at}"
            call = Call(name, made.file, made.function, made.arguments, made.keywords, launches=made.launches)
            for slot in made.slots:
                if slot in launches:
                    found.setdefault(id(launches[slot]), call)
    return found


def direct_call(launch: RecordedLaunch, *, layers: int = 0) -> Call | None:
    """Return the call that makes `launch` without its host function; None when an argument cannot be rebuilt.

    Args:
        launch: as it was recorded, autotuning and heuristics resolved.
        layers: how many autotuners and heuristics stand above the kernel; they are passed by, for what they would
            choose is among the arguments already.
    """
    keywords = (*launch.arguments, *launch.constexprs)
    if not all(is_repeatable(value) for _, value in keywords):
        return None
    names = {name for name, _ in keywords}
    options = tuple((n, value) for n, value in launch.options if n not in names and isinstance(value, Scalar))
    return Call(
        id=f"{launch.kernel}@{launch.call_site.line}",
        file=launch.kernel_file,
        function=launch.kernel + ".fn" * layers,
        arguments=(),
        keywords=keywords,
        kernel_launch=KernelLaunch(tuple(str(extent) for extent in launch.grid), options),
    )
