"""The launches that a traced program made, all its processes together, by kernel."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Call, KernelLaunch, RecordedLaunch, Scalar, is_repeatable
from tritonforge.domain.trace import Spool, TracedCall, TracedLaunch


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
    """A kernel of a program with its launches, in the order of their first sight."""

    file: str
    name: str
    line: int
    launches: tuple[SeenLaunch, ...]

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


def seen_kernels(spools: Sequence[Spool]) -> tuple[SeenKernel, ...]:
    """Return the kernels that the processes behind `spools` launched, in the order of their first launch."""
    found: dict[tuple[str, str, int], list[tuple[int, SeenLaunch]]] = {}
    by_name = {spool.name: spool for spool in spools}
    for spool in spools:
        counts = _counts(spool)
        calls = {slot: call for call in reversed(spool.calls) for slot in call.slots}
        for traced in _described(spool, by_name):
            count = counts.get(traced.slot, 0)
            if count:
                kept = spool.kept.get(traced.slot)
                samples = kept.samples if kept else ()
                typical = statistics.median(samples) if samples else None
                launch = traced.launch
                key = (launch.kernel_file, launch.kernel, launch.kernel_line)
                found.setdefault(key, []).append(
                    (traced.at, SeenLaunch(launch, count, typical, _call(calls.get(traced.slot))))
                )
    ordered = sorted(found.items(), key=lambda item: min(at for at, _ in item[1]))
    return tuple(
        SeenKernel(*key, tuple(one for _, one in sorted(launches, key=lambda pair: pair[0])))
        for key, launches in ordered
    )


def _call(traced: TracedCall | None) -> Call | None:
    if traced is None:
        return None
    name = f"{traced.function}@{traced.at}"
    return Call(name, traced.file, traced.function, traced.arguments, traced.keywords, launches=traced.launches)


def _counts(spool: Spool) -> dict[int, int]:
    counts = {slot: kept.count for slot, kept in spool.kept.items()}
    for graph in spool.graphs:
        replays = spool.kept[graph.slot].count if graph.slot in spool.kept else 0
        counts.pop(graph.slot, None)
        for slot, times in graph.launches:
            counts[slot] = counts.get(slot, 0) + replays * times
    return counts


def _described(spool: Spool, others: dict[str, Spool]) -> Iterable[TracedLaunch]:
    """Return the launches behind a process's slots; a forked one goes on with those of the process it came from."""
    described = {traced.slot: traced for traced in spool.launches}
    seen = {spool.name}
    while spool.process is not None and spool.process.parent in others and spool.process.parent not in seen:
        spool = others[spool.process.parent]
        seen.add(spool.name)
        described = {traced.slot: traced for traced in spool.launches} | described
    return described.values()


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
