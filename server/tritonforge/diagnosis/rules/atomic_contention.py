"""TF107: atomics that queue up on few addresses."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.finding import evidence, gain_of, microseconds, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.atomics import Contention, contention
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline


def _look(case: Case) -> Iterable[Observation]:
    seen = contention(case)
    if seen is None or is_measured_near_roofline(case) or launch_bound(case) is not None:
        return
    time_us, rest = case.time_us, seen.floor_us
    yield Observation(
        severity="warning",
        range=seen.atomic.range,
        message=_message(seen),
        provenance="measured" if seen.waiting is not None else "derived",
        evidence=evidence(
            ("atomics", seen.operations, "1", "derived"),
            ("addresses", seen.addresses, "1", "compiled"),
            ("atomics_per_address", seen.per_address, "1", "derived"),
            ("atomic_time", seen.atomics_us, "µs", "predicted"),
            ("other_time", seen.floor_us, "µs", "derived"),
            ("stall_samples", seen.waiting, "1", "measured"),
            ("l2_atomic_throughput", metric(case, "l2_atomic_throughput"), "1", "measured"),
        ),
        estimated_gain=gain_of(time_us / rest) if time_us is not None and rest else None,
    )


def _message(seen: Contention) -> str:
    crowd = f"{number(seen.per_address)} atomics go to each address" if seen.per_address is not None else ""
    wait = f"{percent(seen.waiting)} of the stall samples are on the atomics" if seen.waiting is not None else ""
    cost = f"they take about {microseconds(seen.atomics_us)}" if seen.atomics_us is not None else ""
    facts = ", ".join(part for part in (crowd, wait, cost) if part)
    return (
        f"{facts[:1].upper()}{facts[1:]}: reduce within the program first, then add once per program, or write partial "
        'results and add them in a second kernel; sem="relaxed" where no other memory hangs on the order.'
    )


RULE = Rule("TF107", "atomic-contention", "launch", _look)
