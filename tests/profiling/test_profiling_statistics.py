"""Intervals: the same kernel is not called faster, a faster one is, and the roofline says which bound holds."""

from __future__ import annotations

import asyncio
import random

import pytest

from tritonforge.domain.launch import Call, CallSite, RecordedLaunch
from tritonforge.domain.messages import Failure, Program, TimedLaunch, TimedProgram, TimeResult
from tritonforge.domain.profile import Ceilings
from tritonforge.jobs import JobError
from tritonforge.profiling.measuring import Samples, measure
from tritonforge.profiling.roofline import roofline
from tritonforge.profiling.statistics import noise_floor, outliers, ratio_interval, summarise, verdict

H200 = Ceilings("NVIDIA H200", 4300.0, {"fp16": 718.0, "fp32": 51.0}, 3.0)


def samples(median: float, spread: float, seed: int, n: int = 40) -> list[float]:
    generator = random.Random(seed)
    return [median * (1 + generator.gauss(0, spread)) for _ in range(n)]


def test_the_interval_of_a_median_holds_the_true_one():
    holds = 0
    for seed in range(100):
        low, high = summarise(samples(100.0, 0.02, seed)).ci95
        holds += low <= 100.0 <= high
    assert holds >= 90


def test_two_runs_of_one_kernel_are_rarely_told_apart_and_never_by_three_percent():
    wrong = 0
    for seed in range(100):
        ratio, (low, high) = ratio_interval(samples(50.0, 0.02, seed), samples(50.0, 0.02, seed + 1000))
        assert abs(ratio - 1) < 0.03
        wrong += not low <= 1.0 <= high
    assert wrong <= 8


def test_a_kernel_that_is_a_tenth_faster_is_called_faster():
    ratio, (low, high) = ratio_interval(samples(110.0, 0.02, 1), samples(100.0, 0.02, 2))
    assert low > 1.0
    assert low <= ratio <= high
    assert ratio == pytest.approx(1.1, abs=0.02)


def test_two_versions_are_different_only_when_the_interval_excludes_one():
    assert [verdict(interval) for interval in ((1.01, 1.2), (0.8, 0.99), (0.99, 1.01), (1.0, 1.1))] == [
        "faster",
        "slower",
        "same",
        "same",
    ]


def test_what_slows_both_down_alike_does_not_make_them_different():
    drift = [100.0 + i for i in range(60)]
    before = [value * noise for value, noise in zip(drift, samples(1.0, 0.001, 1, 60), strict=True)]
    after = [value * noise for value, noise in zip(drift, samples(1.0, 0.001, 2, 60), strict=True)]
    low, high = ratio_interval(before, after)[1]
    assert 0.99 < low < 1.0 < high < 1.01
    assert verdict((low, high)) == "same"


def test_samples_that_all_read_the_same_do_not_make_a_difference_below_the_clocks_step():
    assert verdict(ratio_interval([2.048] * 50, [2.016] * 50)[1]) == "same"
    assert verdict(ratio_interval([2.2] * 50, [2.016] * 50)[1]) == "faster"
    assert noise_floor(2.0) > 0.02 > noise_floor(100.0)


def test_a_lasting_difference_of_less_than_two_placements_of_one_kernel_is_no_difference():
    assert verdict(ratio_interval([100.4] * 50, [100.0] * 50)[1]) == "same"


def test_outliers_are_counted_and_do_not_move_the_median():
    quiet = samples(50.0, 0.005, 7, 60)
    disturbed = [*quiet[:57], 75.0, 120.0, 51_000.0]
    assert outliers(quiet) == 0
    assert summarise(disturbed).outliers == 3
    assert summarise(disturbed).median == pytest.approx(50.0, rel=0.005)


def test_the_same_samples_always_give_the_same_interval():
    assert summarise(samples(10.0, 0.1, 3)) == summarise(samples(10.0, 0.1, 3))


def test_without_samples_there_is_no_median():
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_a_copy_is_bound_by_memory_and_a_large_product_by_the_tensor_cores():
    copy = roofline(useful_bytes=8 * 2**26, flops=0, dtype=None, time_us=140.0, ceilings=H200)
    assert copy.bound == "memory"
    assert copy.achieved_gbps == pytest.approx(8 * 2**26 / 140.0 / 1e3)
    assert copy.fraction == pytest.approx(8 * 2**26 / 4300.0 / 1e3 / 140.0)
    product = roofline(useful_bytes=6 * 4096**2, flops=2 * 4096**3, dtype="fp16", time_us=200.0, ceilings=H200)
    assert product.bound == "compute"
    assert product.achieved_tflops == pytest.approx(687.2, rel=1e-3)
    assert product.fraction == pytest.approx(687.2 / 718.0, rel=1e-3)


def test_without_a_time_nothing_is_achieved():
    place = roofline(useful_bytes=1e6, flops=0, dtype=None, time_us=None, ceilings=H200)
    assert (place.achieved_gbps, place.achieved_tflops, place.fraction) == (None, None, None)


def test_no_fraction_of_a_roofline_is_above_one():
    assert roofline(useful_bytes=1e9, flops=0, dtype=None, time_us=228.0, ceilings=H200).fraction == 1.0


class Scripted:
    """A worker that answers one `Time` job."""

    def __init__(self, *programs: TimedProgram) -> None:
        self.answer = TimeResult(programs, ("a note",))

    async def run(self, _request, **_):
        return self.answer


def launch(name: str) -> RecordedLaunch:
    return RecordedLaunch("k.py", name, 1, (), (), (), (1, 1, 1), CallSite("k.py", 1, "f"))


def timed(*rows: tuple[str, tuple[float, ...]]) -> TimedProgram:
    return TimedProgram(tuple(TimedLaunch(launch(name), row) for name, row in rows))


def measured(*programs: TimedProgram):
    call = Call("c", "k.py", "f", ())
    found = measure(
        Scripted(*programs),
        [None] * len(programs),
        [call],
        kernel="k",
        identify=lambda r: r.kernel,
        samples=2,
        budget_s=1.0,
    )
    return asyncio.run(found)


def test_launches_are_matched_by_their_order_in_the_call():
    (before, after), notes = measured(
        timed(("first", (10.0, 11.0)), ("second", (5.0, 5.0))), timed(("x", (6.0, 6.0)), ("y", (4.0, 4.0)))
    )
    assert before.total() == (15.0, 16.0)
    assert after.by_launch == {"first": (6.0, 6.0), "second": (4.0, 4.0)}
    assert notes == ("a note",)


def test_a_candidate_with_more_launches_is_judged_by_their_sum():
    _, after = measured(timed(("only", (10.0, 10.0))), timed(("a", (2.0, 3.0)), ("b", (1.0, 1.0))))[0]
    assert after.by_launch == {"only": (3.0, 4.0)}


def test_a_candidate_that_fails_or_launches_nothing_has_an_error_and_no_samples():
    _, failed, silent = measured(timed(("only", (1.0,))), TimedProgram((), "illegal memory access"), TimedProgram(()))[
        0
    ]
    assert failed.error == "illegal memory access"
    assert silent.error == "it launches nothing"
    assert failed.total() == ()


def test_a_launch_made_several_times_counts_as_often_in_the_total():
    assert Samples({"a": (1.0, 2.0), "b": (10.0, 10.0)}, counts={"a": 3}).total() == (13.0, 16.0)


class Breaking:
    """A worker whose lane dies of programs that are named in `deadly`, as a GPU's does."""

    def __init__(self, deadly: dict[str, Failure], deadly_clock: str = "") -> None:
        self.deadly, self.deadly_clock, self.asked = deadly, deadly_clock, []

    async def run(self, request, **_):
        self.asked.append((tuple(p.file for p in request.programs), request.samples, request.clock))
        for program in request.programs:
            if program.file in self.deadly and self.deadly_clock in ("", request.clock):
                raise JobError(self.deadly[program.file])
        one = TimedProgram((TimedLaunch(launch("k"), (5.0,) * request.samples),))
        return TimeResult((one,) * len(request.programs), (), "events")


def of_programs(worker, *files):
    programs = [Program("/", file) for file in files]
    call = Call("c", "k.py", "f", ())
    return asyncio.run(
        measure(worker, programs, [call], kernel="k", identify=lambda r: r.kernel, samples=4, budget_s=1.0)
    )[0]


def test_a_candidate_that_breaks_the_gpu_is_found_and_the_others_are_timed():
    worker = Breaking({"b": Failure("cuda-error", "illegal memory access"), "d": Failure("timeout", "took too long")})
    found = of_programs(worker, "original", "b", "c", "d")
    assert [one.error for one in found] == [None, "illegal memory access", None, "took too long"]
    assert [len(one.total()) for one in found] == [4, 0, 4, 0]
    assert worker.asked[-1] == (("original", "c"), 4, "auto")


def test_an_original_that_breaks_the_gpu_is_an_error():
    with pytest.raises(JobError, match="illegal"):
        of_programs(Breaking({"original": Failure("cuda-error", "illegal memory access")}), "original", "b")
    with pytest.raises(JobError, match="illegal"):
        of_programs(Breaking({"original": Failure("cuda-error", "illegal memory access")}), "original")


def test_a_profiler_that_takes_the_worker_down_is_done_without():
    worker = Breaking({"original": Failure("crashed", "was killed by SIGSEGV")}, deadly_clock="auto")
    (found,) = of_programs(worker, "original")
    assert len(found.total()) == 4
    assert [clock for _, _, clock in worker.asked] == ["auto", "events"]


def test_many_outliers_are_said():
    rows = (10.0,) * 18 + (40.0, 90.0)
    _, notes = measured(timed(("only", rows)))
    assert any("2 of 20 samples of only are outliers, up to 90 us" in note for note in notes)
