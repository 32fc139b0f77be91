"""The rule engine: everything the rules propose for a kernel, behind the protocol that a language model speaks too.

Structural rewrites and launch parameters are proposed in turn. A structural rewrite comes as it is and with launch
parameters that suit what it makes; once a trial was accepted, both go on from the fastest one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from tritonforge.domain.candidate import Candidate, Origin, Trial
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.plausibility import Values
from tritonforge.rewrite.protocol import Refusal, Task
from tritonforge.rewrite.rules.launch_parameters import NAME, rewrite_launch
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.settable import Settable, ran_alike
from tritonforge.rewrite.space import Parameter, has_list, neighbours, parameter_space, proposals
from tritonforge.rewrite.structural import (
    REWRITES,
    Change,
    NothingHere,
    Rewritten,
    Structural,
    going_on,
    rewrites,
    together,
)
from tritonforge.rewrite.structural.layout import fitted

TREATED = frozenset({"TF106", "TF203", "TF206", "TF208", "TF301", "TF302", "TF304", "TF305", "TF404"})
"""Findings that other launch parameters can mend."""

_TUNED = 4
"""Sets of launch parameters that a structural rewrite is tried with, where it is one for the bottleneck."""

_FINISHED_BY = {
    "private-sums": ("two-stages",),
    "unlocked-sums": ("two-stages",),
    "several-rows": ("pairs",),
    "row-tiles": ("split-loop",),
    "grouped-heads": ("split-loop", "narrow-operands"),
    "k-major": ("tensor-descriptors",),
    "exp2-scale": ("late-scale",),
}
"""Which rewrites finish what another begins, one after the other. Step by step the search need not get there: the
second alone may be the faster one, and leaves the first nothing to do."""

Step = Candidate | Refusal


class RuleEngine:
    """Proposes structural rewrites, and other launch parameters for the launch that matters most."""

    def __init__(self, structural: Sequence[Structural] = REWRITES) -> None:
        self._structural = tuple(structural)

    @property
    def origin(self) -> Origin:
        """Return `rule`."""
        return "rule"

    def propose(self, task: Task, trials: Sequence[Trial] = ()) -> Iterator[Step]:
        """Yield what may be faster, structure and launch parameters in turn; each refusal once.

        Once a trial was accepted, the neighbours of the fastest one, and what can be made of it, come first.
        """
        if not task.launches:
            yield Refusal(f"No launch of {task.kernel.name} is known, so that there is nothing to start from.")
            return
        # What the launches give it decides which values may be set, in whichever file they stand.
        task = dataclasses.replace(task, kernel=with_all_sites(task.kernel, task.texts))
        settable = Settable.of(task.kernel, task.texts, task.launches, task.arch)
        known = {trial.candidate.edits for trial in trials}
        reasons: set[str] = set()
        for step in self._all(task, trials, settable):
            if isinstance(step, Refusal):
                if step.reason not in reasons:
                    reasons.add(step.reason)
                    yield step
            elif step.edits not in known:
                known.add(step.edits)
                yield step

    def _all(self, task: Task, trials: Sequence[Trial], settable: Settable) -> Iterator[Step]:
        best = _best(trials)
        if best is not None:
            made = self.remade(task, best.rewrites)
            if made is not None:
                yield from _refined(task, made, best, settable)
                yield from self._on_top(task, made, best)
                if made.candidate.rewrites:
                    yield from self._restructured(task, made, settable)
        start = Rewritten(Candidate("original", (), ()), task)
        yield from _in_turn(self._restructured(task, start, settable), _tuned(task, start, settable))

    def _restructured(self, task: Task, made: Rewritten, settable: Settable) -> Iterator[Step]:
        """Yield structural rewrites of what was made, each as it is and tuned, those for the bottleneck first."""
        done = {name for name, _ in made.candidate.rewrites}
        for rewrite in self._in_order(made.task):
            if rewrite.name in done:
                continue
            fitting = _is_for(rewrite, made.task)
            for place, outcome in enumerate(rewrites(rewrite, made.task)):
                if isinstance(outcome, Refusal):
                    # That a rewrite cannot be made is worth a word where it would have been the one to make.
                    if fitting and not isinstance(outcome, NothingHere):
                        yield outcome
                    continue
                # A list of configs tunes whatever is made of its kernel: more of them are tried beside the best alone.
                tuned = place == 0 and fitting and not has_list(made.task.kernel)
                both = _joined(task, made, outcome)
                every = [both]
                if fitting:
                    every += self._finished(task, both, _FINISHED_BY.get(rewrite.name, ()))
                yield from (one.candidate for one in every)
                # What finishes it in other ways differs in numbers alone.
                for one in every[:2] if tuned else ():
                    yield from (step for step in _tuned(task, one, settable, _TUNED) if isinstance(step, Candidate))

    def _finished(self, task: Task, made: Rewritten, names: Sequence[str]) -> Iterator[Rewritten]:
        """Yield what the rewrites of `names` make of what was made, one after the other, without those that decline."""
        for place, name in enumerate(names):
            outcomes = list(self._made_by(name, made.task))
            for outcome in outcomes:
                both = _joined(task, made, outcome)
                yield from list(self._finished(task, both, names[place + 1 :])) or [both]
            if outcomes:
                return

    def _on_top(self, task: Task, made: Rewritten, best: Candidate) -> Iterator[Candidate]:
        """Yield structural rewrites for the bottleneck with the fastest version's launch parameters, as they are."""
        values = _launch_values(best)
        done = {name for name, _ in made.candidate.rewrites}
        if not values:
            return
        for rewrite in self._in_order(made.task):
            if rewrite.name in done or not _is_for(rewrite, made.task):
                continue
            for outcome in rewrites(rewrite, made.task):
                if isinstance(outcome, Rewritten):
                    step = _with_parameters(task, _joined(task, made, outcome), values)
                    if isinstance(step, Candidate):
                        yield step

    def _made_by(self, name: str, task: Task) -> Iterator[Rewritten]:
        """Yield what the rewrite of a name makes of a task; nothing where it declines."""
        rewrite = next((r for r in self._structural if r.name == name), None)
        outcomes = rewrites(rewrite, task) if rewrite is not None else ()
        yield from (outcome for outcome in outcomes if isinstance(outcome, Rewritten))

    def _in_order(self, task: Task) -> list[Structural]:
        return sorted(self._structural, key=lambda rewrite: not _is_for(rewrite, task))

    def remade(self, task: Task, applied: Sequence[tuple[str, tuple[tuple[str, str], ...]]]) -> Rewritten | None:
        """Make the rewrites of an earlier candidate again; None when that does not succeed."""
        made = Rewritten(Candidate("original", (), ()), task)
        for name, parameters in applied:
            if name == NAME:
                continue
            same = (o for o in self._made_by(name, made.task) if o.candidate.rewrites[0][1] == parameters)
            outcome = next(same, None)
            if outcome is None:
                return None
            made = _joined(task, made, outcome)
        return made


def _is_for(rewrite: Structural, task: Task) -> bool:
    """Tell whether a rewrite treats what was found or what limits the launch."""
    bottleneck = task.bottlenecks.get(task.launches[0].id)
    found = {finding.code for finding in task.findings}
    return bool(found & rewrite.treats) or (bottleneck is not None and bottleneck.kind in rewrite.classes)


def _joined(task: Task, made: Rewritten, outcome: Rewritten) -> Rewritten:
    if not made.candidate.rewrites:
        return outcome
    return Rewritten(together(task, (made.candidate, outcome.candidate), outcome.task), outcome.task)


def _tuned(task: Task, made: Rewritten, settable: Settable, limit: int | None = None) -> Iterator[Step]:
    """Yield launch parameters for what was made of `task`, in the order of the parameter space."""
    now = made.task
    launch = now.launches[0]
    bottleneck = now.bottlenecks.get(launch.id)
    kernel = settable.shown_on(now.kernel)
    space = parameter_space(kernel, launch, now.findings, bottleneck, now.arch)
    if not space:
        # Its configs are not seen: what is said of any other value says how they are made.
        yield _with_parameters(task, made, {"num_warps": 8})
        return

    def steps(space: Sequence[Parameter]) -> Iterator[tuple[Values, Step]]:
        ordered = proposals(
            space, kernel, launch, findings=now.findings, bottleneck=bottleneck, arch=now.arch, limit=limit
        )
        yield from ((values, _with_parameters(task, made, values)) for values in ordered)

    if limit is None:
        yield from settable.refusals(space, kernel, launch, now.arch)
    refused, with_tiles = 0, 0
    for values, step in steps(space):
        yield step
        other = any(p.name in now.kernel.tiles and values.get(p.name, p.current) != p.current for p in space)
        refused += other and isinstance(step, Refusal)
        with_tiles += other and not isinstance(step, Refusal)
    if refused > with_tiles:
        # Hardly any tile can be set after all, and warps and stages had the few places that tiles left them.
        yield from (step for _, step in steps([_as_it_is(p) if p.name in now.kernel.tiles else p for p in space]))


def _as_it_is(parameter: Parameter) -> Parameter:
    """Return a parameter that keeps its value."""
    current = parameter.current
    return dataclasses.replace(parameter, values=() if current is None else (current,))


def _refined(task: Task, made: Rewritten, best: Candidate, settable: Settable) -> Iterator[Step]:
    """Yield the neighbours of the fastest version's launch parameters."""
    values = _launch_values(best)
    now = made.task
    launch = now.launches[0]
    kernel = settable.shown_on(now.kernel)
    space = parameter_space(kernel, launch, now.findings, now.bottlenecks.get(launch.id), now.arch)
    if not space or not (values or made.candidate.rewrites):
        return
    for near in neighbours(values, space, kernel, launch, now.arch):
        step = _with_parameters(task, made, near)
        if isinstance(step, Candidate):
            yield step


def _launch_values(candidate: Candidate) -> dict[str, int]:
    """Return the launch parameters that a candidate sets."""
    return {name: int(value) for name, value in dict(candidate.rewrites).get(NAME, ())}


def _with_parameters(task: Task, made: Rewritten, values: Mapping[str, int]) -> Step:
    now = made.task
    treats = tuple(sorted({f.code for f in now.findings} & TREATED))
    alike = ran_alike(now.launches, values)
    outcome = rewrite_launch(now.kernel, now.texts, values, now.launches[0], treats, in_branches=alike)
    if isinstance(outcome, Refusal) or not made.candidate.rewrites:
        return outcome
    texts = dict(now.texts)
    try:
        for file in {edit.file for edit in outcome.edits}:
            edited = apply_edits(texts[file], tuple(e for e in outcome.edits if e.file == file))
            texts[file] = fitted(task.texts[file], edited)
        last = going_on(now, texts, Change(outcome.title, (), values=values))
    except Refused as refused:
        return Refusal(f"{refused}.", NAME)
    return together(task, (made.candidate, outcome), last)


def _best(trials: Sequence[Trial]) -> Candidate | None:
    """Return the fastest accepted candidate; None when there is none."""
    accepted = [t for t in trials if t.accepted and t.time_us]
    best = min(accepted, key=lambda t: sum((t.time_us or {}).values()), default=None)
    return best.candidate if best is not None else None


def _in_turn(structure: Iterator[Step], parameters: Iterator[Step]) -> Iterator[Step]:
    for one, other in itertools.zip_longest(parameters, structure):
        if one is not None:
            yield one
        if other is not None:
            yield other
