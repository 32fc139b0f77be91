"""The same kernel on several targets: every target's best version tried on all of them, and one source kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.diagnosis.assessment import Yardstick
from tritonforge.domain.across import AcrossResult, AcrossVersion, Cell, VersionKind
from tritonforge.domain.candidate import Candidate, Suggestion, Trial
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import apply_edits
from tritonforge.jobs.session import Session
from tritonforge.optimize.across_sources import architecture_table, autotune_list, values_of
from tritonforge.optimize.loop import assess_original
from tritonforge.optimize.search import NOT_FINISHED, Attempt, BudgetSpent, Search, Step
from tritonforge.optimize.steps import compile_all, gate_of, pass_gate, predict_gain, time_side_by_side
from tritonforge.profiling.measuring import FINAL_SAMPLES, Samples
from tritonforge.rewrite.diff import unified_diff
from tritonforge.rewrite.protocol import Refusal
from tritonforge.workload.subject import Subject

GOOD = 0.05
"""A version is good on a target when it is at most this much slower than the best that was found there."""
SLOWER_TOLERATED = 0.03
"""How much slower than the original a version may be on one target and still be the one source for all."""
_BUDGET_S = 600.0


@dataclass(frozen=True)
class Party:
    """One target: its open session, the kernel with the calls that it is judged on, and what a search found there."""

    session: Session
    subject: Subject
    judge: Yardstick | None
    result: OptimizeResult

    @property
    def name(self) -> str:
        """The target's name."""
        return self.session.target.name


@dataclass
class _Version:
    candidate: Candidate
    text: str
    kind: VersionKind
    found_on: list[str] = field(default_factory=list)
    cells: dict[str, Cell] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)


async def across(parties: Sequence[Party], on_step: Callable[[Step], None] = lambda _: None) -> AcrossResult:
    """Try every target's best version on all targets, and choose the one source that is good on most of them.

    In order: a version that is good everywhere as it is; every target's values in an autotuner's list; a table of
    values by architecture; else what loses least where it loses most. Nothing is chosen that the gate has not passed
    on every target.

    Raises:
        JobError: when a call of the original cannot be repeated.
    """
    versions = _versions(parties)
    for party in parties:
        await _fill(party, versions, on_step)
    chosen, loss = _choose(parties, versions)
    version = versions[chosen]
    first = parties[0]
    best = None
    if chosen:
        slowest = min(parties, key=lambda party: version.cells[party.name].speedup or 0.0)
        cell = version.cells[slowest.name]
        best = Suggestion(
            version.trials[slowest.name],
            cell.speedup or 0.0,
            cell.speedup_ci95 or (0.0, 0.0),
            "measured" if slowest.session.measures else "predicted",
            unified_diff(first.subject.texts(), version.candidate.edits),
        )
    return AcrossResult(
        kernel=first.subject.kernel,
        targets=tuple(dataclasses.replace(party.session.info, name=party.name) for party in parties),
        versions=tuple(AcrossVersion(v.candidate.title, v.kind, v.cells, tuple(v.found_on)) for v in versions),
        chosen=chosen,
        best=best,
        provenance={party.name: "measured" if party.session.measures else "predicted" for party in parties},
        worst_loss=loss,
        why=_why(version, loss),
    )


def _versions(parties: Sequence[Party]) -> list[_Version]:
    """The original, every target's best, and what can be made of those that only set values."""
    subject = parties[0].subject
    versions = [_Version(Candidate("original", (), ()), subject.text, "original")]
    for party in parties:
        if party.result.best is None:
            versions[0].found_on.append(party.name)
            continue
        candidate = party.result.best.trial.candidate
        texts = subject.texts(candidate.edits)
        known = next((version for version in versions if subject.texts(version.candidate.edits) == texts), None)
        if known is None:
            known = _Version(candidate, texts[subject.file], "one-version")
            versions.append(known)
        known.found_on.append(party.name)
    found = versions[1:]
    values = [values_of(version.candidate) for version in found]
    if len(versions) < 3 and not versions[0].found_on:
        return versions  # all targets agree
    launch = min(parties[0].result.launches, key=lambda one: one.rank, default=None)
    if found and launch is not None and None not in values:
        wanted = [value for value in values if value is not None]
        tables = [
            (party.session.arch, party.result.best.trial.candidate)
            for party in parties
            if party.result.best is not None
        ]
        for kind, made in (
            ("autotune-list", autotune_list(subject.kernel, subject.text, wanted, launch)),
            ("architecture-table", architecture_table(subject.kernel, subject.text, tables)),
        ):
            if not isinstance(made, Refusal):
                versions.append(_Version(made, apply_edits(subject.text, made.edits), kind))  # type: ignore[arg-type]
    return versions


async def _fill(party: Party, versions: Sequence[_Version], on_step: Callable[[Step], None]) -> None:
    """Compile, verify and time every version on one target."""
    search = Search(party.subject, party.session, party.judge, [], _BUDGET_S, 1e9, on_step)
    problem = await assess_original(search)
    versions[0].cells[party.name] = Cell(
        True, problem, search.original.time_us(measured=search.measured), 1.0, (1.0, 1.0)
    )
    attempts = [Attempt(version.candidate, version.text) for version in versions[1:]]
    if problem:
        for version in versions[1:]:
            version.cells[party.name] = Cell(False, problem)
        return
    await compile_all(search, attempts)
    gate = gate_of(search)
    for version, attempt in zip(versions[1:], attempts, strict=True):
        own = party.result.best
        if attempt.trial is not None:
            version.cells[party.name] = Cell(False, attempt.trial.reason)
        elif own is not None and own.trial.candidate == version.candidate:
            attempt.trial = own.trial  # it has passed there
        elif not await pass_gate(search, gate, attempt):
            version.cells[party.name] = Cell(False, attempt.trial.reason if attempt.trial else "refused")
    passed = [(v, a) for v, a in zip(versions[1:], attempts, strict=True) if party.name not in v.cells]
    if search.measured and passed:
        try:
            before, *after = await time_side_by_side(search, [attempt for _, attempt in passed], samples=FINAL_SAMPLES)
        except BudgetSpent:
            before, after = Samples(error=NOT_FINISHED), [Samples() for _ in passed]
        for (version, attempt), samples in zip(passed, after, strict=True):
            if before.error or samples.error:
                version.cells[party.name] = Cell(False, before.error or samples.error or "")
                continue
            speedup, interval = attempt.settle_beside(before, samples, search.judge)
            _note(version, party, attempt, Cell(True, "", attempt.time_us(measured=True), speedup, interval))
    elif passed:
        for version, attempt in passed:
            if version.kind == "autotune-list":  # it is described with its first config, and runs with its best
                simple = [v.cells[party.name] for v in versions if v.kind in {"original", "one-version"}]
                best = min((cell for cell in simple if cell.accepted and cell.time_us), key=lambda c: c.time_us or 0.0)
                _note(version, party, attempt, best)
                continue
            gain = predict_gain(search, attempt)
            time = attempt.time_us(measured=False)
            _note(version, party, attempt, Cell(True, "", time, gain.speedup, gain.speedup_ci95))


def _note(version: _Version, party: Party, attempt: Attempt, cell: Cell) -> None:
    version.cells[party.name] = cell
    if attempt.trial is not None:
        version.trials[party.name] = attempt.trial


def _choose(parties: Sequence[Party], versions: Sequence[_Version]) -> tuple[int, float]:
    """Return the place of the version to keep, and how much it loses where it loses most."""
    rows = [
        {name: cell.speedup if cell.accepted else None for name, cell in version.cells.items()} for version in versions
    ]
    return choose(rows, [party.name for party in parties])


def choose(rows: Sequence[Mapping[str, float | None]], names: Sequence[str]) -> tuple[int, float]:
    """Return which of `rows` (target → speedup, None where it must not be used) to keep, and its greatest loss (0–1).

    The first row, the original, may always be kept. The first row that is good everywhere wins, since rows come from
    the simplest to the most elaborate; else the one that loses least.
    """
    best = {name: max([1.0, *(row[name] or 0.0 for row in rows if row.get(name))]) for name in names}
    losses: list[tuple[float, int]] = []
    for place, row in enumerate(rows):
        speedups = [row.get(name) for name in names]
        known = [speedup for speedup in speedups if speedup is not None]
        # What is no faster anywhere is no reason to change the source, and what is slower somewhere is a bad one.
        if place and (len(known) < len(names) or max(known) <= 1.0 or min(known) < 1 - SLOWER_TOLERATED):
            continue
        losses.append((max(1 - (row[name] or 0.0) / best[name] for name in names), place))
    good = [(loss, place) for loss, place in losses if loss <= GOOD]
    loss, place = min(good, key=lambda pair: pair[1]) if good else min(losses)
    return place, max(0.0, loss)


def _why(version: _Version, loss: float) -> str:
    if version.kind == "original":
        some = any(cell.time_us is None for cell in version.cells.values())
        return (
            "No target has a better version."
            if loss <= GOOD and not some
            else "Nothing that was found is better on all of them together."
        )
    if loss > GOOD:
        return f"Nothing is good on all of them; this loses least, {100 * loss:.0f} % where it loses most."
    how = {
        "one-version": "The same code and values are",
        "autotune-list": "No single version is good on all of them; an autotuner that chooses among their values is",
        "architecture-table": "No single version is good on all of them; a table of values by architecture is",
    }[version.kind]
    return f"{how} within {100 * loss:.0f} % of the best that was found on each target."
