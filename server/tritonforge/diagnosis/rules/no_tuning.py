"""TF404: tile sizes that are fixed once and for all, with headroom left."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.tuning import Untuned, untuned


def _look(case: Case) -> Iterable[Observation]:
    seen = untuned(case)
    if seen is None or launch_bound(case) is not None:
        return
    standing = seen.standing
    yield Observation(
        severity="information" if standing is not None and standing.provenance == "measured" else "hint",
        range=case.kernel.name_range,
        message=_message(seen),
        provenance=standing.provenance if standing is not None else "source",
        evidence=evidence(
            ("fixed", ", ".join(f"{name}={text}" for name, text in seen.fixed), "1", "source"),
            (
                "roofline_fraction",
                standing.fraction if standing is not None else None,
                "1",
                standing.provenance if standing is not None else "source",
            ),
        ),
    )


def _message(seen: Untuned) -> str:
    fixed = ", ".join(f"{name}={text}" for name, text in seen.fixed)
    if seen.standing is None:
        return (
            f"{fixed} stay the same for every shape and GPU: nothing chooses them, and nothing checked that they fit."
        )
    how = "reaches" if seen.standing.provenance == "measured" else "is predicted to reach"
    what = "memory bandwidth" if seen.standing.bound == "memory" else "tensor throughput"
    return (
        f"{fixed} are fixed, and this launch {how} {percent(seen.standing.fraction)} of {what}: "
        "try other tiles, num_warps and num_stages, or let @triton.autotune choose."
    )


RULE = Rule("TF404", "no-tuning", "source", _look)
