"""TF108: each element is accessed at a place of its own that was loaded."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import samples_on
from tritonforge.diagnosis.finding import evidence, percent, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.gathers import Gather, gathers


def _look(case: Case) -> Iterable[Observation]:
    for seen in gathers(case):
        yield Observation(
            severity="information" if seen.share is not None else "hint",
            range=seen.access.range,
            message=_message(seen),
            provenance="derived" if seen.spread is not None else "compiled" if seen.share is not None else "source",
            evidence=evidence(
                ("indexes", ", ".join(seen.access.indexes) or None, "1", "source"),
                ("sectors_per_needed", seen.spread, "1", "derived"),
                ("share_of_traffic", seen.share, "1", "derived"),
                ("stall_samples", samples_on(case, [seen.access.range]), "1", "measured"),
            ),
        )


def _message(seen: Gather) -> str:
    by = ", ".join(f"`{name}`" for name in seen.access.indexes) or "loaded values"
    verb = "gathers" if seen.access.kind == "load" else "scatters"
    share = f" ({percent(seen.share)} of its traffic)" if seen.share is not None else ""
    far = (
        f"the recorded indices touch {times(seen.spread)} the sectors that their elements fill"
        if seen.spread is not None
        else "each may touch a sector of its own"
    )
    return (
        f"This {seen.access.kind} {verb} single elements at places that {by} names{share}: {far}. Sort the indices, "
        "or access a run of neighbours (a row, a pair) at each place."
    )


RULE = Rule("TF108", "gather-scatter", "source", _look)
