"""Inputs past what was recorded, and past the numbers that a candidate adds to the text."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib

import numpy as np
import pytest

from tritonforge.domain.launch import Call, CallSite, Distribution, ExactValues, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import InputOutcome, Program
from tritonforge.verify.asking import asked
from tritonforge.verify.costly import LONGEST, TOO_MUCH, costly
from tritonforge.verify.grouping import Groups
from tritonforge.verify.inputs import variations
from tritonforge.verify.literals import Literal, literals_added, new_literals
from tritonforge.verify.reaching import Reached, reaching, unreached_sentence
from tritonforge.verify.resizing import places
from tritonforge.verify.signature import Parameter


def tensor(*shape: int, **options) -> Tensor:
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return dataclasses.replace(Tensor(shape, tuple(strides), "float32"), **options)


def launch(*grid: int, **constexprs: int) -> RecordedLaunch:
    given = tuple((name, Scalar(value)) for name, value in constexprs.items())
    return RecordedLaunch("m.py", "kernel", 1, (), given, (), (*grid, 1, 1)[:3], CallSite("m.py", 9, "f"))


def alone(accepts=lambda *_: True, *, seconds: float = 0.1, check: str = ""):
    async def run(call: Call) -> InputOutcome:
        if accepts(*call.arguments):
            return InputOutcome("equal", outputs=1, seconds=seconds)
        return InputOutcome("original-failed", "refused", check=check)

    return run


def free(call: Call) -> Groups:
    return Groups(tuple((place,) for place in places(call)))


VECTOR = Call("", "m.py", "f", (tensor(98432),), launches=(launch(97, BLOCK=1024),))
ROWS = Call("", "m.py", "f", (tensor(256, 5000),), launches=(launch(256, BLOCK=512),))


def extra(call: Call, run=None):
    found = asyncio.run(costly(call, free(call), run or alone(), seed=1))
    return {v.about: v.call for v in found.variations}, dict(found.skipped)


def test_a_call_is_tried_at_its_recorded_sizes_where_it_can_be_interpreted():
    made, _ = extra(VECTOR)
    assert made["as recorded"].arguments == VECTOR.arguments
    many = dataclasses.replace(VECTOR, launches=(launch(700, BLOCK=1024),))
    made, skipped = extra(many)
    assert "as recorded" not in made
    assert "GPU" in skipped["as recorded"]


def test_what_takes_long_is_left_to_a_gpu():
    _, skipped = extra(VECTOR, alone(seconds=LONGEST + 1))
    assert "GPU" in skipped["as recorded"]


def test_a_loop_gets_longer_than_it_was_recorded_while_other_sizes_are_next_to_nothing():
    made, _ = extra(ROWS)
    rows, columns = made["a longer loop than recorded, with a tail"].arguments[0].shape
    assert rows <= 3
    assert columns > 5000 + 512
    assert columns % 2


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_wide_integers_take_the_whole_range_of_their_type_one_argument_at_a_time(dtype):
    few = ExactValues(zlib.compress(np.array([3, 1, 2] * 100, dtype=dtype).tobytes()))
    call = Call("", "m.py", "f", (tensor(300, dtype=dtype, values=few), tensor(300, dtype=dtype, values=few)))
    made, _ = extra(call)
    first, second = (made[f"argument {at}: integers over the whole range of their type"] for at in (0, 1))
    assert first.arguments[0].values.high == float(np.iinfo(dtype).max)
    assert isinstance(first.arguments[1].values, ExactValues)
    assert isinstance(second.arguments[0].values, ExactValues)


@pytest.mark.parametrize("values", [Distribution("offsets", low=0, high=9), np.arange(300)], ids=["drawn", "exact"])
def test_offsets_are_never_drawn_from_the_whole_range(values):
    if isinstance(values, np.ndarray):
        values = ExactValues(zlib.compress(values.astype(np.int32).tobytes()))
    made, _ = extra(Call("", "m.py", "f", (tensor(300, dtype="int32", values=values),)))
    assert not any("whole range" in about for about in made)


def test_an_ignored_label_becomes_another_label_and_the_elements_follow():
    labels = np.array([-100, 3, 5, 4] * 10, dtype=np.int64)
    values = ExactValues(zlib.compress(labels.tobytes()))
    call = Call("", "m.py", "f", (tensor(40, 64), tensor(40, dtype="int64", values=values)))
    parameters = (
        Parameter("x", positional=True),
        Parameter("labels", positional=True),
        Parameter("ignore", positional=True, default=Scalar(-100)),
    )

    async def accepts_all(calls):
        return [InputOutcome("equal", outputs=1) for _ in calls]

    found = asyncio.run(asked(call, Groups(()), accepts_all, seed=1, parameters=parameters)).variations
    (least,) = [v.call for v in found if v.about == "ignore = 3, which some elements are"]
    assert dict(least.keywords)["ignore"] == Scalar(3)
    moved = np.frombuffer(zlib.decompress(least.arguments[1].values.data), dtype=np.int64)
    assert (moved == np.where(labels == -100, 3, labels)).all()


BEFORE = """
@triton.jit
def k(x, n, B: tl.constexpr):
    pid = tl.program_id(0)
    for i in range(0, n, B):
        pass


def f(x):
    n = x.numel()
    k[(triton.cdiv(n, 1024),)](x, n, B=1024)
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("range(0, n, B)", "range(0, min(n, 10 * B), B)", (10, True, True, False)),
        ("(triton.cdiv(n, 1024),)", "(min(188, triton.cdiv(n, 1024)),)", (188, True, False, True)),
        ("(triton.cdiv(n, 1024),)", "(97,)", (97, True, False, True)),
        ("        pass", "        if i < 1 << 17:\n            pass", (131072, True, False, False)),
        ("n = x.numel()", "n = x.numel() - 24", (24, False, False, False)),
    ],
    ids=["tiles", "programs", "grid", "shifted", "plain"],
)
def test_new_numbers_are_found_with_what_they_count(old, new, expected):
    (one,) = literals_added(BEFORE, BEFORE.replace(old, new, 1))
    assert (one.value, one.compared, one.tiles, one.programs) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1024", "512"),
        ("B=1024", "B=1024, num_warps=6"),
        ("x.numel()", "max(x.numel(), 1)"),
        ("pass", "tl.arange(0, 64)"),
    ],
    ids=["tile", "warps", "one", "shape"],
)
def test_numbers_that_say_how_work_is_cut_are_no_limits(old, new):
    assert literals_added(BEFORE, BEFORE.replace(old, new)) == ()


@pytest.mark.parametrize(
    ("old", "new", "exactly"),
    [
        ("n = x.numel()", "n = 781 if x.shape[0] == 781 else x.numel()", True),
        ("n = x.numel()", "n = 4096 if x.shape[0] in (1, 4096) else x.numel()", True),
        ("n = x.numel()", "n = {4096: 4096}.get(x.shape[0], x.numel())", True),
        ("n = x.numel()", "w = 4096\n    n = w if x.shape[0] == w else x.numel()", True),
        ("\n@triton.jit", "\nw = 4096\n@triton.jit", False),
        ("        pass", "        if n != 4096:\n            pass", True),
        ("        pass", "        if n < 4096:\n            pass", False),
    ],
    ids=["equal", "one of some", "looked up", "named", "named only", "different", "below"],
)
def test_a_number_that_something_is_asked_to_be_is_told_from_a_limit(old, new, exactly):
    found = literals_added(BEFORE, BEFORE.replace(old, new, 1))
    assert any(one.exactly and one.value in (781, 4096) for one in found) is exactly


def test_a_name_of_another_scope_stands_for_no_number():
    named = BEFORE.replace("\n@triton.jit", "\nw = 4096\n@triton.jit", 1)
    edited = named.replace("n = x.numel()", "n = 3 if len(x) == w else 4")
    assert any(one.value == 4096 and one.exactly for one in literals_added(named, edited))
    shadowed = edited.replace("def f(x):", "def f(x, w):")
    assert not any(one.exactly for one in literals_added(named, shadowed))


def test_numbers_are_read_off_the_files_that_differ(tmp_path):
    (tmp_path / "m.py").write_text(BEFORE)
    edited = Program(str(tmp_path), "m.py", (("m.py", BEFORE.replace("(triton.cdiv(n, 1024),)", "(97,)")),))
    assert [one.value for one in new_literals(Program(str(tmp_path), "m.py"), edited)] == [97]


def reach(call: Call, literal: Literal, run=None, *, tile: int) -> Reached:
    usual = variations(call, free(call), tile=tile, seed=1)
    return asyncio.run(reaching(call, free(call), [literal], run or alone(), usual=usual, tile=tile, seed=1))


def test_more_programs_run_than_a_grid_names():
    found = reach(VECTOR, Literal(188, 9, compared=True, programs=True), tile=1024)
    assert max(-(-v.call.arguments[0].elements // 1024) for v in found.variations) > 188
    assert not found.unreached


def test_more_tiles_are_gone_through_than_a_loop_names():
    found = reach(ROWS, Literal(10, 9, compared=True, tiles=True), tile=512)
    assert any(v.call.arguments[0].shape[1] > 5120 and v.call.arguments[0].shape[0] <= 3 for v in found.variations)


def test_a_size_is_just_the_number_that_a_candidate_asks_for_and_rows_are_apart():
    found = reach(ROWS, Literal(300, 9, compared=True, exactly=True), tile=512)
    exact = [v.call.arguments[0] for v in found.variations if "just 300" in v.about]
    assert {x.shape for x in exact} == {(300, 3), (2, 300)}
    assert all(x.strides[0] > x.shape[1] for x in exact)
    dense = alone(lambda x: x.strides[0] == x.shape[1])
    exact = reach(ROWS, Literal(300, 9, compared=True, exactly=True), dense, tile=512).variations
    assert [v.call.arguments[0].strides for v in exact if "just 300" in v.about] == [(3, 1), (300, 1)]


def test_a_number_that_no_input_can_reach_is_said():
    found = reach(VECTOR, Literal(5000, 9, compared=True, programs=True), tile=1024)
    assert [one.value for one in found.unreached] == [5000]
    assert "line 9" in unreached_sentence(found.unreached)
    assert "5000, which no input here reaches" in unreached_sentence(found.unreached)
    assert not unreached_sentence(())


def test_a_number_past_which_the_original_itself_ends_needs_no_crossing():
    literal = Literal(600_000, 9, compared=True)
    assert not reach(VECTOR, literal, alone(lambda x: x.elements < 100_000), tile=1024).unreached
    assert reach(VECTOR, literal, alone(lambda x: x.elements < 100_000, check=TOO_MUCH), tile=1024).unreached


ATTENTION = Call(
    "",
    "m.py",
    "f",
    (tensor(2, 8, 512, 64), tensor(2, 8, 512, 64)),
    launches=(launch(16, 16, M=32, D=64),),
)


def sizes_of(seconds: float) -> set[int]:
    groups: dict[int, list] = {}
    for place in places(ATTENTION):
        groups.setdefault(place.size, []).append(place)
    tied = Groups(tuple(tuple(group) for group in groups.values()), operations=int(seconds / 15e-6))
    return {v.call.arguments[0].shape[2] for v in variations(ATTENTION, tied, tile=64, seed=1)}


def test_heavy_programs_that_loop_over_what_they_count_stay_few():
    heavy, light = sizes_of(16 * 0.02), sizes_of(16 * 0.0005)
    assert max(light) > 512
    assert 64 < max(heavy) < 200


def test_a_call_of_heavy_programs_is_left_to_a_gpu_unasked():
    groups = dataclasses.replace(free(VECTOR), operations=70_000)
    asked_about = []

    async def run(call: Call) -> InputOutcome:
        asked_about.append(call.arguments[0].shape)
        return InputOutcome("equal", outputs=1)

    found = asyncio.run(costly(VECTOR, groups, run, seed=1))
    assert (98432,) not in asked_about
    assert "as recorded" in dict(found.skipped)


def test_an_integer_that_is_no_size_shrinks_with_the_sizes_and_passes_32_bits():
    call = Call("", "m.py", "route", (tensor(4096, 64), Scalar(3072)))
    chosen = [made.arguments for made in extra(call)[0].values()]
    assert any(1 < capacity.value < rows.shape[0] for rows, capacity in chosen)
    assert any(capacity.value == 3072 + (1 << 32) for _, capacity in chosen)


def test_what_was_seen_to_take_too_long_is_not_asked_about():
    """A size of which each element takes many operations is not made longer than it was recorded."""
    groups = free(ROWS)
    dear = Groups(groups.groups, alone=tuple(1.1 * LONGEST / 15e-6 / place.size for (place,) in groups.groups))
    about = "a longer loop than recorded, with a tail"
    for known, is_asked in ((groups, True), (dear, False)):
        found = asyncio.run(costly(ROWS, known, alone(), seed=1))
        assert (about in {one.about for one in found.variations}) is is_asked
        assert (about in dict(found.skipped)) is not is_asked
