"""The gate beside the next round: what a round found is judged while the search goes on from it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tritonforge.jobs.together import ended
from tritonforge.optimize.choosing import measure_at_length
from tritonforge.optimize.exploring import Found, structure_of
from tritonforge.optimize.fairness import seems_unfair
from tritonforge.optimize.search import NOT_TRIED, Attempt, Search
from tritonforge.optimize.shapes import Shaped
from tritonforge.optimize.steps import keep, pass_gate, sanitise
from tritonforge.optimize.worth import gains_too_little, not_better, promises
from tritonforge.verify import Gate


class Judging:
    """What one round found, before the gate, the best first, until one version passes.

    The search goes on from the version that is judged (`Search.best`) in the meantime. When the gate refuses it, what
    the next round has made of it already is given up, and the round's next best takes its place. Leaving the context
    ends what is under way.
    """

    def __init__(self, search: Search, gate: Gate) -> None:
        """Begin with nothing to judge."""
        self._search = search
        self._gate = gate
        self._task: asyncio.Task[None] | None = None
        self._before: Attempt | None = None
        self.reason = ""
        """Why the search ends where the round that was judged last brought nothing."""

    async def __aenter__(self) -> Self:
        """Begin with nothing to judge."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is under way and wait until it has ended."""
        if self._task is not None:
            await ended([self._task])

    @property
    def busy(self) -> bool:
        """Whether a round's versions are being judged."""
        return self._task is not None

    def begin(self, found: Found) -> None:
        """Judge what a round found; the one before must be settled. `Search.best` is its best version at once."""
        self._before = self._search.best
        versions = found.in_order(self._search)
        first = self._next(found, versions)
        self._task = asyncio.create_task(self._judge(found, first, versions))

    async def settled(self) -> None:
        """Wait until nothing is being judged.

        Raises:
            TargetUnreachable: when the worker is gone.
        """
        if self._task is not None:
            await self._task
            self._task = None

    def _next(self, found: Found, versions: Iterator[Attempt]) -> Attempt | None:
        """Return the next version that is worth judging, and go on from it; None where there is none."""
        search = self._search
        search.best = self._before
        for attempt in versions:
            if attempt.decided or search.left_s <= 0:
                continue
            if not promises(search, attempt, self._before):
                if search.measured:
                    return None
                found.below_noise = True  # what comes next may be predicted to be faster, with more rewrites
                continue
            if slower := search.slower_launch(attempt):
                search.drop(attempt, slower, "slower")
                continue
            search.best = attempt
            return attempt
        return None

    async def _judge(self, found: Found, attempt: Attempt | None, versions: Iterator[Attempt]) -> None:
        search = self._search
        while attempt is not None and not await self._stands(attempt, found):
            attempt = self._next(found, versions)
        shaped = found.by_launch.attempt
        if found.by_launch.winners and (shaped is None or search.best is not shaped):
            await self._keep_by_launch(found.by_launch)
        for one in found.versions:
            if one.trial is None and one is not search.best:
                spent = search.left_s <= 0 and search.suggestion is None and promises(search, one, search.best)
                reason = NOT_TRIED if spent else not_better(search, one)
                search.drop(one, reason, "unfinished" if spent else "slower")
        self.reason = found.reason(search)

    async def _stands(self, attempt: Attempt, found: Found) -> bool:
        """Measure a version at length and let the gate judge it; tells whether the search goes on from it.

        What gains less than is offered is not judged: a later version may be made of it, which is judged by itself.
        """
        search = self._search
        if search.measured:
            if not await measure_at_length(search, attempt):
                return False
            if unfair := seems_unfair(attempt, search.allow_slower):
                search.drop(attempt, unfair, "slower")
                search.overtaken = True
                return False
            if not promises(search, attempt, self._before):
                return False
            if gains_too_little(search, attempt):
                return True
        passed = await pass_gate(search, self._gate, attempt)
        if passed and (not search.measured or await sanitise(search, self._gate, attempt)):
            keep(search, attempt)
            return True
        if attempt.trial is not None and attempt.trial.verdict is not None:
            search.overtaken = True
            self._give_up_what_carries(attempt, found)
        return False

    def _give_up_what_carries(self, refused: Attempt, found: Found) -> None:
        """Drop what the next round has made with the rewrites of a refused version; other values alone may be right."""
        search, own = self._search, {id(one) for one in found.versions}
        rewrites = structure_of(refused)
        for one in search.attempts.values() if rewrites else ():
            if not one.decided and one is not self._before and id(one) not in own and rewrites <= structure_of(one):
                search.drop(one, f"not judged: it has what was refused in {refused.candidate.title}")

    async def _keep_by_launch(self, found: Shaped) -> None:
        """Verify what is fastest on some launches alone: no suggestion for all, but a row of a table by size."""
        search = self._search
        for attempt, launches in found.winners:
            if attempt.decided or search.left_s <= 0 or not await pass_gate(search, self._gate, attempt):
                continue
            assert attempt.trial is not None
            reason = f"the fastest on launch {', '.join(launches)} alone"
            attempt.trial = dataclasses.replace(attempt.trial, reason=reason)
            search.remember(attempt, "verified")
