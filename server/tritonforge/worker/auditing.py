"""Collect what a comparison saw of how results come about, refuse what is doubtful, and look once more at the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, CompareResult, InputOutcome
from tritonforge.worker.loading import digest_of
from tritonforge.worker.outcomes import Outputs
from tritonforge.worker.seen import CONFLICTS, HOST, NO_DOUBT, Doubt, doubt_of

if TYPE_CHECKING:
    from tritonforge.worker.interpreter.covering import Cover

_KEPT_BYTES = 256 << 20


@dataclass(frozen=True)
class Compared:
    """One input on which both programs were compared: `call` is the original's, `candidate_call` the candidate's."""

    index: int
    call: Call
    candidate_call: Call
    want: Outputs
    got: Outputs
    outcome: InputOutcome


@dataclass(frozen=True)
class Again:
    """What further runs of a candidate showed: checks as in `CompareResult`, what they refuse it for, and where."""

    checks: tuple[tuple[str, str], ...] = ()
    doubt: Doubt = NO_DOUBT
    index: int = -1
    notes: tuple[str, ...] = ()


Further = Callable[[Compare | CompareOnDevice, Sequence[Compared]], Again]
"""Runs a candidate again, on some of the inputs that both programs agree on."""


class Audit:
    """The honesty checks of one comparison."""

    def __init__(self, request: Compare | CompareOnDevice, further: Further | None) -> None:
        self._request, self._further = request, further
        self._agreed: list[Compared] = []
        self._kept = 0
        self._watched: dict[str, str] = {}
        self._notes: list[str] = []
        self._cover: Cover | None = None
        self._same = digest_of(request.original) == digest_of(request.candidate)

    def met(self, one: Compared) -> InputOutcome:
        """Return the outcome of an input, refused if how its results came about is doubtful."""
        want, got = one.want.seen, one.got.seen
        if got is None or want is None:
            self._keep(one)
            return one.outcome
        if got.cover is not None:
            if self._cover is None:
                self._cover = type(got.cover)()
            self._cover.add(got.cover)
        several = got.programs > 1
        self._watched.setdefault(HOST, "passed")
        if several:
            self._watched.setdefault(CONFLICTS, "passed")
        for conflict in want.conflicts:
            note = f"The original itself has a {conflict.kind} conflict: {conflict.text}"
            if note not in self._notes:
                self._notes.append(note)
        doubt = doubt_of(want, got)
        if not doubt.text:
            self._keep(one)
            return one.outcome
        self._watched[doubt.check] = f"failed: {doubt.text}"
        if one.outcome.status != "equal":
            # What programs do to each other may be why the result is another one.
            return dataclasses.replace(one.outcome, detail=f"{one.outcome.detail}; besides, {doubt.text}")
        return dataclasses.replace(one.outcome, status="different", detail=doubt.text, check=doubt.check)

    def _keep(self, one: Compared) -> None:
        if one.outcome.status != "equal" or not one.outcome.outputs:
            return
        if self._kept + one.got.n_bytes <= _KEPT_BYTES:
            self._kept += one.got.n_bytes
            self._agreed.append(one)

    def result(self, outcomes: list[InputOutcome]) -> CompareResult:
        """Return the result of the comparison, after further runs where nothing was refused so far."""
        refused = any(o.status in {"different", "candidate-failed"} for o in outcomes)
        again = Again()
        if self._further is not None and not self._same and not refused and self._agreed:
            again = self._further(self._request, self._agreed)
            if again.doubt.text:
                found = dataclasses.replace(
                    outcomes[again.index], status="different", detail=again.doubt.text, check=again.doubt.check
                )
                outcomes = [found if i == again.index else o for i, o in enumerate(outcomes)]
        if self._watched:
            why = "no launch has two programs" if self._cover is not None else "only the interpreter sees them"
            self._watched.setdefault(CONFLICTS, f"skipped: {why}")
        coverage: tuple[KernelCoverage, ...] = () if self._cover is None else self._cover.report()
        checks = (*self._watched.items(), *again.checks)
        return CompareResult(tuple(outcomes), checks, coverage, (*self._notes, *again.notes))
