"""Intervals: the same kernel is not called faster, a faster one is, and the roofline says which bound holds."""

from __future__ import annotations

import random

import pytest

from tritonforge.domain.launch import Call, CallSite, RecordedLaunch
from tritonforge.domain.messages import TimedLaunch, TimedProgram, TimeResult
from tritonforge.domain.profile import Ceilings
from tritonforge.profiling.measuring import measure
from tritonforge.profiling.roofline import roofline
from tritonforge.profiling.statistics import ratio_interval, summarise

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
    import asyncio

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
