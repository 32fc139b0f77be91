"""What cannot be known, or cannot be, gets no time; what has to be guessed gets a wide interval."""

import math
from dataclasses import replace

import pytest
from compilation_golden import compilations

from tritonforge.domain.compilation import Occupancy, Pace, Work
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Tensor
from tritonforge.domain.profile import Ceilings
from tritonforge.prediction import Footprint, footprint_of, gpu_for, predict
from tritonforge.prediction.model import HIGHEST, SPREAD_GUESSED

H200 = gpu_for("sm_90")
MATMUL = compilations("pathologies-3.6.0")["matmul_good"]
HISTOGRAM = compilations("pathologies-3.6.0")["histogram_atomic"]
NAN, INF = math.nan, math.inf


def told(facts, spec=H200, ceilings=None, footprint=1 << 27):
    return predict(facts, footprint, spec, ceilings)


def with_lines(facts, **values):
    lines = {number: replace(line, **values) for number, line in facts.work.lines.items()}
    return replace(facts, work=replace(facts.work, lines=lines))


@pytest.mark.parametrize(
    "changes",
    [
        {"programs": 0},
        {"programs": -1},
        {"programs": 10**30},
        {"programs": 10**400},
        {"num_warps": 0},
        {"num_warps": -4, "occupancy": None},
        {"occupancy": Occupancy(0.0, 0, 0, "shared-memory")},
        {"work": None},
        {"error": "out of resource: shared memory"},
    ],
)
def test_a_launch_that_cannot_run_is_predicted_no_time(changes):
    assert told(replace(MATMUL, **changes)) is None


@pytest.mark.parametrize("name", ["executions", "load_bytes", "moved_bytes"])
@pytest.mark.parametrize("value", [NAN, INF])
def test_counts_that_are_no_numbers_give_no_time(name, value):
    assert told(with_lines(HISTOGRAM, **{name: value})) is None


def test_negative_counts_and_sizes_give_no_time():
    assert told(with_lines(HISTOGRAM, executions=-1.0)) is None
    assert told(MATMUL, footprint=-5) is None
    broken = {n: replace(one, pace=Pace(NAN)) for n, one in MATMUL.instructions.items()}
    assert told(replace(MATMUL, instructions=broken)) is None


@pytest.mark.parametrize("name", ["executions", "load_bytes", "atomic_ops", "dot_flops"])
def test_huge_counts_do_not_overflow(name):
    found = told(with_lines(HISTOGRAM, **{name: 1e200}))
    assert 0 < found.interval[0] < found.time_us < found.interval[1] < INF


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
def test_ceilings_that_were_measured_wrongly_are_replaced_by_public_ones(value):
    public = told(MATMUL)
    dtype = MATMUL.work.dot_dtype
    broken = Ceilings("NVIDIA H200", value, {dtype: value}, value)
    assert told(MATMUL, ceilings=broken).time_us == pytest.approx(public.time_us)
    half = Ceilings("NVIDIA H200", value, {}, 10.0)
    assert told(MATMUL, ceilings=half).parts["launch"] == 10.0


@pytest.mark.parametrize("value", [0.0, NAN])
def test_programs_of_which_none_is_known_to_be_longer_are_taken_to_be_alike(value):
    alike = replace(MATMUL, work=replace(MATMUL.work, imbalance=1.0))
    odd = replace(MATMUL, work=replace(MATMUL.work, imbalance=value))
    assert told(odd).time_us == told(alike).time_us


def test_little_that_is_known_is_enough_but_never_sure():
    empty = replace(MATMUL, work=Work({}), instructions={}, dots=None, loops=None, accesses=None, occupancy=None)
    found = told(empty, footprint=None)
    assert found.interval[1] == pytest.approx(SPREAD_GUESSED * found.time_us)


@pytest.mark.parametrize(
    ("facts", "spec"),
    [
        (replace(MATMUL, occupancy=None), H200),
        (replace(MATMUL, instructions={}), H200),
        (replace(MATMUL, work=replace(MATMUL.work, exact=False)), H200),
        (MATMUL, gpu_for("sm_90", "NVIDIA H20")),
        (MATMUL, gpu_for("sm_86")),
        (replace(MATMUL, arch="gfx942"), gpu_for("gfx942")),
    ],
)
def test_what_was_guessed_or_stands_in_for_something_else_widens_the_interval(facts, spec):
    sure, found = told(MATMUL), told(facts, spec)
    assert sure.interval[1] == pytest.approx(HIGHEST * sure.time_us)
    assert found.interval[1] == pytest.approx(SPREAD_GUESSED * found.time_us)


def test_tensors_of_no_elements_hold_nothing():
    nothing = Tensor((0, 4096), (4096, 1), "float32")
    site = CallSite("k.py", 1, "f")
    launch = Launch("l", "k.py", "k", Problem((("x", nothing),)), Config((), (), (0, 1, 1)), site)
    assert footprint_of(launch) == Footprint(0, {"x": 0})
    assert told(MATMUL, footprint=footprint_of(launch)).time_us < told(MATMUL).time_us
    assert told(replace(MATMUL, programs=0), footprint=footprint_of(launch)) is None
