"""Reading what `ncu --import FILE --csv` prints: the pages `raw` and `source`.

The raw page has a row of column names that starts with `ID`, a row of units, and a row for each launch. The source page
has, for each launch, a row `Kernel Name`, a row of column names that starts with `Address`, and a row for each
instruction; with `--print-source cuda,sass` rows `File Path` and `Function Name` come before, and an instruction stands
under every line that it was inlined through. Text around the tables (`==PROF==` lines) is skipped. Columns are found by
name, because each version adds some.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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

_NUMBER = re.compile(r"^[+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?$")
_TRIPLE = re.compile(r"^\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?$")
_COUNTED: Mapping[str, tuple[str, ...]] = {
    "executed": ("Instructions Executed", "inst_executed"),
    "threads": ("Predicated-On Thread Instructions Executed", "thread_inst_executed_true"),
    "sectors": ("L2 Theoretical Sectors Global", "memory_l2_theoretical_sectors_global"),
    "ideal_sectors": ("L2 Theoretical Sectors Global Ideal", "memory_l2_theoretical_sectors_global_ideal"),
    "wavefronts": ("L1 Wavefronts Shared", "memory_l1_wavefronts_shared"),
    "ideal_wavefronts": ("L1 Wavefronts Shared Ideal", "memory_l1_wavefronts_shared_ideal"),
}
"""Fields of `ReportedInstruction` by the columns that they are read from."""


_SAMPLES = "Warp Stall Sampling (All Samples)"


@dataclass
class _Table:
    kernel: str
    rows: list[ReportedInstruction] = field(default_factory=list)


def parse_pages(raw: str, sass: str = "", lines: str = "") -> tuple[ReportedLaunch, ...]:
    """Return the launches of a report from its pages as CSV; what does not parse is left out.

    Args:
        raw: of `--page raw`.
        sass: of `--page source --print-source sass`.
        lines: of `--page source --print-source cuda,sass`, for files and lines.
    """
    launches = list(_launches(raw))
    tables = _tables(sass)
    if not tables:
        return tuple(launches)
    places = _places(lines)
    if len(tables) == len(launches):
        pairs: Sequence[_Table | None] = tables
    else:  # launches without source counters have no table: the rest is matched by name, in order
        left = list(tables)
        pairs = [_take(left, launch.name) for launch in launches]
    return tuple(
        replace(launch, instructions=_placed(table.rows, places)) if table is not None and table.rows else launch
        for launch, table in zip(launches, pairs, strict=True)
    )


def _launches(text: str) -> Iterator[ReportedLaunch]:
    header: list[str] | None = None
    units: list[str] | None = None
    for row in _rows(text):
        if row[0] == "ID":
            header, units = row, None
        elif header is None or len(row) != len(header):
            continue
        elif units is None and not row[0].strip().isdecimal():
            units = row
        else:
            yield _launch(dict(zip(header, row, strict=True)), dict(zip(header, units or [""] * len(row), strict=True)))


def _launch(cells: Mapping[str, str], units: Mapping[str, str]) -> ReportedLaunch:
    def fetch(name: str) -> tuple[float, str] | None:
        value = number(cells.get(name, ""))
        return (value, units.get(name, "")) if value is not None else None

    def triple(text: str, axes: Sequence[str]) -> tuple[int, int, int] | None:
        found = _TRIPLE.match(cells.get(text, "").strip())
        values = [float(part) for part in found.groups()] if found else [number(cells.get(axis, "")) for axis in axes]
        x, y, z = values
        return (int(x), int(y), int(z)) if x is not None and y is not None and z is not None else None

    device = collect(fetch, tuple(DEVICE.values()))
    before, behind = RATIOS
    ratios = {
        reason(name[len(before) : -len(behind)]): value
        for name in cells
        if name.startswith(before) and name.endswith(behind) and (value := number(cells[name])) is not None
    }
    return ReportedLaunch(
        name=_plain_name(cells.get("Kernel Name") or cells.get("launch__kernel_name", "")),
        symbol=cells.get("Kernel Name", ""),
        grid=triple("Grid Size", GRID),
        block=triple("Block Size", BLOCK),
        metrics=collect(fetch),
        stall_ratios=ratios,
        device=ReportedDevice(
            name=cells.get(DEVICE_NAME) or None,
            compute_capability=_capability(cells),
            sms=int(device["sms"]) if "sms" in device else None,
            clock_khz=device.get("clock_khz"),
            memory_khz=device.get("memory_khz"),
            bus_bits=device.get("bus_bits"),
            l2_bytes=device.get("l2_bytes"),
        ),
    )


def _capability(cells: Mapping[str, str]) -> tuple[int, int] | None:
    major, dot, minor = cells.get("CC", "").strip().partition(".")
    if dot and major.isdecimal() and minor.isdecimal():
        return int(major), int(minor)
    parts = [number(cells.get(name, "")) for name in CAPABILITY]
    return (int(parts[0]), int(parts[1])) if parts[0] is not None and parts[1] is not None else None


def _plain_name(text: str) -> str:
    """Return the function's name without what a C++ demangler puts around it."""
    return text.partition("(")[0].split(" ")[-1].strip() if "(" in text else text.strip()


def _tables(text: str) -> list[_Table]:
    tables: list[_Table] = []
    header: list[str] | None = None
    start = 0
    for row in _rows(text):
        if row[0] in {"Kernel Name", "Function Name"} and len(row) > 1:
            tables.append(_Table(_plain_name(row[1])))
            header = None
        elif row[0].lstrip("# ") in {"Address", "PC"}:
            header = row
            if not tables or tables[-1].rows:
                tables.append(_Table(""))
        elif header is not None and tables and len(row) == len(header) and (address := _address(row[0])) is not None:
            rows = tables[-1].rows
            start = address if not rows else start
            rows.append(_instruction(header, row, address - start))
    return tables


def _instruction(header: Sequence[str], row: Sequence[str], address: int) -> ReportedInstruction:
    first: dict[str, str] = {}
    stalls: dict[str, int] = {}
    for name, cell in zip(header, row, strict=True):
        first.setdefault(name, cell)
        raw_sample = name.startswith(SAMPLES) and not name.endswith("_not_issued")
        if raw_sample or (name.startswith("stall_") and "(" not in name and not name.endswith("_not_issued")):
            count = number(cell)
            if count:
                stalls[reason(name)] = stalls.get(reason(name), 0) + int(count)
    total = number(first.get(_SAMPLES, ""))
    if total is not None and total > sum(stalls.values()):
        # These pages have no column for waiting on other warps of the warpgroup, only for the sum of all reasons.
        word = (
            "warpgroup_arrive"
            if "GMMA" in first.get("Source", "") or "WARPGROUP" in first.get("Source", "")
            else "misc"
        )
        stalls[word] = stalls.get(word, 0) + int(total) - sum(stalls.values())
    counted = {
        name: next((value for column in columns if (value := number(first.get(column, ""))) is not None), None)
        for name, columns in _COUNTED.items()
    }
    return ReportedInstruction(
        address=address,
        sass=" ".join((first.get("Source") or first.get("SASS") or "").split()),
        executed=counted["executed"] or 0.0,
        threads=counted["threads"],
        stalls=stalls,
        sectors=counted["sectors"] or 0.0,
        ideal_sectors=counted["ideal_sectors"] or 0.0,
        wavefronts=counted["wavefronts"] or 0.0,
        ideal_wavefronts=counted["ideal_wavefronts"] or 0.0,
    )


def _places(text: str) -> dict[str, list[dict[int, list[tuple[str, int]]]]]:
    """Return, by kernel, for each of its tables in turn: the frames of each instruction by its address.

    Addresses are relative to the first of the kernel.
    """
    found: defaultdict[str, defaultdict[int, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    file, kernel, line = "", "", 0
    header: list[str] | None = None
    for row in _rows(text):
        if row[0] == "File Path" and len(row) > 1:
            file, header = row[1], None
        elif row[0] in {"Kernel Name", "Function Name"} and len(row) > 1:
            kernel, header = _plain_name(row[1]), None
        elif row[0].lstrip("# ") in {"Line No", "Line"}:
            header = row
        elif header is not None and len(row) == len(header):
            line = int(row[0]) if row[0].strip().isdecimal() else line
            column = next((i for i, name in enumerate(header) if name.lstrip("# ") == "Address"), None)
            address = _address(row[column]) if column is not None else None
            if address is not None and line and (file, line) not in found[kernel][address]:
                found[kernel][address].append((file, line))
    out: dict[str, list[dict[int, list[tuple[str, int]]]]] = {}
    for name, by_address in found.items():
        out[name] = [{address - min(by_address): frames for address, frames in by_address.items()}]
    return out


def _placed(
    rows: Sequence[ReportedInstruction], places: Mapping[str, list[dict[int, list[tuple[str, int]]]]]
) -> tuple[ReportedInstruction, ...]:
    known = [table for tables in places.values() for table in tables]
    own = next((table for table in known if table and max(table) == rows[-1].address), None)
    if own is None:
        return tuple(rows)
    return tuple(
        replace(row, file=frames[0][0], line=frames[0][1], frames=tuple(frames))
        if (frames := own.get(row.address))
        else row
        for row in rows
    )


def _take(tables: list[_Table], kernel: str) -> _Table | None:
    for index, table in enumerate(tables):
        if table.kernel == kernel:
            return tables.pop(index)
    return None


def _address(text: str) -> int | None:
    cleaned = text.strip().strip("/*")
    try:
        return int(cleaned, 16) if cleaned.startswith("0x") or text.startswith("/*") else None
    except ValueError:
        return None


def number(text: str) -> float | None:
    """Return the number in a cell: thousands are separated by commas; `-`, `n/a`, `nan` and the empty cell are none."""
    cleaned = text.strip()
    if not _NUMBER.match(cleaned):
        return None
    return float(cleaned.replace(",", ""))


def _rows(text: str) -> Iterator[list[str]]:
    # A sentence of ncu's with a lone quote must not swallow the table behind it.
    table = "\n".join(line for line in text.splitlines() if line.startswith('"'))
    try:
        for row in csv.reader(io.StringIO(table)):
            if row:
                yield row
    except csv.Error:
        return
