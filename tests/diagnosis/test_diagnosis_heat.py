"""Where the time goes: stall samples where there are any, else the model's parts spread over the lines."""

from __future__ import annotations

import dataclasses

import pytest
from diagnosis_cases import copy_case, line_of, matmul, matmul_case, predicted
from diagnosis_h200 import LABELS, levels

from tritonforge.diagnosis.assessment import Assessed
from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.heat import heat_of
from tritonforge.domain.counters import Counters, LineCounters

ALL = levels("3.6.0")


@pytest.mark.parametrize("name", LABELS)
def test_shares_add_up_and_lie_inside_the_kernel(name: str):
    for level, provenance in (("compiled", "predicted"), ("all", "measured")):
        case = ALL[name][level]
        heat = heat_of(case)
        assert heat.provenance == provenance
        assert sum(line.share for line in heat.lines.values()) == pytest.approx(1.0, abs=0.05)
        assert all(case.kernel.range.start.line <= n <= case.kernel.range.end.line for n in heat.lines)


def test_the_model_finds_the_sampled_hottest_line_among_its_two_hottest_in_most_launches():
    """Samples land on the instruction that waits, often a line behind the one that loads: two lines are close enough."""

    def hottest(case: Case, most: int) -> list[int]:
        lines = heat_of(case).lines
        return sorted(lines, key=lambda n: -lines[n].share)[:most]

    agreed = [n for n in LABELS if hottest(ALL[n]["all"], 1)[0] in hottest(ALL[n]["compiled"], 2)]
    assert len(agreed) >= 15, sorted(set(LABELS) - set(agreed))


def test_samples_win_over_the_model():
    case = ALL["softmax_three_pass"]["all"]
    assert heat_of(case).provenance == "measured"
    unsampled = dataclasses.replace(case, counters=Counters("ncu", "k", metrics={"dram_throughput": 0.5}))
    assert heat_of(unsampled).provenance == "predicted"


def test_stall_reasons_are_shares_of_their_own_line():
    case = copy_case(1024)
    line = case.kernel.accesses[0].range.start.line
    lines = {line: LineCounters(30, {"long_scoreboard": 20, "wait": 10, "barrier": 0}), line + 1: LineCounters(10)}
    heat = heat_of(dataclasses.replace(case, counters=Counters("pcsampling", "copy", lines=lines)))
    assert heat.lines[line].share == 0.75
    assert heat.lines[line].stalls == {"long_scoreboard": pytest.approx(2 / 3), "wait": pytest.approx(1 / 3)}


def test_the_dominant_part_decides_which_lines_are_hot():
    case = matmul_case(64, 64)
    source = matmul(64, 64)
    loads, dot = line_of(source, "x = tl.load"), line_of(source, "tl.dot(")
    fed = heat_of(dataclasses.replace(case, prediction=predicted(100.0, "tensor", tensor=100.0, l2=20.0)))
    assert max(fed.lines, key=lambda n: fed.lines[n].share) == dot
    starved = heat_of(dataclasses.replace(case, prediction=predicted(100.0, "l2", tensor=20.0, l2=100.0)))
    assert starved.lines[loads].share > 0.4
    assert dot not in starved.lines


def test_without_a_model_or_samples_nothing_is_claimed():
    assert heat_of(Case(copy_case(1024).kernel)).lines == {}
    assert heat_of(copy_case(1024)).lines == {}
    zero = dataclasses.replace(copy_case(1024), prediction=predicted(3.0, "launch", launch=3.0))
    assert heat_of(zero).lines == {}


def test_an_assessment_says_how_the_programs_fill_the_gpu_it_is_judged_by():
    case = ALL["transpose_naive"]["compiled"]
    assessed = Assessed(case.launch, None, case.compilation, case.prediction, None, None, case)
    filled = assessed.assessment.waves
    per_sm = case.compilation.occupancy.programs_per_sm
    assert filled.slots == 132 * per_sm
    assert filled.full * filled.slots + filled.tail_programs == 128 * 128
    unjudged = dataclasses.replace(assessed, case=dataclasses.replace(case, gpu=None))
    assert unjudged.assessment.waves is None
