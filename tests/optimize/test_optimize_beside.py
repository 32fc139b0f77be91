"""The gate beside the next round, the check in a fresh process at the end, and the least that is offered."""

from __future__ import annotations

import asyncio
import time

import pytest
from optimize_pretended import FILE, Blocks, PretendedGate, with_block

from tritonforge.domain.candidate import Candidate
from tritonforge.optimize.confirming import RESERVE_S
from tritonforge.optimize.search import Search
from tritonforge.report.json_optimize import optimize_json
from tritonforge.report.text import plain
from tritonforge.report.text_optimize import optimize_text
from tritonforge.rewrite import edits_between
from tritonforge.store import open_store

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton


def times(**by_block):
    """Give the median µs of a version by its block, the original's being 150."""
    found = {int(name[1:]): median for name, median in by_block.items()}
    return lambda _text, block, _call: found.get(block, 150.0)


def outcomes(folder):
    with open_store(folder) as store:
        (key,) = store._database.keys("tried")
        return {one.values["BLOCK_SIZE"]: one.outcome for one in store.tried(key)}


def reasons(result):
    return {int(trial.candidate.title.partition("=")[2]): trial.reason for trial in result.trials}


def test_what_is_seen_of_every_measurement_is_noted_once():
    search = Search(None, None, None, (), 1.0, 0.0, lambda _: None)
    search.note_measuring("events around the launch read 4.1 us more", "the GPU had not settled after 0.5 s")
    search.note_measuring("events around the launch read 3.9 us more", "the GPU slowed down by 10 %")
    kept = ["events around the launch read 4.1 us more", "the GPU had not settled after 0.5 s"]
    assert search.notes == [*kept, "the GPU slowed down by 10 %"]


def test_the_next_round_is_measured_while_the_gate_judges_and_nothing_unverified_is_shown(fresh_examples, search):
    folder, steps, kept = fresh_examples(), [], []
    gate = PretendedGate(waits={1024: 2048})

    def step(one):
        steps.append(one)
        if ("Time", 2048) in gate.target.log and ("verdict", 1024) not in gate.target.log:
            kept.append(outcomes(folder))

    result, target = search(
        folder, gate, blocks=(1024,), then=(2048,), times=times(b1024=50.0, b2048=40.0), on_step=step
    )
    order = [target.log.index(one) for one in (("gate", 1024), ("Time", 2048), ("verdict", 1024), ("gate", 2048))]
    assert order == sorted(order)
    shown = [one.best_speedup for one in steps if one.round == 2 and one.stage in {"propose", "compile", "measure"}]
    assert shown[0] is None, "the gate had not judged it when the second round began"
    assert all(found.get(1024, "timed") == "timed" for found in kept)
    assert result.best.trial.candidate.title == "BLOCK_SIZE=2048"
    assert result.best.speedup == pytest.approx(150 / 40, rel=0.01)
    assert target.blocks("TimeFresh") == [64, 2048], "one check, at the end, of what is suggested"
    assert outcomes(folder) == {1024: "verified", 2048: "kept"}
    assert gate.calls == ["prepare", "close"]


def test_the_first_versions_compile_while_others_are_still_made(fresh_examples, search):
    gate = PretendedGate()

    class Hesitant(Blocks):
        def propose(self, task, trials=()):
            for one in super().propose(task, trials):
                yield one
                ends = time.monotonic() + 120
                while ("Compile", 128) not in gate.target.log:
                    assert time.monotonic() < ends, "nothing compiles before all are proposed"
                    time.sleep(0.01)

    result, _ = search(fresh_examples(), gate, engine=Hesitant(128, 1024))
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"


def test_what_was_made_of_a_version_that_is_refused_goes_with_it_and_the_next_best_is_judged(fresh_examples, search):
    gate = PretendedGate(refuses=[1024], waits={1024: 2048})
    engine = Blocks(512, 1024, then=(256, 2048), fused=(1024, 2048))
    result, _ = search(fresh_examples(), gate, engine=engine, times=times(b1024=50.0, b512=80.0, b2048=45.0, b256=60.0))
    assert gate.judged == [1024, 512, 256], "the refused one, the next best of its round, and what does without it"
    assert reasons(result)[2048] == "not judged: it has what was refused in BLOCK_SIZE=1024"
    assert result.best.trial.candidate.title == "BLOCK_SIZE=256"
    assert engine.seen[1] == ["BLOCK_SIZE=1024"]


class Policy:
    """Thinks until the gate was asked about a block, then answers once with another; `bases` holds what it was given."""

    origin, status = "llm", ""

    def __init__(self, gate, until, block):
        self.gate, self.until, self.block, self.bases = gate, until, block, []

    @property
    def over(self):
        return "it has answered" if self.bases else ""

    async def think(self, task, trials=()):
        self.bases.append(task.texts[FILE])
        async with asyncio.timeout(120):
            while ("gate", self.until) not in self.gate.target.log:  # noqa: ASYNC110 - it is a list that grows
                await asyncio.sleep(0.01)
        text = task.texts[FILE]
        return Candidate("thought", edits_between(FILE, text, with_block(text, self.block)), (("policy", ()),), "llm")


def test_what_an_engine_thought_of_is_held_against_what_the_gate_has_passed(fresh_examples, search):
    gate = PretendedGate(refuses=[1024], waits={1024: 256})
    policy = Policy(gate, 1024, 2048)
    result, target = search(
        fresh_examples(), gate, blocks=(1024,), then=(256,), thinkers=[policy],
        times=times(b1024=50.0, b256=55.0, b2048=100.0),
    )  # fmt: skip
    order = [target.log.index(one) for one in (("Time", 256), ("verdict", 1024), ("gate", 256), ("gate", 2048))]
    assert order == sorted(order), "not before the gate has said what there is to be better than"
    assert result.best.trial.candidate.title == "BLOCK_SIZE=256"
    (thought,) = [trial for trial in result.trials if trial.candidate.title == "thought"]
    assert thought.reason == "not faster than the best: 1.50x beside the original, the best 2.73x"
    assert thought.verdict.accepted


def test_where_the_fresh_check_fails_the_version_before_is_checked_and_then_nothing_is_changed(fresh_examples, search):
    def found(folder, **fresh):
        result, target = search(
            folder, PretendedGate(), blocks=(1024,), then=(2048,), times=times(b1024=50.0, b2048=40.0),
            fresh=times(**fresh),
        )  # fmt: skip
        return result, target.blocks("TimeFresh")

    folder = fresh_examples()
    result, fresh = found(folder, b1024=55.0, b2048=149.9)
    assert fresh == [64, 2048, 64, 1024]
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
    assert result.best.speedup == pytest.approx(150 / 55, rel=0.01)
    assert "BLOCK_SIZE=2048: not faster when measured again, in a fresh process." in result.notes
    assert outcomes(folder) == {1024: "kept", 2048: "slower"}
    result, fresh = found(fresh_examples(), b1024=150.0, b2048=155.0)
    assert fresh == [64, 2048, 64, 1024]
    assert result.best is None
    assert set(reasons(result).values()) == {"not faster when measured again"}


def test_less_than_five_percent_is_not_offered_nor_verified_and_the_result_says_so_everywhere(fresh_examples, search):
    gate = PretendedGate()
    result, target = search(fresh_examples(), gate, blocks=(1024,), times=times(b1024=144.0))
    assert result.best is None
    assert (gate.judged, target.blocks("TimeFresh")) == ([], []), "nothing could have been offered"
    said = "the best version found is 1.04x; less than 1.05x is not offered"
    assert optimize_json([result])["results"][0]["stopped_because"] == said
    assert said in " ".join(plain(optimize_text([result], {})).split())
    assert reasons(result) == {1024: "1.04x; less than 1.05x is not offered"}


def test_steps_of_less_than_is_offered_add_up(fresh_examples, search):
    gate = PretendedGate()
    result, _ = search(fresh_examples(), gate, blocks=(1024,), then=(2048,), times=times(b1024=144.0, b2048=138.0))
    assert gate.judged == [2048]
    assert result.best.speedup == pytest.approx(150 / 138, rel=0.01)
    assert not any("not offered" in note for note in result.notes)
    result, _ = search(fresh_examples(), gate, blocks=(1024,), times=times(b1024=140.0), fresh=times(b1024=144.0))
    assert result.best is None, "the check in a fresh process decides"
    assert result.stopped_because == "the best version found is 1.04x; less than 1.05x is not offered"


def test_a_search_that_is_interrupted_keeps_what_was_verified_and_says_that_it_was_not_checked(fresh_examples, search):
    def at(stage, number):
        return lambda one: asyncio.current_task().cancel() if (one.stage, one.round) == (stage, number) else None

    folder = fresh_examples()
    result, _ = search(folder, PretendedGate(hangs_at=1024), blocks=(1024,), then=(2048,), on_step=at("propose", 2))
    assert result.stopped_because == "interrupted"
    assert result.best is None, "the gate had not judged it"
    assert outcomes(folder) == {1024: "timed"}

    folder = fresh_examples()
    result, _ = search(folder, PretendedGate(), blocks=(1024,), on_step=at("confirm", 2))
    assert result.stopped_because == "interrupted"
    assert result.best.speedup == pytest.approx(3.0, rel=0.01)
    assert result.best.trial.verdict.accepted
    assert any("not checked in a fresh process: the search was interrupted" in note for note in result.notes)
    assert outcomes(folder) == {1024: "verified"}


def test_the_check_in_a_fresh_process_has_its_part_of_the_budget(fresh_examples, search, monkeypatch):
    passed, spent = [], Search.spent_s.fget
    monkeypatch.setattr(Search, "spent_s", property(lambda self: spent(self) + (300.0 - RESERVE_S if passed else 0.0)))
    gate = PretendedGate(say=passed.append)  # the rounds' part of the budget is over as soon as it is asked
    result, target = search(fresh_examples(), gate, blocks=(1024,), then=(2048,))
    assert result.stopped_because == "budget spent"
    assert target.blocks("TimeFresh") == [64, 1024]
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
