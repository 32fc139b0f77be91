"""What makes a performance finding right, and how the launches are measured that decide it (`benchmarks/score_*.py`)."""

import dataclasses
import sys
from pathlib import Path

import pytest

from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.domain.finding import Finding
from tritonforge.domain.launch import Call, KernelLaunch, Scalar
from tritonforge.domain.provenance import Evidence
from tritonforge.domain.source import Range
from tritonforge.profiling.nsight import ReportedLaunch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import score_checks
import score_child
import score_findings
from score_collect import Claim


def finding(code, severity="warning", **evidence):
    table = {name: Evidence(value, "1", "compiled") for name, value in evidence.items()}
    return Finding(code, "a-name", severity, "k.py", Range.of(7, 1, 8, 1), "It is so.", "compiled", table)


def seen(what, time_us=100.0, metrics=None, lines=None, stalls=None, **more):
    counters = Counters("ncu", "k", time_us=time_us, metrics=metrics or {}, stalls=stalls or {}, lines=lines or {})
    return score_checks.Seen(what, counters, time_us, lines=(7, 7), floor_us=10.0, **more)


def test_a_warning_about_sectors_is_right_where_lines_waste_them():
    lines = {7: LineCounters(sectors=100, ideal_sectors=20), 9: LineCounters(sectors=40, ideal_sectors=40)}
    metrics = {"global_sectors": 140.0, "ideal_global_sectors": 60.0}
    assert score_checks.judged(seen(finding("TF101"), metrics=metrics, lines=lines))[0] is True
    lines[9] = LineCounters(sectors=400, ideal_sectors=400)
    assert score_checks.judged(seen(finding("TF101"), metrics=metrics, lines=lines))[0] is False


@pytest.mark.parametrize(("change", "right"), [({}, True), ({"time_us": 11.0}, False), ({"dram": 0.9}, False)])
def test_a_warning_is_wrong_where_there_is_nothing_to_gain(change, right):
    metrics = {"local_sectors": 50.0, "global_sectors": 100.0, "dram_throughput": change.pop("dram", 0.2)}
    assert score_checks.judged(seen(finding("TF106"), metrics=metrics, **change))[0] is right


def test_bytes_that_no_lane_asks_for_are_not_needed():
    lines = {7: LineCounters(sectors=100, ideal_sectors=10)}
    metrics = {"global_sectors": 100.0, "ideal_global_sectors": 10.0, "l2_throughput": 0.9}
    strided = seen(finding("TF101"), time_us=11.0, metrics=metrics, lines=lines, useful_bytes=3200.0)
    assert strided.least_us == pytest.approx(1.0)
    assert score_checks.judged(strided)[0] is True
    dense = dataclasses.replace(strided, useful_bytes=320.0)
    assert score_checks.judged(dense)[0] is False


@pytest.mark.parametrize(("samples", "right"), [(90, True), (10, False)])
def test_dots_without_matrix_instructions_may_wait_for_shared_memory(samples, right):
    lines = {7: LineCounters(samples=samples), 8: LineCounters(samples=100 - samples)}
    metrics = {"tensor_active": 0.0, "fma_active": 0.1, "issue_active": 0.15}
    what = finding("TF201", dot_time_on_tensor_cores=2.0)
    assert score_checks.judged(seen(what, metrics=metrics, lines=lines))[0] is right


def test_information_needs_the_fact_alone():
    metrics = {"local_sectors": 1.0, "global_sectors": 100.0, "dram_throughput": 0.9}
    assert score_checks.judged(seen(finding("TF106", "information"), metrics=metrics))[0] is True


def test_what_was_not_counted_is_not_judged():
    for code in score_checks.CHECKS:
        blind = dataclasses.replace(seen(finding(code, atomic_time=1e6)), counters=Counters("ncu", "k"))
        assert score_checks.judged(blind)[0] is not True


def test_a_treatment_decides_where_fewer_warps_help():
    small = finding("TF304", start_time=900.0)
    assert score_checks.treatments(small, {"num_warps": 4}) == {
        "num_warps=2": {"num_warps": 2}, "num_warps=1": {"num_warps": 1},
    }  # fmt: skip
    assert score_checks.judged(seen(small, treated_us={"num_warps=2": 99.0}))[0] is False
    assert score_checks.judged(seen(small, treated_us={"num_warps=2": 99.0, "num_warps=1": 60.0}))[0] is True


def test_hints_and_what_no_counter_decides_are_left_out():
    assert score_checks.is_scored(finding("TF103"))
    assert score_checks.is_scored(finding("TF303", "information"))
    assert not score_checks.is_scored(finding("TF103", "information"))
    assert not score_checks.is_scored(finding("TF302", "hint"))
    assert not score_checks.is_scored(finding("TF404", "information"))


def test_every_rule_that_is_scored_says_what_makes_it_right():
    for code, check in score_checks.CHECKS.items():
        assert (check.__doc__ or "").startswith(f"{code}: ")
    assert score_checks.CHECKS.keys() >= score_checks.INFORMATION


def reported(grid):
    return ReportedLaunch(name="k", grid=grid)


def test_a_launch_that_the_profiler_lost_shifts_no_other():
    made = [("a", (1, 1, 1)), ("b", (2, 1, 1)), ("c", (3, 1, 1))]
    found = score_findings.paired(made, [reported((1, 1, 1)), reported((3, 1, 1))])
    assert [(one, launch.grid[0]) for one, launch in found] == [("a", 1), ("c", 3)]


def claim(code, corpus, source, severity="warning"):
    what = dataclasses.replace(finding(code, severity), file=f"{source}.py")
    call = Call("", "k.py", "k", (), (("BLOCK", Scalar(64)),), kernel_launch=KernelLaunch(("1",)))
    return Claim(corpus, source, what, "k", "l", None, call, None, 0.0, None, None, None, (7, 7))


def test_rules_and_corpora_take_turns_and_warnings_come_first():
    queue = score_findings.Queue()
    queue.add([claim("TF302", "a", f"a{n}") for n in range(6)])
    queue.add([claim("TF302", "b", "b"), claim("TF101", "a", "c"), claim("TF303", "a", "d", "information")])
    order = queue.next(9)
    assert set(order[:3]) == {"a0/l", "b/l", "c/l"}
    assert order.index("d/l") > order.index("a2/l")
    queue.begun.update(order[:8])
    assert queue.next(9) == order[8:]
    assert queue.next(9, but=order[8:]) == []


def test_of_one_place_the_first_finding_counts():
    pool = score_findings.Pool()
    assert len(pool.add([claim("TF302", "a", "a"), claim("TF103", "a", "a")])) == 2
    assert pool.add([claim("TF302", "a", "a")]) == []
    assert len(pool.new()) == 2
    assert pool.new() == []


def test_a_treatment_changes_options_and_constexprs():
    call = Call("", "k.py", "k", (), (("BLOCK", Scalar(64)), ("n", Scalar(3))),
                kernel_launch=KernelLaunch(("1",), (("num_warps", Scalar(4)),)))  # fmt: skip
    treated = score_child.with_options(call, {"num_warps": 8, "BLOCK": 128, "num_stages": 2})
    assert dict(treated.keywords) == {"BLOCK": Scalar(128), "n": Scalar(3)}
    assert dict(treated.kernel_launch.options) == {"num_warps": Scalar(8), "num_stages": Scalar(2)}


def test_what_was_measured_is_read_again_as_it_was_written(tmp_path):
    row = score_findings.Row(
        "TF101 k.py::k:7", "a", "s", finding("TF101", share=0.5), "l", (("num_warps", 4),), 1.0, 2.0, None, (7, 7),
        (("", 5.0),), Counters("ncu", "k", metrics={"sms": 132.0}, lines={7: LineCounters(samples=1)}),
    )  # fmt: skip
    kept = score_findings.Kept("2026-01-01", (("gpu", "H200"),), (row,))
    score_findings.write(tmp_path / "kept.json.xz", kept)
    assert score_findings.load(tmp_path / "kept.json.xz") == kept
    assert row.verdict()[0] is None
