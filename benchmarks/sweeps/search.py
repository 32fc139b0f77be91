"""A search replayed on recorded times: batches in predicted order, until the model expects nothing more.

It shows what the predictions are worth alone; `bench_search.py` replays the search that corrects them as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.optimize.choosing import AT_ONCE, PER_ROUND
from tritonforge.optimize.worth import may_win


@dataclass(frozen=True)
class Version:
    """One configuration, as `optimize` would see it: its predicted and its measured time in µs."""

    predicted: float
    took: float

    def time_us(self, *, measured: bool) -> float:
        """Return its time."""
        return self.took if measured else self.predicted


@dataclass(frozen=True)
class Search:
    """How many configurations were measured, and the best time in µs among them."""

    measured: int
    best: float


def searched(predicted: Sequence[float], measured: Sequence[float]) -> Search:
    """Search as many versions as one round of `optimize` may, and stop by its rule of what may still win."""
    versions = sorted(map(Version, predicted, measured), key=lambda one: one.predicted)[:PER_ROUND]
    done: list[Version] = []
    while len(done) < len(versions):
        batch = versions[len(done) : len(done) + AT_ONCE]
        if done and not may_win(batch[0], done):
            break
        done += batch
    return Search(len(done), min(one.took for one in done))
