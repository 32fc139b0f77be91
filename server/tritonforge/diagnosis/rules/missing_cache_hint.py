"""TF109: a stream that is read once pushes out of L2 what is read again."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, number, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.cache_hints import missing_hint


def _look(case: Case) -> Iterable[Observation]:
    seen = missing_hint(case)
    if seen is None:
        return
    yield Observation(
        severity="information" if seen.evicted is not None else "hint",
        range=seen.access.range,
        message=(
            f"`{seen.access.pointer}` streams {number(seen.streamed / 1e6)} MB through L2 once, while `{seen.reused}` "
            f"({number(seen.reused_bytes / 1e6)} MB) is read {times(seen.times)} over and would fit: "
            'eviction_policy="evict_first" on the stream leaves the room to it.'
        ),
        provenance="measured" if seen.evicted is not None else "derived",
        evidence=evidence(
            ("streamed_bytes", seen.streamed, "bytes", "derived"),
            ("reused", seen.reused, "1", "source"),
            ("reused_bytes", seen.reused_bytes, "bytes", "derived"),
            ("times_read", seen.times, "1", "derived"),
            ("memory_to_useful_bytes", seen.evicted, "1", "measured"),
        ),
    )


RULE = Rule("TF109", "missing-cache-hint", "launch", _look)
