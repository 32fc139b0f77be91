"""Reading a report through NVIDIA's `ncu_report` module.

Values are in base units there: ns, bytes, Hz. A metric is never asked for its unit: the module of Nsight Compute 2025.3
crashes the process where a metric has none. It is native code, so only `isolated` calls this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tritonforge.profiling.nsight.launch import ReportedDevice, ReportedInstruction, ReportedLaunch
from tritonforge.profiling.nsight.metrics import (
    BLOCK,
    CAPABILITY,
    DEVICE,
    DEVICE_NAME,
    GRID,
    RATIOS,
    SAMPLES,
    collect,
    reason,
)

Wanted = Callable[[str], bool]
"""Tells by a function's name whether its instructions are wanted."""

_PER_INSTRUCTION = {
    "executed": "inst_executed",
    "threads": "thread_inst_executed_true",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}
"""Fields of `ReportedInstruction` and the metrics whose instances are per instruction."""


def read_with_module(module: ModuleType, path: Path, wanted: Wanted) -> tuple[ReportedLaunch, ...]:
    """Return the launches of the report, in order; none when the module cannot make sense of the file.

    A report that is cut off ends in launches without a name. The instructions of a launch that is not `wanted` are left
    out: disassembling is what takes long.

    Raises:
        OSError: the file cannot be opened.
    """
    context = module.load_report(str(path))
    return tuple(
        _launch(action, detailed=wanted(action.name())) if action.name() else ReportedLaunch("")
        for action in _actions(context)
    )


def _actions(context: Any) -> Iterator[Any]:
    for index in range(context.num_ranges()):
        profiled = context.range_by_idx(index)
        for number in range(profiled.num_actions()):
            yield profiled.action_by_idx(number)


def _launch(action: Any, *, detailed: bool) -> ReportedLaunch:
    names = tuple(action.metric_names())
    known = frozenset(names)

    def fetch(name: str) -> tuple[float, str] | None:
        if name not in known:
            return None
        metric = action.metric_by_name(name)
        value = metric.value() if metric is not None else None
        if not isinstance(value, (int, float)):
            return None
        return float(value), ""

    def text(name: str) -> str | None:
        value = action.metric_by_name(name).value() if name in known else None
        return value if isinstance(value, str) and value else None

    def triple(axes: Sequence[str]) -> tuple[int, int, int] | None:
        values = [fetch(axis) for axis in axes]
        return tuple(int(value[0]) for value in values if value) if all(values) else None  # type: ignore[return-value]

    device = collect(fetch, tuple(DEVICE.values()))
    capability = [fetch(name) for name in CAPABILITY]
    before, behind = RATIOS
    return ReportedLaunch(
        name=action.name(),
        symbol=_symbol(action),
        grid=triple(GRID),
        block=triple(BLOCK),
        metrics=collect(fetch),
        stall_ratios={
            reason(name[len(before) : -len(behind)]): value[0]
            for name in names
            if name.startswith(before) and name.endswith(behind) and (value := fetch(name))
        },
        device=ReportedDevice(
            name=text(DEVICE_NAME),
            compute_capability=(int(capability[0][0]), int(capability[1][0]))
            if capability[0] and capability[1]
            else None,
            sms=int(device["sms"]) if "sms" in device else None,
            clock_khz=device.get("clock_khz"),
            memory_khz=device.get("memory_khz"),
            bus_bits=device.get("bus_bits"),
            l2_bytes=device.get("l2_bytes"),
        ),
        instructions=_instructions(action, names) if detailed else (),
        ranges=_ranges(action),
    )


def _symbol(action: Any) -> str:
    try:
        return str(action.name(action.NameBase_MANGLED))
    except (AttributeError, TypeError, ValueError):
        return str(action.name())


def _ranges(action: Any) -> tuple[str, ...]:
    try:
        state = action.nvtx_state()
        if state is None:
            return ()
        return tuple(str(name) for key in state.domains() for name in state.domain_by_id(key).push_pop_ranges())
    except (AttributeError, TypeError, ValueError):
        return ()  # an older interface; ranges are for people's eyes only


def _instructions(action: Any, names: Sequence[str]) -> tuple[ReportedInstruction, ...]:
    known = frozenset(names)
    values = {field: _instances(action, name) for field, name in _PER_INSTRUCTION.items() if name in known}
    stalls: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for name in names:
        if not name.startswith(SAMPLES) or name.endswith("_not_issued"):
            continue
        word = reason(name)
        for pc, count in _instances(action, name).items():
            if count:
                stalls[pc][word] = stalls[pc].get(word, 0) + int(count)
    addresses = sorted({*stalls, *(pc for column in values.values() for pc in column), *_addresses(action, names)})
    if not addresses:
        return ()
    start = addresses[0]
    return tuple(_instruction(action, pc, start, values, stalls.get(pc, {})) for pc in addresses)


def _instruction(
    action: Any, pc: int, start: int, values: dict[str, dict[int, float]], stalls: dict[str, int]
) -> ReportedInstruction:
    place = action.source_info(pc)
    threads = values.get("threads")
    return ReportedInstruction(
        address=pc - start,
        sass=" ".join((action.sass_by_pc(pc) or "").split()),
        file=place.file_name() or None if place else None,
        line=place.line() or None if place else None,
        executed=values.get("executed", {}).get(pc, 0.0),
        threads=threads.get(pc) if threads is not None else None,
        stalls=stalls,
        sectors=values.get("sectors", {}).get(pc, 0.0),
        ideal_sectors=values.get("ideal_sectors", {}).get(pc, 0.0),
        wavefronts=values.get("wavefronts", {}).get(pc, 0.0),
        ideal_wavefronts=values.get("ideal_wavefronts", {}).get(pc, 0.0),
    )


def _addresses(action: Any, names: Sequence[str]) -> list[int]:
    """Return the addresses of all instructions, those that were never executed included."""
    metric = action.metric_by_name("inst_executed") if "inst_executed" in names else None
    if metric is None or not metric.has_correlation_ids():
        return []
    ids = metric.correlation_ids()
    return [ids.as_uint64(index) for index in range(metric.num_instances())]


def _instances(action: Any, name: str) -> dict[int, float]:
    """Return the values of one metric by the address of the instruction they were counted at."""
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids() or metric.value() == 0:
        return {}  # most stall reasons never occur: reading thousands of zeros takes seconds
    ids = metric.correlation_ids()
    out: dict[int, float] = {}
    for index in range(metric.num_instances()):
        value = metric.value(index)
        if isinstance(value, (int, float)):
            pc = ids.as_uint64(index)
            out[pc] = out.get(pc, 0.0) + value
    return out
