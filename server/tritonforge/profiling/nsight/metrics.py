"""The numbers we take from Nsight Compute: our name ← theirs, the unit, and since when theirs exists.

Shares are 0–1, bytes plain bytes, times µs. Where a name has several sources, the first one that was collected wins:
chips and versions name the same thing differently (see "Metrics Reference" in NVIDIA's Kernel Profiling Guide).

`counters` adds what follows from the instructions: `instructions.<class>` (warp instructions executed, classes as in
`domain.instructions`), `flops` and `tensor_flops` (a multiply-add counts 2), `atomics` (warp instructions),
`dram_bytes` where only its rate was collected, `excess_global_sectors` and `excess_shared_wavefronts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["us", "share", "byte", "byte/s", "hz", "cycle", "count", "ratio", "khz", "bit"]


@dataclass(frozen=True)
class Metric:
    """One number: our `name`, its `unit`, the metrics it may come from, and since which chip or version they exist."""

    name: str
    unit: Unit
    sources: tuple[str, ...]
    since: str = "Volta"


_SUSTAINED = "pct_of_peak_sustained_elapsed"
_ACTIVE = "pct_of_peak_sustained_active"


def _pipe(name: str, *more: str) -> tuple[str, ...]:
    return (
        f"sm__pipe_{name}_cycles_active.avg.{_ACTIVE}",
        f"sm__inst_executed_pipe_{name}.avg.{_ACTIVE}",
        f"sm__pipe_{name}_cycles_active.avg.{_SUSTAINED}",
        f"sm__inst_executed_pipe_{name}.avg.{_SUSTAINED}",
        *more,
    )


METRICS: tuple[Metric, ...] = (
    Metric("time_us", "us", ("gpu__time_duration.sum", "gpu__time_duration.avg")),
    # Shares of what the hardware could do.
    Metric("sm_throughput", "share", (f"sm__throughput.avg.{_SUSTAINED}",)),
    Metric("memory_throughput", "share", (f"gpu__compute_memory_throughput.avg.{_SUSTAINED}",)),
    Metric(
        "dram_throughput", "share", (f"gpu__dram_throughput.avg.{_SUSTAINED}", f"dram__throughput.avg.{_SUSTAINED}")
    ),
    Metric("l2_throughput", "share", (f"lts__throughput.avg.{_SUSTAINED}",)),
    Metric("l1_throughput", "share", (f"l1tex__throughput.avg.{_ACTIVE}", f"l1tex__throughput.avg.{_SUSTAINED}")),
    Metric("l2_atomic_throughput", "share", (f"lts__d_atomic_input_cycles_active.avg.{_SUSTAINED}",)),
    # Memory.
    Metric("dram_read_bytes", "byte", ("dram__bytes_read.sum",)),
    Metric("dram_written_bytes", "byte", ("dram__bytes_write.sum",)),
    Metric("dram_bytes", "byte", ("dram__bytes.sum",)),
    Metric("dram_bytes_per_second", "byte/s", ("dram__bytes.sum.per_second",)),
    Metric("l1_hit_rate", "share", ("l1tex__t_sector_hit_rate.pct",)),
    Metric("l2_hit_rate", "share", ("lts__t_sector_hit_rate.pct",)),
    Metric("sectors_per_load", "ratio", ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",)),
    Metric("sectors_per_store", "ratio", ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",)),
    Metric("global_sectors", "count", ("memory_l2_theoretical_sectors_global",), "2020.1"),
    Metric("ideal_global_sectors", "count", ("memory_l2_theoretical_sectors_global_ideal",), "2020.1"),
    Metric("local_sectors", "count", ("memory_l2_theoretical_sectors_local",), "2020.1"),
    Metric("shared_wavefronts", "count", ("memory_l1_wavefronts_shared",), "2020.1"),
    Metric("ideal_shared_wavefronts", "count", ("memory_l1_wavefronts_shared_ideal",), "2020.1"),
    Metric("bank_conflicts", "count", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",)),
    Metric("spill_instructions", "count", ("sass__inst_executed_register_spilling",), "2024.3"),
    Metric("l2_atomic_sectors", "count", ("lts__t_sectors_op_atom.sum",)),
    Metric("l2_reduction_sectors", "count", ("lts__t_sectors_op_red.sum",)),
    # Pipelines, as shares of the cycles in which an SM was active.
    Metric("tensor_active", "share", _pipe("tensor", f"sm__inst_executed_pipe_tensor.avg.{_ACTIVE}")),
    Metric("fma_active", "share", _pipe("fma")),
    Metric("alu_active", "share", _pipe("alu")),
    Metric("xu_active", "share", _pipe("xu")),
    Metric("lsu_active", "share", _pipe("lsu")),
    Metric("fp64_active", "share", _pipe("fp64")),
    Metric("tma_active", "share", _pipe("tma"), "Hopper"),
    # Schedulers and warps.
    Metric("issue_active", "share", (f"smsp__issue_active.avg.{_ACTIVE}", f"sm__issue_active.avg.{_SUSTAINED}")),
    Metric("ipc", "ratio", ("sm__inst_executed.avg.per_cycle_active",)),
    Metric("eligible_warps", "ratio", ("smsp__warps_eligible.avg.per_cycle_active",)),
    Metric("active_warps", "ratio", ("smsp__warps_active.avg.per_cycle_active",)),
    Metric("occupancy", "share", (f"sm__warps_active.avg.{_ACTIVE}",)),
    Metric("theoretical_occupancy", "share", ("sm__maximum_warps_per_active_cycle_pct",)),
    Metric(
        "warp_latency",
        "cycle",
        ("smsp__average_warp_latency_per_inst_issued.ratio", "smsp__average_warps_active_per_issue_active.ratio"),
    ),
    Metric("lanes", "ratio", ("smsp__thread_inst_executed_per_inst_executed.ratio",)),
    Metric("unmasked_lanes", "ratio", ("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",)),
    Metric("branch_efficiency", "share", ("smsp__sass_average_branch_targets_threads_uniform.pct",)),
    Metric("divergent_branches", "count", ("smsp__sass_branch_targets_threads_divergent.sum",)),
    Metric("instructions", "count", ("smsp__inst_executed.sum", "inst_executed")),
    Metric("branches", "count", ("smsp__inst_executed_op_branch.sum",)),
    Metric("sm_cycles", "cycle", ("sm__cycles_active.avg",)),
    Metric("sm_cycles_least", "cycle", ("sm__cycles_active.min",)),
    Metric("sm_cycles_most", "cycle", ("sm__cycles_active.max",)),
    Metric(
        "elapsed_cycles", "cycle", ("gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.max")
    ),
    Metric(
        "sm_clock",
        "hz",
        (
            "gpc__cycles_elapsed.avg.per_second",
            "smsp__cycles_elapsed.avg.per_second",
            "sm__cycles_elapsed.avg.per_second",
        ),
    ),
    # The launch.
    Metric("registers", "count", ("launch__registers_per_thread",)),
    Metric("shared_bytes_static", "byte", ("launch__shared_mem_per_block_static",)),
    Metric("shared_bytes_dynamic", "byte", ("launch__shared_mem_per_block_dynamic",)),
    Metric("waves_per_sm", "ratio", ("launch__waves_per_multiprocessor",)),
    Metric("programs_by_registers", "count", ("launch__occupancy_limit_registers",)),
    Metric("programs_by_shared", "count", ("launch__occupancy_limit_shared_mem",)),
    Metric("programs_by_warps", "count", ("launch__occupancy_limit_warps",)),
    Metric("programs_by_blocks", "count", ("launch__occupancy_limit_blocks",)),
    Metric("sms", "count", ("launch__sm_count",), "2022.1"),
)
"""Every metric that a report may give."""

GRID = tuple(f"launch__grid_dim_{axis}" for axis in "xyz")
BLOCK = tuple(f"launch__block_dim_{axis}" for axis in "xyz")

DEVICE: Mapping[str, Metric] = {
    "sms": Metric("sms", "count", ("device__attribute_multiprocessor_count", "launch__sm_count")),
    "clock_khz": Metric(
        "clock_khz", "khz", ("device__attribute_max_gpu_frequency_khz", "device__attribute_clock_rate")
    ),
    "memory_khz": Metric(
        "memory_khz", "khz", ("device__attribute_max_mem_frequency_khz", "device__attribute_memory_clock_rate")
    ),
    "bus_bits": Metric("bus_bits", "bit", ("device__attribute_global_memory_bus_width",)),
    "l2_bytes": Metric("l2_bytes", "byte", ("device__attribute_l2_cache_size",)),
}
"""Attributes of the GPU by the field of `ReportedDevice` they fill."""
DEVICE_NAME = "device__attribute_display_name"
CAPABILITY = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")

SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
"""Samples at an instruction: a reason follows."""
RATIOS = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
"""Warps stalled per issued instruction: the reason stands between."""

_REASONS = {
    # As the CSV pages and CUPTI shorten them, and as chips rename them → one word for each.
    "branch_resolve": "branch_resolving",
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instructions",
    "no_instruction": "no_instructions",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
    "gmma": "warpgroup_arrive",
    "warpgroup_arrive": "warpgroup_arrive",
}


def reason(text: str) -> str:
    """Return the stable short word for a stall reason: `stall_long_sb` → `long_scoreboard`."""
    word = text.strip().lower().removeprefix(SAMPLES).removeprefix("smsp__pcsamp_").removeprefix("stalled_")
    word = word.removeprefix("stall_").removeprefix("issue_stalled_")
    return _REASONS.get(word, word)


_SCALES: Mapping[str, float] = {
    "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12, "kibyte": 1024.0, "mibyte": 1048576.0,
    "byte/s": 1.0, "kbyte/s": 1e3, "mbyte/s": 1e6, "gbyte/s": 1e9, "tbyte/s": 1e12,
    "byte/ns": 1e9, "byte/us": 1e6,
    "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9, "cycle/s": 1.0, "cycle/ns": 1e9, "cycle/us": 1e6,
    "byte/block": 1.0, "kbyte/block": 1e3, "mbyte/block": 1e6,
}  # fmt: skip
"""Factors to µs, bytes, bytes/s and Hz by the unit a report gives, lower case, `second` shortened."""


def scaled(value: float, unit: str, wanted: Unit) -> float | None:
    """Bring a value of a report to the unit that we keep; None when it is no number."""
    if not math.isfinite(value):
        return None
    if wanted == "share":
        return value / 100.0
    if wanted in {"us", "byte", "byte/s", "hz"}:
        short = unit.strip().lower().replace("nsecond", "ns").replace("usecond", "us").replace("/second", "/s")
        default = 1e-3 if wanted == "us" else 1.0
        return value * _SCALES.get(short, default)
    return value


def collect(
    fetch: Callable[[str], tuple[float, str] | None], metrics: tuple[Metric, ...] = METRICS
) -> dict[str, float]:
    """Return every metric that was collected, by our names; `fetch` gives the value and unit of one of theirs."""
    found: dict[str, float] = {}
    for metric in metrics:
        for source in metric.sources:
            raw = fetch(source)
            value = scaled(raw[0], raw[1], metric.unit) if raw is not None else None
            if value is not None:
                found[metric.name] = value
                break
    return found
