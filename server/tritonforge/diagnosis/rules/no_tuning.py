"""TF404: tile sizes that are fixed once and for all, with headroom left."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.classify import classify
from tritonforge.diagnosis.finding import evidence, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.tuning import Untuned, untuned
from tritonforge.domain.finding import BottleneckClass

_TUNING_MAY_HELP: frozenset[BottleneckClass] = frozenset(
    {"unknown", "dram-bandwidth", "l2-bandwidth", "shared-memory", "tensor-core", "latency", "low-occupancy"}
)
"""Bottlenecks without a named cause: where there is one, another rule says what to do about it."""


def _look(case: Case) -> Iterable[Observation]:
    seen = untuned(case)
    judged = case.compiled is not None or case.counters is not None
    if seen is None or (judged and classify(case).kind not in _TUNING_MAY_HELP):
        return
    standing = seen.standing
    yield Observation(
        severity="information" if standing is not None and standing.provenance == "measured" else "hint",
        range=case.kernel.name_range,
        message=_message(seen),
        provenance=standing.provenance if standing is not None else "source",
        evidence=evidence(
            ("fixed", _fixed(seen), "1", "source"),
            (
                "roofline_fraction",
                standing.fraction if standing is not None else None,
                "1",
                standing.provenance if standing is not None else "source",
            ),
        ),
    )


def _message(seen: Untuned) -> str:
    if seen.standing is None:
        return (
            f"Every launch fixes {_fixed(seen)}, whatever the shape and the GPU, and nothing checks that it fits them."
        )
    how = "reaches" if seen.standing.provenance == "measured" else "is predicted to reach"
    what = "memory bandwidth" if seen.standing.bound == "memory" else "tensor throughput"
    return (
        f"Every launch fixes {_fixed(seen)}, and this one {how} {percent(seen.standing.fraction)} of {what}: "
        "try other tiles, num_warps and num_stages, or let @triton.autotune choose."
    )


def _fixed(seen: Untuned) -> str:
    return ", ".join(f"{name}={text}" for name, text in seen.fixed)


RULE = Rule("TF404", "no-tuning", "source", _look)
