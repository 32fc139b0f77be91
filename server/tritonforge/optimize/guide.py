"""One round of a search as a study: structures and values are chosen together, through Optuna's ask-and-tell.

What is refused (by the compiler, by what it says of a version, by the gate) is told as a broken constraint. What an
earlier run found out is told before the first question.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tritonforge.optimize.correction import DOUBT, Point, expected_gain

if TYPE_CHECKING:
    from optuna.trial import Trial

_NEVER = 1e9
"""Told of what cannot run: its constraint decides."""
_KEPT, _BROKEN = -1.0, 1.0


class Guide:
    """Says which version to measure next. Times are in µs; versions go by their place among `points`."""

    def __init__(self, points: Sequence[Point], *, doubt: float = DOUBT) -> None:
        """Begin a study of `points`, none of which is ready yet; `doubt` is the sampler's."""
        # Here, so that nothing of Optuna is loaded where no search runs.
        import optuna

        from tritonforge.optimize.sampler import CorrectedModelSampler

        logging.getLogger("optuna").setLevel(logging.ERROR)
        self._points = list(points)
        self._ready: dict[int, float] = {}
        self._sampler = CorrectedModelSampler(points, lambda: self._ready, doubt=doubt)
        self._study = optuna.create_study(sampler=self._sampler)
        self._asked: dict[int, Trial] = {}
        self._closed: set[int] = set()
        self._best = math.inf

    @property
    def waiting(self) -> int:
        """How many versions are ready and were not asked for."""
        return len(self._open)

    @property
    def _open(self) -> list[int]:
        return [place for place in self._ready if place not in self._asked and place not in self._closed]

    def ready(self, place: int, predicted_us: float, otherwise_us: float) -> None:
        """Say that a version may be asked for; one of which nothing is predicted is taken to be as good as the best."""
        known = predicted_us if math.isfinite(predicted_us) and predicted_us > 0 else otherwise_us
        self._ready[place] = math.log(known if math.isfinite(known) and known > 0 else 1.0)

    def ask(self) -> int | None:
        """Return the version to measure next, None when all that are ready were asked for."""
        if not self._open:
            return None
        trial = self._study.ask(self._sampler.space)
        place = self._sampler.place(trial.params)
        assert place is not None
        self._asked[place] = trial
        return place

    def tell(self, place: int, time_us: float) -> None:
        """Say what a version was measured at: one that was asked for, or one that is known from before."""
        self._best = min(self._best, time_us)
        self.teach(place, time_us)

    def teach(self, place: int, time_us: float) -> None:
        """Say the same of one that no other has to be faster than: it was given up, however fast it is."""
        self._end(place, math.log(time_us), "runs", _KEPT)

    def refuse(self, place: int, constraint: str) -> None:
        """Say that a version broke a constraint."""
        self._end(place, _NEVER, constraint, _BROKEN)

    def gain(self) -> float:
        """Return the greatest share of the best time that any version which is ready is expected to save.

        1 before anything was measured, 0 where nothing is left.
        """
        if not self._open:
            return 0.0
        if not math.isfinite(self._best):
            return 1.0
        expected = expected_gain(self._sampler.belief(self._study), math.log(self._best))
        return 1.0 - math.exp(-max(float(expected[place]) for place in self._open))

    def _end(self, place: int, value: float, constraint: str, broken: float) -> None:
        if place in self._closed:
            return
        self._closed.add(place)
        trial = self._asked.get(place)
        if trial is not None:
            trial.set_constraint(constraint, broken)
            self._study.tell(trial, value)
            return
        from optuna.trial import create_trial

        params = {name: self._points[place].get(name) for name in self._sampler.space}
        self._study.add_trial(
            create_trial(
                params=params, distributions=self._sampler.space, value=value, constraints={constraint: broken}
            )
        )
