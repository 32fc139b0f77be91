"""From what a report says of one launch to the noun `Counters`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.domain.instructions import classify
from tritonforge.profiling.nsight.launch import ReportedInstruction, ReportedLaunch
from tritonforge.profiling.nsight.opcodes import lane_flops, split, warp_flops
from tritonforge.profiling.nsight.placing import kernel_file, user_lines

_LANES = 32
_SECTIONS: Mapping[str, tuple[str, str]] = {
    "time_us": ("SpeedOfLight", "time and throughputs"),
    "theoretical_occupancy": ("Occupancy", "occupancy"),
    "registers": ("LaunchStats", "registers and shared memory"),
    "eligible_warps": ("SchedulerStats", "eligible warps"),
    "l2_hit_rate": ("MemoryWorkloadAnalysis", "cache hit rates and memory traffic"),
    "ipc": ("ComputeWorkloadAnalysis", "pipelines"),
}
"""A metric that tells whether a section of Nsight Compute's was collected, the section, and what it brings."""


def counters_of(
    launch: ReportedLaunch,
    *,
    file: str | None = None,
    callers: Collection[int] = (),
    placed: Sequence[int | None] | None = None,
) -> Counters:
    """Return the counters of one profiled launch, with what its instructions add up to for each line.

    Args:
        launch: as a report tells of it.
        file: the user's file as the compiler's line tables name it; None takes the one the kernel is written in.
        callers: lines of that file that call functions of others (see `user_lines`).
        placed: the line of each instruction, where it is known better than the report knows it.
    """
    file = file or kernel_file(launch.instructions)
    if placed is None:
        placed = user_lines(launch.instructions, file, callers) if file else [None] * len(launch.instructions)
    lines = _by_line(launch.instructions, placed)
    stalls = _stalls(launch)
    return Counters(
        source="ncu",
        kernel=launch.name,
        grid=launch.grid,
        block=launch.block,
        time_us=launch.metrics.get("time_us"),
        metrics=_metrics(launch),
        stalls=stalls,
        lines=lines,
        missing=tuple(_missing(launch, stalls, lines)),
    )


def _metrics(launch: ReportedLaunch) -> dict[str, float]:
    metrics = dict(launch.metrics)
    metrics.update(_executed(launch.instructions))
    time = metrics.get("time_us")
    rate = metrics.get("dram_bytes_per_second")
    if "dram_bytes" not in metrics:
        if "dram_read_bytes" in metrics and "dram_written_bytes" in metrics:
            metrics["dram_bytes"] = metrics["dram_read_bytes"] + metrics["dram_written_bytes"]
        elif time and rate is not None:
            metrics["dram_bytes"] = rate * time * 1e-6
    for wanted, total, ideal, field in (
        ("excess_global_sectors", "global_sectors", "ideal_global_sectors", "sectors"),
        ("excess_shared_wavefronts", "shared_wavefronts", "ideal_shared_wavefronts", "wavefronts"),
    ):
        if total not in metrics and launch.instructions:
            metrics[total] = sum(float(getattr(one, field)) for one in launch.instructions)
            metrics[ideal] = sum(float(getattr(one, f"ideal_{field}")) for one in launch.instructions)
        if total in metrics and ideal in metrics:
            metrics[wanted] = max(metrics[total] - metrics[ideal], 0.0)
    if "shared_bytes_static" in metrics or "shared_bytes_dynamic" in metrics:
        metrics["shared_bytes"] = metrics.pop("shared_bytes_static", 0.0) + metrics.pop("shared_bytes_dynamic", 0.0)
    return {name: metrics[name] for name in sorted(metrics)}


def _executed(instructions: Sequence[ReportedInstruction]) -> dict[str, float]:
    """Return what the instructions add up to, by class and in floating-point operations."""
    if not any(one.executed for one in instructions):
        return {}
    classes: defaultdict[str, float] = defaultdict(float)
    sectors: defaultdict[str, float] = defaultdict(float)
    tensor: defaultdict[str, float] = defaultdict(float)
    scalar = 0.0
    atomic_lanes = 0.0
    for one in instructions:
        mnemonic, modifiers, operands = split(one.sass)
        kind = classify(mnemonic)
        classes[kind] += one.executed
        sectors[kind] += one.sectors
        threads = one.threads if one.threads is not None else one.executed * _LANES
        scalar += lane_flops(mnemonic, operands) * threads
        if kind == "atomic":
            atomic_lanes += threads
        if matrix := warp_flops(mnemonic, modifiers):
            tensor[matrix[1]] += matrix[0] * one.executed
    out = {f"instructions.{kind}": count for kind, count in classes.items() if count}
    out |= {f"tensor_flops.{dtype}": count for dtype, count in tensor.items() if count}
    out["tensor_flops"] = sum(tensor.values())
    out["scalar_flops"] = scalar
    out["flops"] = out["tensor_flops"] + scalar
    out["atomics"] = classes["atomic"]
    out["atomic_lanes"] = atomic_lanes
    loads, stores = ("load_global", "async_copy"), ("store_global",)
    for kinds, name in ((loads, "sectors_per_load"), (stores, "sectors_per_store")):
        requests = sum(classes[kind] for kind in kinds if sectors[kind])
        if requests:
            out[name] = sum(sectors[kind] for kind in kinds) / requests
    return out


def _stalls(launch: ReportedLaunch) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for one in launch.instructions:
        counts.update(one.stalls)
    weights: Mapping[str, float] = counts or launch.stall_ratios
    total = sum(weights.values())
    if total <= 0:
        return {}
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return {word: weight / total for word, weight in ordered if weight > 0}


def _by_line(instructions: Sequence[ReportedInstruction], placed: Sequence[int | None]) -> dict[int, LineCounters]:
    groups: defaultdict[int, list[ReportedInstruction]] = defaultdict(list)
    for one, line in zip(instructions, placed, strict=True):
        if line is not None:
            groups[line].append(one)
    return {line: _line(group) for line, group in sorted(groups.items())}


def _line(group: Sequence[ReportedInstruction]) -> LineCounters:
    stalls: Counter[str] = Counter()
    for one in group:
        stalls.update(one.stalls)
    return LineCounters(
        samples=sum(stalls.values()),
        stalls=dict(sorted(stalls.items(), key=lambda item: (-item[1], item[0]))),
        executed=sum(one.executed for one in group),
        sectors=sum(one.sectors for one in group),
        ideal_sectors=sum(one.ideal_sectors for one in group),
        wavefronts=sum(one.wavefronts for one in group),
        ideal_wavefronts=sum(one.ideal_wavefronts for one in group),
    )


def _missing(launch: ReportedLaunch, stalls: Mapping[str, float], lines: Mapping[int, LineCounters]) -> list[str]:
    out = [
        f"{what}: the report was made without the section {section}"
        for metric, (section, what) in _SECTIONS.items()
        if metric not in launch.metrics
    ]
    if not stalls:
        out.append("stall reasons: the report was made without the sections WarpStateStats and SourceCounters")
    if not launch.instructions:
        out.append("counters per line: the report was made without the section SourceCounters")
    elif not lines:
        out.append("counters per line: the kernel was compiled without line information")
    return out
