"""TF101: neighbouring lanes far apart in memory, so that most of each sector is fetched for nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, metric
from tritonforge.diagnosis.finding import evidence, gain_of, line_range, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.coalescing import strided_access
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline


def _look(case: Case) -> Iterable[Observation]:
    seen = strided_access(case)
    if seen is None or is_measured_near_roofline(case):
        return
    kept = 1 - seen.share + seen.share * seen.efficiency
    yield Observation(
        severity="warning",
        range=line_range(case.kernel, seen.line) if seen.line is not None else case.kernel.name_range,
        message=(
            f"Lanes are far apart in memory here: of every {SECTOR}-byte sector fetched {percent(seen.efficiency)} is "
            f"used, and such lines fetch {percent(seen.share)} of the launch's traffic; let neighbouring lanes access "
            "neighbouring elements (another tile axis, another layout, or one wide load that is split in registers)."
        ),
        provenance=seen.provenance,
        evidence=evidence(
            ("sector_efficiency", seen.efficiency, "1", seen.provenance),
            ("share_of_traffic", seen.share, "1", seen.provenance),
            ("sector_bytes", seen.sector_bytes, "bytes", seen.provenance),
            ("used_bytes", seen.used_bytes, "bytes", seen.provenance),
            ("sectors_per_load", metric(case, "sectors_per_load"), "sectors per request", "measured"),
        ),
        estimated_gain=gain_of(1 / kept) if kept > 0 else None,
    )


RULE = Rule("TF101", "uncoalesced-access", "launch", _look)
