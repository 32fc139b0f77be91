"""Successive halving, what counts in the final time, and which launches may pay for others."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from tritonforge.domain.candidate import Candidate
from tritonforge.optimize import choosing
from tritonforge.optimize.choosing import RUNGS, halve, overlapping, simplest_first
from tritonforge.optimize.fairness import charged, disagreeing, unfair
from tritonforge.optimize.search import NOT_FINISHED, Attempt, Search
from tritonforge.optimize.steps import pass_gate
from tritonforge.profiling.measuring import Samples


def noisy(median, count=60, noise=0.005, seed=0):
    generator = random.Random(f"{median} {seed}")
    return tuple(median * (1 + generator.gauss(0, noise)) for _ in range(count))


def version(title, *rewrites):
    return Attempt(Candidate(title, (), tuple((name, ()) for name in rewrites)), title)


def searching(budget_s=300.0):
    search = Search(SimpleNamespace(), SimpleNamespace(measures=True), None, (), budget_s, 0.0, lambda _: None)
    search.baseline = version("original")
    search.program = lambda attempt: attempt
    return search


class Rounds:
    """Stands for measuring side by side: how often each version was measured, at how many repetitions."""

    def __init__(self, times, noise):
        self.times, self.noise, self.asked = times, noise, []

    async def __call__(self, search, attempts, *, samples, **_):
        self.asked.append((samples, [one.candidate.title for one in attempts]))
        rows = [
            noisy(one, samples, self.noise, len(self.asked))
            for one in (100.0, *(self.times[a.candidate.title] for a in attempts))
        ]
        return tuple(Samples({"L": row}) for row in rows)


def measured_once(monkeypatch, times, noise):
    rounds = Rounds(times, noise)
    monkeypatch.setattr(choosing, "time_side_by_side", rounds)
    search, versions = searching(), [version(title) for title in times]

    async def go():
        assert await choosing._timed(search, versions, RUNGS[0])
        await halve(search, versions)

    asyncio.run(go())
    return versions, rounds


def test_only_what_may_still_be_the_best_gets_more_repetitions(monkeypatch):
    _, rounds = measured_once(monkeypatch, {"a": 90.0, "b": 50.0, "c": 50.4, "d": 70.0}, 0.01)
    (first, everything), *later = rounds.asked
    assert (first, everything) == (5, ["a", "b", "c", "d"])
    assert [samples for samples, _ in later] == [15, 45]
    assert all(set(titles) == {"b", "c"} for _, titles in later)


def test_a_clear_winner_is_not_measured_again_before_the_end(monkeypatch):
    versions, rounds = measured_once(monkeypatch, {"a": 90.0, "b": 50.0}, 0.005)
    assert len(rounds.asked) == 1
    assert [one.candidate.title for one in overlapping(versions)] == ["b"]


def test_of_what_cannot_be_told_apart_the_simplest_comes_first():
    made = [version("b", "pairs", "launch-parameters"), version("c", "launch-parameters"), version("a", "pairs")]
    for one, speedup in zip(made, ((2.01, 1.95, 2.06), (2.0, 1.94, 2.05), (1.5, 1.4, 1.6)), strict=True):
        one.speedup = speedup
        one.samples = Samples({"L": (100.0 / speedup[0],)})
    assert [one.candidate.title for one in simplest_first(made, measured=True)] == ["c", "b", "a"]


def rows(launches, whole=()):
    return Samples({f"L{n}": noisy(one) for n, one in enumerate(launches)}, whole=whole)


def test_a_copy_that_host_code_makes_is_in_the_time():
    before = rows([100.0], noisy(103.0, seed=1))
    after, said = charged(before, rows([50.0], noisy(83.0, seed=2)))
    assert after.total()[0] == pytest.approx(80.0, rel=0.03)
    assert "other work" in said
    same, said = charged(before, rows([50.0], noisy(53.2, seed=2)))
    assert same.total()[0] == pytest.approx(50.0, rel=0.03)
    assert not said
    less, said = charged(rows([100.0], noisy(140.0)), rows([50.0], noisy(53.0, seed=2)))
    assert (less.total()[0], said) == (pytest.approx(50.0, rel=0.03), ""), "what it saves elsewhere is not credited"
    unknown, said = charged(rows([100.0]), rows([50.0], noisy(83.0)))
    assert (unknown.total()[0], said) == (pytest.approx(50.0, rel=0.03), "")


def test_work_beside_a_launch_that_is_made_often_counts_once_for_all_of_them():
    counts = {"L0": 10}
    before = Samples({"L0": noisy(10.0)}, counts=counts, whole=noisy(100.0, seed=1))
    after, _ = charged(before, Samples({"L0": noisy(5.0)}, counts=counts, whole=noisy(80.0, seed=2)))
    assert after.total()[0] == pytest.approx(80.0, rel=0.03)


def test_a_launch_is_too_slow_when_its_interval_says_so_and_not_by_noise():
    before = rows([100.0, 100.0])
    assert not unfair(before, rows([50.0, 100.3]), 0.0)
    assert "1.05x slower on launch L1 (allowed: 1.00x)" in unfair(before, rows([50.0, 105.0]), 0.0)
    assert not unfair(before, rows([50.0, 105.0]), 0.06)
    assert "(allowed: 1.06x)" in unfair(before, rows([50.0, 110.0]), 0.06)


def test_two_processes_that_disagree_are_told():
    assert disagreeing("x", None, (2.0, 1.9, 2.1)) == ()
    assert disagreeing("x", (2.05, 2.0, 2.2), (2.0, 1.9, 2.1)) == ()
    (said,) = disagreeing("x", (3.0, 2.9, 3.1), (2.0, 1.9, 2.1))
    assert "3.00x" in said
    assert "2.00x" in said


def test_the_budget_ends_one_verification_and_the_job_with_it():
    ended = []

    class Endless:
        async def check(self, program, *, tile):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(program)
                raise

    search, attempt = searching(budget_s=0.2), version("slow to judge")
    assert not asyncio.run(pass_gate(search, Endless(), attempt))
    assert ended == [attempt]
    assert attempt.trial.reason == NOT_FINISHED
    assert attempt.trial.verdict is None
    assert not attempt.trial.accepted
