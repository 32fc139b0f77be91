"""The study behind a search: what it asks for, what it learns, what it never asks for, and when it is enough."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import optuna
import pytest

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import Config, Scalar
from tritonforge.optimize.correction import SPREAD, STRUCTURE, Belief, corrected, expected_gain, steps_between
from tritonforge.optimize.guide import Guide
from tritonforge.optimize.points import points_of
from tritonforge.optimize.sampler import CorrectedModelSampler

CONFIG = Config((("BLOCK", Scalar(64)),), (("num_warps", Scalar(4)), ("num_stages", Scalar(3))), (16, 1, 1))


def candidate(*rewrites):
    return Candidate("a version", (), tuple((name, tuple(parameters.items())) for name, parameters in rewrites))


def line(*blocks):
    return [{STRUCTURE: "", "BLOCK": block} for block in blocks]


def asked(guide):
    places = []
    while (place := guide.ask()) is not None:
        places.append(place)
    return places


def test_a_candidate_lies_where_its_structure_and_its_values_say():
    launch, rows = ("launch-parameters", {"BLOCK": "128"}), ("several-rows", {"rows": "4"})
    points = points_of([candidate(), candidate(launch), candidate(rows, ("pairs", {}), launch)], CONFIG)
    assert points == [
        {STRUCTURE: "", "BLOCK": 64, "num_warps": 4, "num_stages": 3},
        {STRUCTURE: "", "BLOCK": 128, "num_warps": 4, "num_stages": 3},
        {STRUCTURE: "several-rows(rows=4) + pairs", "BLOCK": 128, "num_warps": 4, "num_stages": 3},
    ]
    first, second = points_of([candidate(("policy", {})), candidate(("policy", {}))], CONFIG)
    assert first != second, "two texts of one description are two points"


def test_steps_are_counted_along_values_that_occur_and_rewrites_that_differ():
    points = [
        {STRUCTURE: "", "BLOCK": 64},
        {STRUCTURE: "", "BLOCK": 256},
        {STRUCTURE: "pairs + exp2-scale", "BLOCK": 128},
        {STRUCTURE: "pairs", "BLOCK": None},
    ]
    steps = steps_between(points)
    assert steps[0].tolist() == [0.0, 2.0, 3.0, 2.0]
    assert np.array_equal(steps, steps.T)


def test_what_was_measured_corrects_the_model_near_it_and_leaves_it_alone_far_away():
    steps = steps_between(line(16, 32, 64, 128, 256, 512, 1024, 2048))
    predicted = np.log(np.full(8, 100.0))
    belief = corrected(steps, predicted, [0], [math.log(200.0)])
    assert belief.mean[0] == pytest.approx(math.log(200.0), abs=0.02)
    assert belief.mean[0] > belief.mean[1] > belief.mean[7] > predicted[7]
    assert belief.deviation[0] < belief.deviation[1] < belief.deviation[7] < SPREAD + 1e-9
    nothing = corrected(steps, predicted, [], [])
    assert np.array_equal(nothing.mean, predicted)


def test_the_expected_gain_is_that_of_a_normal_distribution():
    belief = Belief(np.array([0.0, 0.5, math.inf]), np.array([0.2, 0.2, 0.2]))
    draws = np.random.default_rng(0).normal(belief.mean[:2, None], 0.2, (2, 400_000))
    simulated = np.maximum(0.1 - draws, 0.0).mean(axis=1)
    assert expected_gain(belief, 0.1)[:2] == pytest.approx(simulated, abs=2e-3)
    assert expected_gain(belief, 0.1)[2] == pytest.approx(0.0)


def test_the_predicted_fastest_is_asked_for_first_and_nothing_twice():
    guide = Guide(line(16, 32, 64, 128))
    for place, time_us in ((3, 10.0), (0, 40.0), (2, 20.0)):
        guide.ready(place, time_us, 50.0)
    assert guide.waiting == 3
    assert guide.gain() == 1.0, "nothing was measured yet"
    assert asked(guide) == [3, 2, 0], "the one that is not compiled is not asked for"
    guide.ready(1, 30.0, 50.0)
    assert asked(guide) == [1]


def test_a_measured_time_changes_what_is_asked_for_next():
    blocks = (16, 32, 64, 512, 1024)
    guide = Guide(line(*blocks))
    for place, time_us in enumerate((10.0, 11.0, 60.0, 60.0, 12.0)):
        guide.ready(place, time_us, 50.0)
    assert guide.ask() == 0
    guide.tell(0, 25.0)  # the model is far too fast for small blocks
    assert guide.ask() == 4


def test_what_broke_a_constraint_teaches_nothing_about_time_and_is_not_asked_for_again():
    points = line(16, 32, 64)
    ready = dict(enumerate(np.log([10.0, 11.0, 12.0])))
    sampler = CorrectedModelSampler(points, lambda: ready)
    study = optuna.create_study(sampler=sampler)
    trial = study.ask(sampler.space)
    trial.set_constraint("gate", 1.0)
    study.tell(trial, 1e9)
    assert sampler.place(trial.params) == 0
    assert np.array_equal(sampler.belief(study).mean, list(ready.values()))
    assert sampler.place(study.ask(sampler.space).params) == 1

    guide = Guide(points)
    for place, log in ready.items():
        guide.ready(place, math.exp(log), 50.0)
    guide.refuse(0, "spills")
    assert asked(guide) == [1, 2]


def test_what_an_earlier_run_measured_is_told_and_not_asked_for():
    guide = Guide(line(16, 32, 64))
    for place, time_us in enumerate((10.0, 11.0, 12.0)):
        guide.ready(place, time_us, 50.0)
    guide.tell(0, 30.0)
    guide.tell(1, 5.0)
    assert asked(guide) == [2]


def test_no_version_has_to_be_faster_than_one_that_was_given_up():
    guide = Guide(line(64, 128, 2048))
    for place, predicted in enumerate((150.0, 120.0, 100.0)):
        guide.ready(place, predicted, 150.0)
    guide.tell(0, 150.0)
    expected = guide.gain()
    guide.teach(1, 1.0)
    assert guide.gain() >= expected > 0.2
    assert guide.ask() == 2


def test_little_is_expected_of_what_is_predicted_to_be_far_slower_than_the_best():
    guide = Guide(line(16, 32, 64, 128, 256))
    for place, time_us in enumerate((10.0, 30.0, 60.0, 120.0, 9.0)):
        guide.ready(place, time_us, 50.0)
    guide.tell(0, 10.0)
    assert guide.gain() > 0.02, "the last one may be better"
    guide.tell(4, 9.0)
    assert guide.gain() < 0.02
    for place in (1, 2, 3):
        guide.refuse(place, "compiles")
    assert guide.gain() == 0.0


def test_a_version_without_a_prediction_is_taken_to_be_as_good_as_the_original():
    guide = Guide(line(16, 32, 64))
    guide.ready(0, 20.0, 15.0)
    guide.ready(1, math.inf, 15.0)
    guide.ready(2, 10.0, 15.0)
    assert asked(guide) == [2, 1, 0]


def test_nothing_of_optuna_is_loaded_before_a_search_runs():
    code = (
        "import sys, tritonforge.optimize, tritonforge.cli.main, tritonforge.cli.commands.optimize\n"
        "assert 'optuna' not in sys.modules\n"
        "from tritonforge.optimize.guide import Guide\n"
        "assert 'optuna' not in sys.modules\n"
        "guide = Guide([{'structure': '', 'BLOCK': 16}]); guide.ready(0, 1.0, 1.0); guide.ask(); guide.tell(0, 1.0)\n"
        "assert 'optuna' in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
