"""What has been found out about kernels, with the code it was found on; kept while the server runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tritonforge.backend.facts import CodeState, KernelFacts, LaunchFacts, state_of
from tritonforge.domain.candidate import Candidate, Suggestion
from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import Edit, Position, Range
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.moving import moved_edits, moved_line


@dataclass(frozen=True)
class Offer:
    """A verified suggestion for a kernel as it stood in `text`.

    `portable` is the same as a choice of an autotuner, where that can be written; no verdict speaks of it yet.
    `applied` is the state of the kernel's code that it leads to. `others` are the texts of other files that it changes,
    as they were when it was verified.
    """

    id: str
    kernel: Kernel
    text: str
    suggestion: Suggestion
    portable: Candidate | None = None
    applied: CodeState | None = None
    others: tuple[tuple[str, str], ...] = ()

    def edits_for(self, snapshot: Snapshot) -> tuple[Edit, ...] | None:
        """Return its edits for the document as it is now; None when what was verified is no longer there.

        Both must hold: the kernel and its host functions are what the verdict speaks of, and the edited lines are
        unchanged.
        """
        return self._moved(self.suggestion.trial.candidate, snapshot)

    def portable_edits_for(self, snapshot: Snapshot) -> tuple[Edit, ...] | None:
        """Return the edits of its portable form in the same way; None also where there is no such form."""
        return self._moved(self.portable, snapshot) if self.portable is not None else None

    def _moved(self, candidate: Candidate, snapshot: Snapshot) -> tuple[Edit, ...] | None:
        kernel = snapshot.kernel(self.kernel.name)
        if kernel is None or state_of(kernel) != state_of(self.kernel):
            return None
        edits = tuple(edit for edit in candidate.edits if edit.file == snapshot.file)
        if {edit.file for edit in candidate.edits} - {snapshot.file} - dict(self.others).keys():
            return None
        return moved_edits(edits, self.text, snapshot.text)


class Facts:
    """The newest facts and offer for each kernel of each document. `generation` rises with every change."""

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self.generation = 0
        self._kernels: dict[tuple[str, str], KernelFacts] = {}
        self._offers: dict[tuple[str, str], Offer] = {}
        self._words: dict[tuple[str, str], tuple[object, str]] = {}
        self._searches: dict[tuple[str, str], OptimizeResult] = {}

    def learn(self, uri: str, facts: KernelFacts) -> None:
        """Take over what is known of a kernel; where its lines are hot outlives what does not know that."""
        before = self._kernels.get((uri, facts.kernel.name))
        if before is not None and before.text == facts.text:
            facts = dataclasses.replace(facts, launches=_with_heat(facts.launches, before.launches))
        self._kernels[uri, facts.kernel.name] = facts
        self.generation += 1

    def offer(self, uri: str, offer: Offer) -> None:
        """Take over a suggestion; it replaces an earlier one of the same kernel."""
        self._offers[uri, offer.kernel.name] = offer
        self.generation += 1

    def keep_search(self, uri: str, result: OptimizeResult) -> None:
        """Take over all that a search tried; it replaces an earlier one of the same kernel."""
        self._searches[uri, result.kernel.name] = result

    def searched(self, uri: str, kernel: str) -> OptimizeResult | None:
        """Return the last search for a kernel, stale or not."""
        return self._searches.get((uri, kernel))

    def of(self, uri: str, kernel: str) -> KernelFacts | None:
        """Return what is known of a kernel, stale or not."""
        return self._kernels.get((uri, kernel))

    def explain(self, uri: str, kernel: Kernel, words: str) -> None:
        """Keep what a language model said in plain words of a kernel as it stands; nothing forgets it."""
        self._words[uri, kernel.name] = (state_of(kernel), words)
        self.generation += 1

    def explained(self, uri: str, kernel: Kernel) -> str:
        """Return what a model said of a kernel that has not changed since; empty where it said nothing."""
        known, words = self._words.get((uri, kernel.name), (None, ""))
        return words if known == state_of(kernel) else ""

    def offered(self, uri: str, kernel: str) -> Offer | None:
        """Return what was suggested for a kernel, stale or not."""
        return self._offers.get((uri, kernel))

    def discard(self, uri: str, kernel: str) -> None:
        """Forget what was suggested for a kernel."""
        self._offers.pop((uri, kernel), None)
        self.generation += 1


def _with_heat(now: tuple[LaunchFacts, ...], before: tuple[LaunchFacts, ...]) -> tuple[LaunchFacts, ...]:
    """Keep the heat of an earlier profile of the same launch, unless there is a newer one."""
    known = {one.launch.id: one for one in before if one.heat.lines}

    def kept(one: LaunchFacts) -> LaunchFacts:
        old = known.get(one.launch.id)
        older_is_better = old is not None and old.heat.provenance == "measured" and one.heat.provenance != "measured"
        if old is None or (one.heat.lines and not older_is_better):
            return one
        return dataclasses.replace(one, heat=old.heat, counters=old.counters)

    return tuple(map(kept, now))


def is_fresh(facts: KernelFacts, kernel: Kernel) -> bool:
    """Tell whether neither the kernel nor its host functions have changed since."""
    return state_of(facts.kernel) == state_of(kernel)


def moved_finding(finding: Finding, facts: KernelFacts, now: Snapshot, kernel: Kernel) -> Finding:
    """Return a finding at the place that its line has in the document now; on the kernel's name when it is gone."""
    start = moved_line(finding.range.start.line, facts.text, now.text)
    if start is None:
        return dataclasses.replace(finding, range=kernel.name_range)
    shift = start - finding.range.start.line
    where = Range(
        Position(start, finding.range.start.column), Position(finding.range.end.line + shift, finding.range.end.column)
    )
    return dataclasses.replace(finding, range=where)
