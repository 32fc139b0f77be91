"""What one round finds: proposed, compiled, measured, and in the order in which the gate is to judge it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tritonforge.optimize.choosing import Round, simplest_first
from tritonforge.optimize.endings import BELOW_NOISE, BUDGET_SPENT, NOTHING_IMPROVED, NOTHING_TO_TRY
from tritonforge.optimize.search import LAUNCH_PARAMETERS, NOT_FINISHED, NOT_MEASURED, NOT_TRIED, Attempt, Search
from tritonforge.optimize.shapes import Shaped, by_shape
from tritonforge.optimize.steps import Compiling, propose
from tritonforge.rewrite import RuleEngine
from tritonforge.rewrite.structural import REWRITES


@dataclass
class Found:
    """The versions of one round.

    `by_launch` is what is fastest launch by launch, where that is not one version. `ended` says why there is nothing to
    judge; it is empty where there is. `below_noise`: the round ended because no version that was left was expected to
    gain more than noise.
    """

    proposed: Sequence[Attempt] = ()
    by_launch: Shaped = field(default_factory=Shaped)
    study: Round | None = None
    below_noise: bool = False
    ended: str = ""

    def in_order(self, search: Search) -> Iterator[Attempt]:
        """Yield versions in the order in which to verify them: as they were measured, or as the study asks for them."""
        if self.by_launch.attempt is not None:
            yield self.by_launch.attempt
        if search.measured:
            yield from simplest_first([one for one in self.proposed if one.trial is None], measured=True)
            return
        while self.study is not None and (attempt := self.study.next_predicted()) is not None:
            yield attempt

    @property
    def versions(self) -> list[Attempt]:
        """All of them."""
        shaped = self.by_launch.attempt
        return [*self.proposed, *([shaped] if shaped is not None else [])]

    def reason(self, search: Search) -> str:
        """Return why a search ends that this round did not improve."""
        if self.ended:
            return self.ended
        unfinished = {NOT_TRIED, NOT_FINISHED}
        if search.more_to_propose or any(one.trial and one.trial.reason in unfinished for one in self.proposed):
            return BUDGET_SPENT
        return BELOW_NOISE if self.below_noise else NOTHING_IMPROVED


def structure_of(attempt: Attempt) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return what a version changes beside values of the launch."""
    return {one for one in attempt.candidate.rewrites if one[0] != LAUNCH_PARAMETERS}


def overtaken(search: Search) -> list[Attempt]:
    """Return what was left unmeasured for being slower than a version that the search had to give up.

    What has the rewrites of a refused version is not among it.
    """
    if not search.overtaken:
        return []
    trials = [(one, one.trial) for one in search.attempts.values() if one.trial is not None]
    refused = [structure_of(one) for one, trial in trials if trial.verdict is not None and not trial.verdict.accepted]
    return [
        one
        for one, trial in trials
        if trial.reason == NOT_MEASURED and not any(rewrites and rewrites <= structure_of(one) for rewrites in refused)
    ]


def _nothing(search: Search) -> str:
    looked = f"{len(REWRITES)} structural rewrites were looked at beside the launch parameters"
    but = "; why not those that would have been worth it is said here" if search.refusals else ""
    return f"{looked}, and none can be made of {search.subject.kernel.name}{but}."


async def explore(search: Search) -> Found:
    """Propose, compile, and measure what may be better than the best version so far."""
    async with Compiling(search) as compiling:
        proposed = await propose(search, compiling)
        again = overtaken(search)
        search.overtaken = False
        for attempt in again:
            attempt.trial = None
        proposed += again
        if not proposed:
            nothing = NOTHING_IMPROVED if search.attempts else NOTHING_TO_TRY
            rules = any(isinstance(engine, RuleEngine) for engine in search.engines)
            if rules and nothing == NOTHING_TO_TRY and not search.more_to_propose:
                search.note(_nothing(search))
            return Found(ended=BUDGET_SPENT if search.more_to_propose else nothing)
        study = await Round.of(search, proposed, compiling)
        if search.measured:
            await study.measure()
        else:
            await study.compile()
    by_launch = await by_shape(search, [one for one in proposed if one.trial is None])
    return Found(proposed, by_launch, study, study.below_noise)
