"""Recorded integers when sizes change: numbers that are told of them follow, and what was made together stays together."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib

import numpy as np
import pytest

from tritonforge.config import load
from tritonforge.domain.launch import Call, CallSite, ExactValues, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import InputOutcome, Program, Tolerance
from tritonforge.jobs.session import open_session
from tritonforge.verify import Place
from tritonforge.verify.comparing import Comparer
from tritonforge.verify.grouping import OPERATIONS, Groups, find_groups, lightened
from tritonforge.verify.inputs import Variation, variations
from tritonforge.verify.judgement import Evidence, Tried
from tritonforge.verify.on_device import for_device, undefined
from tritonforge.verify.originals import Originals
from tritonforge.verify.resizing import KEPT, places, resize
from tritonforge.verify.sharing import Planned


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(shape, tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape))), dtype)


def integers(*values: int) -> Tensor:
    data = np.array(values, dtype=np.int32)
    exact = ExactValues(zlib.compress(data.tobytes()))
    return dataclasses.replace(tensor(len(values), dtype="int32"), values=exact)


def whole_numbers(found: Tensor) -> list[int]:
    return np.frombuffer(zlib.decompress(found.values.data), dtype=np.int32).tolist()


GROUPED = Call("", "m.py", "grouped", (tensor(2048, 700), integers(0, 700, 700, 2048), Scalar(1348), Scalar(3)))
"""Rows in three groups, where each begins, and how long the longest is."""


@pytest.mark.parametrize("rows", [20, 2000, 3000])
def test_the_length_of_the_longest_row_follows_where_rows_begin(rows):
    (place, *_) = (one for one in places(GROUPED) if one.size == 2048)
    _, begins, longest, three = resize(GROUPED, {place: rows}, seed=1).arguments
    assert longest.value == max(np.diff(whole_numbers(begins)))
    assert whole_numbers(begins)[-1] == rows
    assert three.value == 3


def test_a_number_beyond_every_index_follows_them_and_one_that_is_a_size_does_not():
    call = Call("", "m.py", "f", (tensor(512, 64), integers(7, 40, 99, 3), Scalar(100), Scalar(64)))
    rows, width, told = (place for place in places(call) if place.path != (1,))
    _, slots, above, number = resize(call, {rows: 20, width: 30, told: 30}, seed=1).arguments
    assert above.value == max(whole_numbers(slots)) + 1 <= 20
    assert number.value == 30


def longest_is_free(x, begins, longest, three):
    """What the original accepts does not depend on the number: programs beyond a row's end do nothing."""
    del longest, three
    return whole_numbers(begins)[-1] <= x.shape[0]


def test_a_number_that_is_told_of_integers_is_no_size_of_its_own_although_an_extent_is_as_long_by_chance():
    _, begins, _, three = GROUPED.arguments
    call = dataclasses.replace(GROUPED, arguments=(tensor(2048, 1348), begins, Scalar(1348), three))

    async def self_check(calls):
        return [InputOutcome("equal" if longest_is_free(*one.arguments) else "original-failed") for one in calls]

    groups = asyncio.run(find_groups(call, self_check)).groups
    assert {(place.path, place.axis) for group in groups for place in group} == {((0,), 0), ((0,), 1)}


def test_a_tensor_of_which_an_extent_is_kept_keeps_its_integers():
    call = Call("", "m.py", "f", (tensor(512, 64), integers(*range(100))))
    rows, width, slots = places(call)
    x, kept = resize(call, {rows: 20, width: 30, slots: KEPT}, seed=1).arguments
    assert x.shape == (20, 30)
    assert kept == call.arguments[1]


# --- Integers that were made together

SORTED = Call("", "m.py", "experts", (tensor(40, 96), integers(*range(80)), integers(*(i // 4 for i in range(20)))))
"""Rows, the slots of two for each, sorted, and whose each block of four slots is."""


def slots_of(x, slots, owners) -> InputOutcome:
    """Stand in for an original that writes the slots of each block to two places for each row."""
    given = whole_numbers(slots)
    if len(given) < 4 * owners.shape[0]:
        return InputOutcome("original-failed", "reads beyond the slots")
    written = [slot for slot in given[: 4 * owners.shape[0]] if slot < 2 * x.shape[0]]
    return InputOutcome(
        "equal",
        outputs=1,
        operations=100,
        overlapping=len(set(written)) < len(written),
        unwritten=2 * x.shape[0] - len(set(written)),
    )


async def by_slots(calls):
    return [slots_of(*one.arguments) for one in calls]


def test_integers_that_belong_together_stay_where_results_are_not_defined_with_others():
    groups = asyncio.run(find_groups(SORTED, by_slots))
    assert (groups.complete, groups.overlapping) == (True, False)
    assert {place.path for place in groups.kept} == {(1,), (2,)}
    made = variations(SORTED, groups, tile=64, seed=1)
    assert len({one.call.arguments[0].shape for one in made}) > 5
    for one in made:
        if one.call.arguments[0].shape[0] <= 40:
            outcome = slots_of(*one.call.arguments)
            assert (outcome.status, outcome.overlapping, outcome.unwritten) == ("equal", False, 0)


def test_they_are_cut_where_nothing_makes_the_results_defined():
    async def never(calls):
        return [dataclasses.replace(slots_of(*one.arguments), unwritten=1) for one in calls]

    groups = asyncio.run(find_groups(SORTED, never))
    assert groups.kept == ()
    assert not groups.complete


def test_a_call_without_integers_is_never_asked_about_them():
    seen = []

    async def overlapping(calls):
        seen.extend(calls)
        return [InputOutcome("equal", outputs=1, overlapping=True) for _ in calls]

    groups = asyncio.run(find_groups(Call("", "m.py", "f", (tensor(40, 96),)), overlapping))
    assert groups.overlapping
    assert len(seen) == 2 + 2 + 3  # the first trials, whether each grows alone, what each costs


# --- What runs on a GPU


def test_inputs_that_were_made_to_fit_do_not_run_on_a_gpu_where_the_original_overlaps():
    planned = [Planned(Place("call", 0, i), Variation(SORTED, ""), made=i != 1) for i in range(4)]
    evidence = Evidence(1, Tolerance(), True)
    outcomes = [InputOutcome("equal", outputs=1, overlapping=i < 3) for i in range(4)]
    evidence.tried = [Tried(one.variation, outcome, one.place) for one, outcome in zip(planned, outcomes, strict=True)]
    assert undefined(evidence, 0, planned) == {0, 2}
    assert undefined(evidence, 1, planned) == frozenset()
    assert [one.made for one in for_device(planned, 0, SORTED, 1)] == [True, False, True, True, False]


# --- What inputs cost

IMAGES = Call("", "m.py", "conv", (tensor(32, 56, 60, 128),))


async def of_rows(calls):
    """Every 64 rows of all images are a program, which goes over 32 channels at a time."""
    found = []
    for one in calls:
        n, h, w, c = one.arguments[0].shape
        found.append(InputOutcome("equal", outputs=1, operations=20 * -(-n * h * w // 64) * -(-c // 32)))
    return found


def test_inputs_of_many_sizes_that_multiply_cost_no_more_than_one_may():
    groups = asyncio.run(find_groups(IMAGES, of_rows))
    call, light = asyncio.run(lightened(IMAGES, groups, of_rows))
    made = variations(IMAGES, light, tile=128, seed=1, lighter=call)
    (*outcomes,) = asyncio.run(of_rows([one.call for one in made]))
    assert max(one.operations for one in outcomes) <= 1.5 * OPERATIONS
    assert sum(one.operations for one in outcomes) / len(outcomes) < OPERATIONS / 4
    crossed = [max(one.call.arguments[0].shape[axis] for one in made) for axis in range(4)]
    assert min(crossed) > 32


def test_sizes_fall_together_to_what_may_be_spent_and_stay_different():
    call = Call("", "m.py", "f", (tensor(64, 128, 256),))
    groups = Groups(tuple((place,) for place in places(call)), operations=8000, each=(400.0, 8000 / 28, 8000 / 36))
    found = groups.bounded([19, 25, 31], most=4000)
    assert groups.costs(found) <= 4000 < groups.costs([19, 25, 31])
    assert len(set(found)) == 3
    assert groups.bounded([19, 25, 200], most=4000, stay=(2,))[2] == 200
    assert groups.bounded([3, 5, 7], most=4000) == [3, 5, 7]
    assert all(size % 16 == 0 for size in groups.bounded([64, 80, 96], most=4000, by=16))


# --- A real kernel

PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def grouped(x, y, begins, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    group = tl.program_id(1)
    first = tl.load(begins + group)
    last = tl.load(begins + group + 1)
    start = first + tl.program_id(0) * ROWS
    if start >= last:
        return
    m = start + tl.arange(0, ROWS)
    n = tl.arange(0, COLUMNS)
    inside = (m[:, None] < last) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside, other=0.0)
    tl.store(y + m[:, None] * N + n[None, :], v * (group + 1), mask=inside)


def scale_groups(x, begins, longest):
    y = torch.empty_like(x)
    N = x.shape[1]
    grid = (triton.cdiv(longest, 16), begins.numel() - 1)
    grouped[grid](x, y, begins, N, ROWS=16, COLUMNS=triton.next_power_of_2(N))
    return y
"""
LAUNCH = RecordedLaunch(
    "k.py", "grouped", 9, (), (("ROWS", Scalar(16)), ("COLUMNS", Scalar(64))), (), (4, 3, 1),
    CallSite("k.py", 26, "scale_groups"),
)  # fmt: skip
CALL = Call("c", "k.py", "scale_groups", (tensor(120, 40), integers(0, 50, 56, 120), Scalar(64)), launches=(LAUNCH,))
TALLER = PROGRAM.replace("16", "32")
BEYOND = TALLER.replace("(m[:, None] < last)", "(m[:, None] < last + 1)")
"""One row too many, which is another group's."""


@pytest.mark.triton
def test_a_larger_tile_agrees_although_a_number_is_told_of_recorded_integers(tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "tritonforge.toml").write_text("")
    original, right, wrong = (Program(str(tmp_path), "k.py", (("k.py", text),)) for text in (PROGRAM, TALLER, BEYOND))

    async def judged():
        async with open_session(load(tmp_path), "offline") as session:
            known = Originals(session.worker, original, (CALL,), 11, Tolerance())
            chosen = (await known.first_inputs(0, 32))[:4]
            planned = [Planned(Place("call", 0, index), one) for index, one in enumerate(chosen)]
            comparers = (Comparer(session.worker, original, candidate, Tolerance()) for candidate in (right, wrong))
            return [await one.run(planned) for one in comparers]

    agreeing, differing = asyncio.run(judged())
    assert [one.outcome.status for one in agreeing.tried] == ["equal"] * 4
    assert {one.outcome.unwritten for one in agreeing.tried} == {0}
    assert differing.failed
    calls = [one.variation.call for one in agreeing.tried]
    lengths = [(max(np.diff(whole_numbers(one.arguments[1]))), one.arguments[2].value) for one in calls]
    assert all(longest == told for longest, told in lengths)
    assert max(told for _, told in lengths) > 64
