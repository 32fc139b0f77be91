"""What engines work on, the original or the best version so far, and their answers as edits of the original."""

from __future__ import annotations

import dataclasses

from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.candidate import Candidate, Origin, Trial
from tritonforge.domain.launch import Launch
from tritonforge.domain.source import apply_edits
from tritonforge.optimize.search import LAUNCH_PARAMETERS, Attempt, Search
from tritonforge.rewrite import Task, edits_between
from tritonforge.workload.launches import split


def base_for_rules(search: Search) -> Attempt:
    """Return what rules start from: the original, or the best version where a model wrote it.

    What rules found themselves they refine from the original: each of their candidates sets everything anew.
    """
    best = search.best
    return best if best is not None and best.candidate.origin != "rule" else search.original


def task_of(search: Search, base: Attempt) -> Task | None:
    """Describe `base` for an engine; None where its kernel is not found again."""
    subject, original = search.subject, search.original
    kernel = subject.kernel if base is original else search.kernel_in(base.text)
    if kernel is None:
        return None
    own = [(one.launch, one) for one in base.assessed]
    now = search.best or original
    if base is original:
        # Rules learn what holds the best version back now, launch by launch.
        judged = {a.launch.id: b.bottleneck for a, b in zip(base.assessed, now.assessed, strict=False) if b.bottleneck}
    else:
        judged = {launch.id: one.bottleneck for launch, one in own if one.bottleneck}
    return Task(
        kernel=kernel,
        texts=subject.texts(base.candidate.edits),
        launches=_as_timed(search, base),
        findings=search.findings if base is original else diagnose(kernel, [one.case for one in base.assessed]),
        bottlenecks=judged,
        arch=search.session.arch,
        gpu=search.judge.spec.name if search.judge else "",
        measured=search.measured,
        assessments=tuple(one.assessment for one in base.assessed),
        rooflines={launch.id: one.roofline for launch, one in own if one.roofline},
        original=_as_timed(search, original),
    )


def _as_timed(search: Search, attempt: Attempt) -> tuple[Launch, ...]:
    """Return a version's launches with their times, and with what an autotuner chose for those of the original.

    Compiled is its first configuration, which may be far from what there is to improve on.
    """
    timed = []
    for one in attempt.assessed:
        made = attempt.as_timed.get(one.launch.id) if attempt is search.original else None
        config = split(search.subject.kernel, made)[1] if made is not None and made.autotuned else one.launch.config
        timed.append(dataclasses.replace(one.launch, time_us=one.case.time_us, config=config))
    return tuple(sorted(timed, key=lambda launch: launch.rank))


def trials_so_far(search: Search) -> list[Trial]:
    """Return what became of everything that was tried, in order."""
    return [attempt.trial for attempt in search.attempts.values() if attempt.trial]


def trials_on(search: Search, base: Attempt) -> list[Trial]:
    """Return what became of what rules made of `base`: edits of another version mean nothing there.

    What was measured and is not decided yet is among it; what the search goes on from counts as accepted.
    """
    if base is not search.original:
        return []
    found = []
    for one in search.attempts.values():
        trial = one.trial or search.trial(one, reason="")
        found.append(dataclasses.replace(trial, accepted=True) if one is search.best else trial)
    return [trial for trial in found if trial.candidate.origin == "rule"]


def attempt_of(search: Search, base: Attempt, proposal: Candidate) -> Attempt | None:
    """Return a proposal for `base` as a version of the original; None where it is the same as something known."""
    file, before = search.subject.file, search.subject.texts()
    now = search.subject.texts(base.candidate.edits)
    if any(edit.file not in now for edit in proposal.edits):
        return None
    made = {
        name: apply_edits(text, tuple(edit for edit in proposal.edits if edit.file == name))
        for name, text in now.items()
    }
    key = "\0".join([made[file], *(made[name] for name in before if name != file and made[name] != before[name])])
    if key in search.attempts or made in (before, now):
        return None
    if base is not search.original:
        edits = (edit for name in before for edit in edits_between(name, before[name], made[name]))
        proposal = _on(base.candidate, proposal, edits=tuple(edits))
    search.attempts[key] = attempt = Attempt(proposal, made[file])
    return attempt


def _on(base: Candidate, proposal: Candidate, **changes: object) -> Candidate:
    """Return `proposal` as a candidate of the original, made on top of `base`."""
    kept = base.rewrites if proposal.origin == "rule" else _without_parameters(base)
    origin: Origin = proposal.origin if proposal.origin == base.origin else "both"
    return dataclasses.replace(
        proposal,
        title=f"{proposal.title}, on: {base.title}",
        rewrites=(*kept, *proposal.rewrites),
        origin=origin,
        treats=tuple(sorted({*base.treats, *proposal.treats})),
        **changes,  # type: ignore[arg-type]
    )


def _without_parameters(base: Candidate) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return a candidate's rewrites without the launch parameters, which whoever rewrites the whole may choose anew."""
    return tuple(one for one in base.rewrites if one[0] != LAUNCH_PARAMETERS)
