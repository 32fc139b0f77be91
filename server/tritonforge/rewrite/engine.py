"""The rule engine: everything the rules propose for a kernel, behind the protocol that a language model speaks too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tritonforge.domain.candidate import Candidate, Origin, Trial
from tritonforge.rewrite.protocol import Refusal, Task
from tritonforge.rewrite.rules.launch_parameters import NAME, rewrite_launch
from tritonforge.rewrite.space import neighbours, parameter_space, proposals

TREATED = frozenset({"TF106", "TF203", "TF206", "TF208", "TF301", "TF302", "TF304", "TF305", "TF404"})
"""Findings that other launch parameters can mend."""


class RuleEngine:
    """Proposes other launch parameters for the launch that matters most."""

    @property
    def origin(self) -> Origin:
        """Return `rule`."""
        return "rule"

    def propose(self, task: Task, trials: Sequence[Trial] = ()) -> Iterator[Candidate | Refusal]:
        """Yield one candidate for each proposal of the parameter space, in its order; each refusal once.

        Once a trial was accepted, the neighbours of the fastest one come first.
        """
        if not task.launches:
            yield Refusal(f"No launch of {task.kernel.name} is known, so that there is nothing to start from.")
            return
        launch = task.launches[0]
        bottleneck = task.bottlenecks.get(launch.id)
        treats = tuple(sorted({f.code for f in task.findings} & TREATED))
        space = parameter_space(task.kernel, launch, task.findings, bottleneck, task.arch)
        if not space:
            yield Refusal(
                f"{task.kernel.name} is already autotuned over configs that are computed.", "launch-parameters"
            )
            return
        known = {trial.candidate.edits for trial in trials}
        reasons: set[str] = set()
        best = _best_values(trials)
        refined = neighbours(best, space, task.kernel, launch, task.arch) if best else ()
        ordered = proposals(space, task.kernel, launch, findings=task.findings, bottleneck=bottleneck, arch=task.arch)
        for values in itertools.chain(refined, ordered):
            outcome = rewrite_launch(task.kernel, task.texts, values, launch, treats)
            if isinstance(outcome, Refusal):
                if outcome.reason not in reasons:
                    reasons.add(outcome.reason)
                    yield outcome
            elif outcome.edits not in known:
                yield outcome


def _best_values(trials: Sequence[Trial]) -> dict[str, int]:
    """Return the launch parameters of the fastest accepted trial; empty when there is none."""
    accepted = [t for t in trials if t.accepted and t.time_us]
    best = min(accepted, key=lambda t: sum((t.time_us or {}).values()), default=None)
    rewrites = dict(best.candidate.rewrites) if best is not None else {}
    return {name: int(value) for name, value in rewrites.get(NAME, ())}
