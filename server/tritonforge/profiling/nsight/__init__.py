"""Nsight Compute reports → `Counters`: one's own runs and files that people already have.

`read_report` gives one `ReportedLaunch` for each profiled launch, in order; `counters_of` turns it into the noun.
"""

from tritonforge.profiling.nsight.counters import counters_of
from tritonforge.profiling.nsight.errors import ReportError
from tritonforge.profiling.nsight.launch import ReportedDevice, ReportedInstruction, ReportedLaunch
from tritonforge.profiling.nsight.read import read_report

__all__ = [
    "ReportError",
    "ReportedDevice",
    "ReportedInstruction",
    "ReportedLaunch",
    "counters_of",
    "read_report",
]
