"""The sampler of a search, for Optuna: of all versions that are ready, the one that the corrected model likes best.

This module imports Optuna, and is imported where a search runs alone (`guide`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tritonforge.optimize.correction import DOUBT, Belief, Point, Value, corrected, steps_between

Prior = Callable[[], Mapping[int, float]]
"""Gives the logarithm of the predicted time of each point that may be proposed now, by its place."""


def space_of(points: Sequence[Point]) -> dict[str, BaseDistribution]:
    """Return the choices that `points` are made of, each with the values that occur."""
    names = list(dict.fromkeys(name for point in points for name in point))
    return {name: CategoricalDistribution(tuple(dict.fromkeys(point.get(name) for point in points))) for name in names}


def feasible(trial: FrozenTrial) -> bool:
    """Tell whether a trial broke none of its constraints."""
    return all(value <= 0 for value in trial.constraints.values())


class CorrectedModelSampler(BaseSampler):
    """Proposes whole points of a list, never a combination that is not in it.

    The mean of a Gaussian process on the model's error is added to what the model predicts; the least is proposed.
    Trials that broke a constraint teach nothing about time, and no point is proposed twice.
    """

    def __init__(self, points: Sequence[Point], prior: Prior, *, doubt: float = DOUBT) -> None:
        """Propose among `points`, those for which `prior` knows a prediction at that moment."""
        self.space = space_of(points)
        self._places = {self._key(point): place for place, point in enumerate(points)}
        self._points = list(points)
        self._steps = steps_between(points)
        self._prior = prior
        self._doubt = doubt

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return all choices: they are made together."""
        del study, trial
        return self.space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of the best point that is ready and was not asked for before."""
        del search_space
        prior = self._prior()
        others = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
        taken = {self.place(one.params) for one in others}
        open_ = [place for place in prior if place not in taken]
        if not open_:
            raise LookupError("every version that is ready was asked for")
        belief = self.belief(study)
        score = belief.mean - self._doubt * belief.deviation
        chosen = self._points[min(open_, key=lambda place: (score[place], place))]
        return {name: chosen.get(name) for name in self.space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value for a choice that no point has: there is none to prefer."""
        del study, trial, param_name
        if not isinstance(param_distribution, CategoricalDistribution):
            raise TypeError("only categorical choices are made here")
        return param_distribution.choices[0]

    def belief(self, study: Study) -> Belief:
        """Return what is expected of every point after all that the study was told."""
        prior = self._prior()
        told = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        times = [(self.place(one.params), one.value) for one in told if feasible(one)]
        known = {place: value for place, value in times if place is not None and place in prior and value is not None}
        seen = list(known)
        # What is not ready is taken for hopeless; nobody asks what is expected of it.
        predicted = np.array([prior.get(place, np.inf) for place in range(len(self._points))])
        return corrected(self._steps, predicted, seen, [known[place] for place in seen])

    def place(self, params: Mapping[str, Value]) -> int | None:
        """Return which point has these values."""
        return self._places.get(self._key(params))

    def _key(self, values: Point) -> tuple[Value, ...]:
        return tuple(values.get(name) for name in self.space)
