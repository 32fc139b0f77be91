"""Why a search ends, and what it does with launches of different sizes, on a target that pretends to have a GPU."""

from __future__ import annotations

import threading

import pytest
from optimize_pretended import FILE, Blocks, PretendedGate, table, with_block

from tritonforge.optimize import choosing
from tritonforge.optimize.guide import Guide
from tritonforge.optimize.tunings import tuned_launches

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton


def test_a_budget_that_is_spent_is_said_and_nothing_counts_as_tried(fresh_examples, search):
    result, target = search(fresh_examples(), PretendedGate(), blocks=(128, 1024), budget_s=0.0)
    assert result.stopped_because == "budget spent"
    assert [trial.reason for trial in result.trials] == ["not tried: budget spent"], "the other one is not even written"
    assert target.blocks("Time") == [64], "the original alone is given a minute"
    result, target = search(fresh_examples(), PretendedGate(), blocks=(128, 1024))
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024", "what the budget ended is tried when there is one"


def test_a_search_that_is_not_expected_to_gain_ends_without_measuring_all(fresh_examples, search):
    # The original is measured at half of what the model expects, and what is like it is predicted to be slower.
    result, target = search(
        fresh_examples(), PretendedGate(), blocks=(16, 32), times=lambda _text, _block, _call: 150.0
    )
    assert result.best is None
    assert result.stopped_because == "the expected gain is below noise"
    assert target.blocks("Time") == [64]
    assert {trial.reason for trial in result.trials} == {"predicted to be slower; not measured"}


def test_the_first_versions_are_measured_while_others_still_compile(fresh_examples, search, monkeypatch):
    monkeypatch.setattr(choosing, "AT_ONCE", 2)
    result, target = search(fresh_examples(), PretendedGate(), blocks=(128, 1024, 2048), held=2048)
    assert set(target.blocks("Time")) >= {64, 128, 1024}
    assert {"BLOCK_SIZE=2048"} <= {trial.candidate.title for trial in result.trials}
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"


def test_where_the_gpu_does_not_hold_all_versions_at_once_fewer_are_measured_side_by_side(fresh_examples, search):
    result, target = search(fresh_examples(), PretendedGate(), fits=2)
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
    assert set(target.blocks("Time")) == {64, 128, 256, 512, 1024, 2048}
    assert not any("memory" in trial.reason for trial in result.trials)


def test_a_later_round_knows_what_earlier_ones_measured_and_what_the_gate_refused(fresh_examples, search, monkeypatch):
    studies = []

    class Watched(Guide):
        def __init__(self, points):
            super().__init__(points)
            self.points, self.told, self.refused = points, {}, {}
            studies.append(self)

        def tell(self, place, time_us):
            self.told[self.points[place]["BLOCK_SIZE"]] = time_us
            super().tell(place, time_us)

        def refuse(self, place, constraint):
            self.refused[self.points[place]["BLOCK_SIZE"]] = constraint
            super().refuse(place, constraint)

    monkeypatch.setattr(choosing, "Guide", Watched)
    judged = threading.Event()
    gate = PretendedGate(refuses=[1024], say=lambda _: judged.set())
    engine = Blocks(512, 1024, then=(2048,), ready=lambda: judged.wait(120))
    result, target = search(fresh_examples(), gate, engine=engine)
    first, second = studies
    assert set(first.told) == {64, 512, 1024}
    assert second.refused == {1024: "gate"}
    assert second.told[512] == pytest.approx(100.0, rel=0.01)
    assert set(second.told) == {64, 512, 2048}
    assert result.best.trial.candidate.title == "BLOCK_SIZE=2048"
    assert target.blocks("Time").count(512) == 2, "once beside 1024, and at length when it had taken its place"
    assert gate.judged == [1024, 512, 2048]


def by_size(text, block, call):
    small = max(dict(call.keywords)["x"].shape) < 1 << 20
    best = 256 if small else 1024
    each_its_own = "triton.autotune" in text or "if n_elements <= 1048576:" in text
    return 50.0 if each_its_own else {64: 150.0, best: 50.0}.get(block, 140.0)


def test_launches_that_want_different_blocks_get_them_from_an_autotuners_list(fresh_examples, search):
    folder = fresh_examples()
    path = folder / FILE
    path.write_text(with_block(path.read_text(), 64))
    result, _ = search(folder, PretendedGate(), blocks=(256, 1024), times=by_size, sizes=(16777259, 100003))
    best = result.best.trial.candidate
    assert best.rewrites[0][0] == "autotuned"
    assert {"BLOCK_SIZE=256", "BLOCK_SIZE=1024"} <= set(best.title.replace("|", "").split())
    for block in (64, 256, 1024):
        assert f'+        triton.Config({{"BLOCK_SIZE": {block}}}),' in result.best.diff
    assert result.best.speedup == pytest.approx(3.0, rel=0.01)


def test_an_autotuners_list_is_found_by_what_an_earlier_run_measured_too_and_judged_once(fresh_examples, search):
    folder, judged = fresh_examples(), []
    path = folder / FILE
    path.write_text(with_block(path.read_text(), 64))
    for budget_s in (300.0, 200.0):  # another question, so that the second one is searched
        gate = PretendedGate(refuses=[64])  # as it reads a list, which gives the launch no block
        result, target = search(
            folder, gate, blocks=(256, 1024), times=by_size, sizes=(16777259, 100003), budget_s=budget_s
        )
        judged.append(64 in gate.judged)
        assert any(trial.candidate.rewrites[0][0] == "autotuned" for trial in result.trials)
    assert judged == [True, False]
    assert 1024 not in target.blocks("Time")


def test_where_an_autotuners_list_cannot_be_written_the_host_code_gets_a_table_by_size(fresh_examples, search):
    result, _ = search(fresh_examples(), PretendedGate(), blocks=(256, 1024), times=by_size, sizes=(16777259, 100003))
    best = result.best.trial.candidate
    assert best.rewrites == (("shape-table", (("by", "n_elements"),)),)
    lines = ["if n_elements <= 1048576:", "    block = 256", "else:", "    block = 1024"]
    assert "".join(f"+    {line}\n" for line in lines) in result.best.diff
    assert result.best.speedup == pytest.approx(3.0, rel=0.01)


def test_where_neither_can_be_written_each_launchs_winner_is_verified_for_an_exported_table(fresh_examples, search):
    folder, gate = fresh_examples(), PretendedGate()
    path = folder / FILE
    text = path.read_text().replace("def scale_shift(x, y, scale):", "def scale_shift(x, y, scale, BLOCK=64):")
    path.write_text(text.replace("BLOCK = 64\n\n\n", "\n"))
    result, _ = search(folder, gate, blocks=(256, 1024), times=by_size, sizes=(16777259, 100003))
    assert sorted(gate.judged) == [256, 1024]
    (note,) = [note for note in result.notes if "tritonforge export writes them as a table by size" in note]
    assert "Nor can a table in the host code: a value is set by who calls the function" in note
    large, small = (launch.id for launch in result.launches)
    tuned = {one.launch.id: dict(one.config) for one in tuned_launches(result.kernel, [result])}
    assert tuned[large]["BLOCK_SIZE"] == 1024
    assert tuned[small]["BLOCK_SIZE"] == 256


def test_one_version_that_is_best_for_all_launches_is_kept_as_it_is(fresh_examples, search):
    result, _ = search(fresh_examples(), PretendedGate(), blocks=(256, 1024), times=table, sizes=(16777259, 100003))
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"


def test_a_version_that_costs_one_launch_its_time_is_refused_unless_that_is_allowed(fresh_examples, search):
    def times(_text, block, call):
        small = max(dict(call.keywords)["x"].shape) < 1 << 20
        return 150.0 if block == 64 else (155.0 if small else 50.0)

    folder = fresh_examples()
    result, _ = search(folder, PretendedGate(), blocks=(1024,), times=times, sizes=(16777259, 100003))
    assert result.best is None
    assert "1.03x slower on launch" in result.trials[0].reason
    result, _ = search(
        folder, PretendedGate(), blocks=(1024,), times=times, sizes=(16777259, 100003), allow_slower=0.05
    )
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
