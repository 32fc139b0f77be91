"""Engines that take their time, such as a language model: asked beside the search, and what they propose is tried.

Each is asked for one proposal at a time. A proposal is judged by the rules about source before anything of it runs,
then compiled, then verified by the whole gate, then measured. What became of it goes along with the next question.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tritonforge.domain.candidate import Candidate, Trial
from tritonforge.jobs.together import ended
from tritonforge.optimize.choosing import measure_at_length
from tritonforge.optimize.endings import BUDGET_SPENT, NOTHING_IMPROVED
from tritonforge.optimize.fairness import seems_unfair
from tritonforge.optimize.search import NOT_FINISHED, NOT_TRIED, Attempt, Search
from tritonforge.optimize.steps import compile_all, keep, pass_gate, recall, sanitise
from tritonforge.optimize.tasks import attempt_of, task_of, trials_so_far
from tritonforge.optimize.worth import gains_too_little, not_faster, promises
from tritonforge.rewrite import Refusal, Thinker
from tritonforge.verify import Gate
from tritonforge.verify.texts import broken

_TICK_S = 1.0
"""How often a progress display hears of an engine that is being waited for."""
_log = logging.getLogger("tritonforge.optimize")


@dataclass
class _Asked:
    thinker: Thinker
    base: Attempt
    answer: asyncio.Task[Candidate | Refusal]


class Thinking:
    """The questions that are under way. Leaving its context cancels them."""

    def __init__(self, search: Search, gate: Gate) -> None:
        """Ask for versions of what `search` has, and let `gate` judge them."""
        self._search = search
        self._gate = gate
        self._asked: list[_Asked] = []
        self._failed: dict[int, str] = {}

    async def __aenter__(self) -> Self:
        """Begin with nothing asked."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is under way and wait until it has ended."""
        answers = [one.answer for one in self._asked]
        self._asked.clear()
        await ended(answers)

    @property
    def busy(self) -> bool:
        """Whether anything is being waited for."""
        return bool(self._asked)

    @property
    def came(self) -> bool:
        """Whether an answer is there."""
        return any(one.answer.done() for one in self._asked)

    def begin(self) -> None:
        """Ask every engine that is not thinking already and may still be asked, about the best version so far.

        What the gate has not passed is not sent to anyone.
        """
        search = self._search
        for thinker in search.thinkers:
            thinking = any(one.thinker is thinker for one in self._asked)
            if thinking or thinker.over or id(thinker) in self._failed or search.left_s <= 0:
                continue
            best = search.best
            if best is None or not best.passed:
                best = search.kept[-1] if search.kept else None
            base = best or search.original
            task = task_of(search, base)
            if task is None:
                base = search.original
                task = task_of(search, base)
            if task is not None:
                answer = asyncio.create_task(thinker.think(task, trials_so_far(search)))
                self._asked.append(_Asked(thinker, base, answer))

    def ended(self, reason: str) -> str:
        """Return why a search ended whose other engines ended with `reason`."""
        why = [self._failed.get(id(one)) or one.over for one in self._search.thinkers]
        if self._search.left_s <= 0 and not all(why):
            return BUDGET_SPENT
        parts = [f"the model: {one}" for one in why if one]
        return "; ".join([*([reason] if reason else []), *parts]) or NOTHING_IMPROVED

    async def try_what_came(self, *, wait_s: float) -> None:
        """Try every proposal that is there; where none is, wait for one at most that long."""
        search = self._search
        left = max(0.0, wait_s)
        while self._asked and not any(one.answer.done() for one in self._asked) and left > 0:
            search.say("think", "waiting for an answer")
            await asyncio.wait([one.answer for one in self._asked], timeout=min(_TICK_S, left),
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            left = min(left - _TICK_S, search.left_s)
        came = [one for one in self._asked if one.answer.done()]
        self._asked = [one for one in self._asked if not one.answer.done()]
        for one in came:
            attempt = self._attempt(one)
            if attempt is not None:
                await _try(search, self._gate, attempt)

    def _attempt(self, asked: _Asked) -> Attempt | None:
        search = self._search
        error = asked.answer.exception()
        if error is not None:
            # An engine promises not to raise. One that does must not cost the result of the others.
            _log.error("an engine failed", exc_info=error)
            self._failed[id(asked.thinker)] = f"it failed ({type(error).__name__})"
            search.note(f"An engine failed and was not asked again ({type(error).__name__}); see the log.")
            return None
        answer = asked.answer.result()
        if isinstance(answer, Refusal):
            if answer.proposal is not None:
                search.declined.append(
                    Trial(answer.proposal, None, None, reason=f"refused before it ran: {answer.reason}")
                )
            return None
        attempt = attempt_of(search, asked.base, answer)
        if attempt is None:
            search.declined.append(
                Trial(dataclasses.replace(answer, edits=()), None, None, reason="the same as an earlier version")
            )
        else:
            recall(search, attempt)
        return attempt


async def _try(search: Search, gate: Gate, attempt: Attempt) -> None:
    """Judge a proposal, and take it over as the best where it is."""
    if attempt.decided:  # as an earlier run had it
        return
    if search.left_s <= 0:
        search.drop(attempt, NOT_TRIED)
        return
    reason = await asyncio.to_thread(broken, search.subject.program(), search.program(attempt), search.subject.calls)
    if reason:
        search.drop(attempt, f"refused: {reason}", "refused")
        return
    await compile_all(search, [attempt])
    if attempt.trial is not None:
        return
    if not search.measured:
        slower = search.slower_launch(attempt)
        if slower or not promises(search, attempt, search.best):
            search.drop(attempt, slower or f"{not_faster(search, attempt)}, as predicted", "slower")
        elif await pass_gate(search, gate, attempt):
            keep(search, attempt)
        return
    if await pass_gate(search, gate, attempt):
        await _measure(search, gate, attempt)


async def _measure(search: Search, gate: Gate, attempt: Attempt) -> None:
    """Measure a version that passed the gate, and go on from it where it is the best."""
    trial = attempt.trial
    assert trial is not None
    timed = await measure_at_length(search, attempt)
    failed = attempt.trial.reason if attempt.trial is not None and attempt.trial is not trial else ""
    reason = failed or ("" if timed else NOT_FINISHED)
    reason = reason or search.slower_launch(attempt) or seems_unfair(attempt, search.allow_slower)
    if not reason and not promises(search, attempt, search.best):
        reason = not_faster(search, attempt)
    now = search.trial(attempt, reason=reason)
    attempt.trial = dataclasses.replace(now, verdict=trial.verdict, accepted=not reason)
    search.remember(attempt, ("slower" if timed else "unfinished") if reason else "verified")
    if reason:
        return
    if gains_too_little(search, attempt):
        search.best = attempt
    elif await sanitise(search, gate, attempt):
        keep(search, attempt)
