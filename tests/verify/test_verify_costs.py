"""Inputs of kernels that take long: fewer samples, sizes that can be afforded, families once for each function."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from types import SimpleNamespace

import pytest

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import CompareResult, InputOutcome, Program, Tolerance
from tritonforge.verify.asking import asked
from tritonforge.verify.grouping import OPERATIONS, Groups, find_groups, lightened
from tritonforge.verify.inputs import variations
from tritonforge.verify.originals import Originals
from tritonforge.verify.resizing import places
from tritonforge.verify.values import ALONE, ALONE_AGAIN, IN_WORDS


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(shape, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))), dtype)


def outcome(call: Call, cost, accepts=lambda *_: True) -> InputOutcome:
    if not accepts(*call.arguments):
        return InputOutcome("original-failed", "refused")
    return InputOutcome("equal", outputs=1, operations=int(cost(*call.arguments)))


class Script:
    """A stand-in for running the original, which takes `cost(*arguments)` operations; it keeps the shapes it saw."""

    def __init__(self, cost, accepts=lambda *_: True) -> None:
        self.cost, self.accepts = cost, accepts
        self.seen: list[tuple[tuple[int, ...], ...]] = []

    async def __call__(self, calls):
        self.seen += [tuple(t.shape for t in call.arguments if isinstance(t, Tensor)) for call in calls]
        return [outcome(call, self.cost, self.accepts) for call in calls]


ATTENTION = Call("", "m.py", "attention", (tensor(4, 6, 512, 96),), seed=5)
"""Samples, heads, rows and what is in one."""


def of_all(x, *_) -> int:
    """Every element of every head of every sample costs as much."""
    return math.prod(x.shape)


def lighter(call: Call, script: Script) -> tuple[Call, Groups, Groups]:
    groups = asyncio.run(find_groups(call, script))
    script.seen.clear()
    return (*asyncio.run(lightened(call, groups, script)), groups)


def test_a_heavy_call_has_fewer_samples_and_heads_and_its_own_sizes():
    light, groups, before = lighter(ATTENTION, Script(of_all))
    assert light.arguments[0].shape == (2, 2, 512, 96)
    assert light.seed == ATTENTION.seed
    assert groups.groups == before.groups
    assert before.operations == 4 * 6 * 20 * 20
    assert groups.operations == 2 * 2 * 20 * 28


def test_what_samples_save_is_told_on_sizes_that_are_the_same():
    """Sizes that are equal cost less than a half of those that are not, and half as many samples save a half."""
    call = Call("", "m.py", "f", (tensor(4, 512, 96, 64),))
    light, groups, before = lighter(call, Script(lambda x: of_all(x) // 2))
    assert before.operations == 2 * 20**3
    assert light.arguments[0].shape == (2, 512, 96, 64)
    assert groups.operations == 20 * 28 * 36


def test_sizes_that_take_too_long_to_find_out_about_are_smaller():
    light, groups, before = lighter(ATTENTION, Script(lambda x: 4 * of_all(x)))
    assert (before.at, before.base) == (8, [8, 12])
    assert before.operations == 4 * 4 * 6 * 8 * 12
    assert light.arguments[0].shape == (2, 2, 512, 96)
    assert groups.costs([100, 140]) == pytest.approx(4 * 2 * 2 * 100 * 140)


def test_what_sizes_cost_together_is_known_once_the_call_is_light():
    _, groups, before = lighter(ATTENTION, Script(of_all))
    assert groups.costs([20, 28]) == groups.operations
    assert groups.costs([100, 140]) == pytest.approx(2 * 2 * 100 * 140)
    assert groups.costs([1, 1]) == pytest.approx(2 * 2)
    # Where sizes were looked at one by one, beside next to nothing, nobody saw that they multiply.
    assert before.costs([100, 140]) < 4 * 6 * 100 * 140 / 2


def test_a_call_that_is_not_heavy_is_left_and_the_original_not_asked():
    script = Script(lambda x: of_all(x) / 10)
    light, groups, before = lighter(ATTENTION, script)
    assert (light, groups) == (ATTENTION, before)
    assert script.seen == []


def test_fewer_samples_are_not_worth_it_where_they_save_little():
    light, groups, _ = lighter(ATTENTION, Script(lambda x: 20_000 + of_all(x) / 100))
    assert light == ATTENTION
    assert groups.operations > 20_000


def test_samples_of_several_arguments_are_fewer_together_where_they_have_to_be():
    call = Call("", "m.py", "f", (tensor(8, 512, 96), tensor(8, 512, 96)))
    light, groups, _ = lighter(call, Script(lambda x, y: 2 * of_all(x), lambda x, y: x.shape == y.shape))
    assert [t.shape for t in light.arguments] == [(2, 512, 96), (2, 512, 96)]
    assert groups.operations == 2 * 2 * 20 * 28


def test_what_the_original_does_not_take_stays():
    light, groups, _ = lighter(ATTENTION, Script(of_all, lambda x: x.shape[1] == 6))
    assert light.arguments[0].shape == (2, 6, 512, 96)
    assert groups.operations == 2 * 6 * 20 * 28


def test_sizes_that_the_original_does_not_take_twice_as_large_cost_what_they_did():
    light, groups, before = lighter(ATTENTION, Script(of_all, lambda x: x.shape[2] != 40))
    assert light.arguments[0].shape == (2, 2, 512, 96)
    assert (groups.operations, groups.each) == (before.operations, before.each)


# --- What a size may be


def rows(call: Call, *, operations: int = 0, each: tuple[float, ...] = ()) -> Groups:
    return Groups(tuple((place,) for place in places(call)), operations=operations, each=each)


MATRIX = Call("", "m.py", "f", (tensor(4096, 2048),))


@pytest.mark.parametrize(
    ("each", "wanted", "share", "found"),
    [
        (10.0, 3000, 1.0, 3000),
        (10.0, 5000, 1.0, OPERATIONS // 10 | 1),
        (10.0, 3000, 0.4, OPERATIONS * 4 // 100 | 1),
        (10.0, 1600, 0.4, 1600),
        (0.0, 5000, 0.4, 5000),
        (1e6, 5000, 1.0, 49),
        (1e6, 5000, 0.4, 49),
        (1e6, 30, 0.4, 31),
    ],
)
def test_a_size_is_as_large_as_its_share_of_the_costs_allows(each, wanted, share, found):
    groups = rows(MATRIX, operations=100, each=(0.0, each))
    assert groups.affordable(1, wanted, share=share) == found


def test_without_costs_every_size_can_be_afforded():
    groups = rows(MATRIX)
    assert groups.affordable(0, 5000, share=0.1) == 5000
    assert groups.costs([5000, 5000]) == 0


def shapes(call: Call, groups: Groups, about: str, **options) -> list[tuple[int, ...]]:
    found = variations(call, groups, tile=128, seed=1, **options)
    return [v.call.arguments[0].shape for v in found if about in v.about]


@pytest.mark.parametrize(
    ("each", "aligned"), [((0.01, 0.01), 128), ((100.0, 100.0), 64), ((200.0, 200.0), 32), ((9999.0, 9999.0), 16)]
)
def test_sizes_that_divide_evenly_are_smaller_where_they_cost_too_much(each, aligned):
    groups = rows(MATRIX, operations=2000, each=each)
    assert shapes(MATRIX, groups, "sizes that divide evenly") == [(aligned, aligned)]
    off = [(aligned + 16, aligned + 32)] if aligned > 16 else [(16, 32)]
    assert shapes(MATRIX, groups, "off the tile") == off
    assert all(aligned in shape for shape in shapes(MATRIX, groups, "one size that divides evenly"))
    costs = [groups.costs([by + 16, by + 32]) for by in (128, 64, 32, 16) if by >= aligned]
    assert all(cost > OPERATIONS for cost in costs[:-1])
    assert costs[-1] <= OPERATIONS or aligned == 16


def test_each_of_many_families_gets_a_part_of_what_an_input_may_cost():
    groups = rows(MATRIX, operations=100, each=(0.0, 250.0))
    (large,) = shapes(MATRIX, groups, IN_WORDS["large-maxima"])
    assert large[1] == OPERATIONS * 4 // 2500 | 1
    (_, over) = shapes(MATRIX, groups, "one size over a tile, with a tail")
    assert over[1] == OPERATIONS // 250 | 1


def test_a_size_with_nan_in_one_tile_of_a_row_is_no_larger_than_can_be_afforded():
    dear, cheap = (rows(MATRIX, operations=100, each=(0.0, each)) for each in (400.0, 1.0))
    assert {shape[1] for shape in shapes(MATRIX, cheap, "NaN and Inf, alone and in blocks")} >= {128 * 3 // 2 + 5}
    assert max(shape[1] for shape in shapes(MATRIX, dear, "over a tile")) == OPERATIONS // 400 | 1


# --- What is resized


def test_what_is_resized_is_the_lighter_call():
    scaled = dataclasses.replace(ATTENTION, arguments=(*ATTENTION.arguments, Scalar(0.5), Scalar(False)))
    light, groups, _ = lighter(scaled, Script(of_all))
    found = variations(scaled, groups, tile=64, seed=1, lighter=light)
    assert {v.call.arguments[0].shape[:2] for v in found} == {(2, 2)}
    abouts = {v.about for v in found}
    assert "other factors" in abouts
    assert any("True" in about for about in abouts)
    without = variations(scaled, groups, tile=64, seed=1)
    assert {v.call.arguments[0].shape[:2] for v in without} == {(4, 6)}
    assert [v.about for v in without] == [v.about for v in found]


def test_what_the_original_is_asked_about_is_lighter_but_for_small_extents_themselves():
    script = Script(of_all)
    light, groups, _ = lighter(ATTENTION, script)
    found = {v.about: v.call for v in asyncio.run(asked(ATTENTION, groups, script, seed=1, lighter=light)).variations}
    assert found["gaps between rows"].arguments[0].shape[:2] == (2, 2)
    assert found["an extent of 4 is 5"].arguments[0].shape[:2] == (5, 6)
    assert found["an extent of 6 is 1"].arguments[0].shape[:2] == (4, 1)


POISON = {"a NaN", "-Inf only", "a +Inf", "a -Inf", "a block of -Inf"}


def in_whole_tensors(found) -> set[str]:
    """Return which families fill whole tensors in inputs of their own."""
    return {
        family
        for v in found
        for family in ALONE
        if IN_WORDS[family] in v.about and getattr(v.call.arguments[0].values, "families", ()) == (family,)
    }


def test_another_call_of_a_function_has_whole_tensors_only_of_what_its_dtype_may_lose():
    groups = rows(MATRIX)
    first, again = (variations(MATRIX, groups, tile=64, seed=1, again=again) for again in (False, True))
    assert in_whole_tensors(first) == set(ALONE)
    assert in_whole_tensors(again) == set(ALONE_AGAIN)
    poisoned = [[v.about for v in one if v.about in POISON] for one in (first, again)]
    assert poisoned == [["a NaN", "-Inf only", "a +Inf", "a -Inf", "a block of -Inf"], ["a NaN"]]
    assert len(first) - len(again) == len(ALONE) - len(ALONE_AGAIN) + 4


class Interpreted:
    """A worker whose original takes `cost(*arguments)` operations."""

    def __init__(self, cost) -> None:
        self.cost = cost
        self.hello = SimpleNamespace(lanes=1)

    async def run(self, request, **_):
        return CompareResult(tuple(outcome(call, self.cost) for call in request.inputs))


def first_inputs(cost, *calls: Call):
    originals = Originals(Interpreted(cost), Program("/w", "m.py"), calls, 1, Tolerance())
    return [asyncio.run(originals.first_inputs(number, 64)) for number in range(len(calls))]


def test_the_first_call_of_each_function_has_every_family():
    half = dataclasses.replace(MATRIX, arguments=(tensor(4096, 2048, dtype="float16"),))
    other = dataclasses.replace(MATRIX, function="g")
    found = first_inputs(lambda x: 10, MATRIX, half, other)
    assert [in_whole_tensors(one) for one in found] == [set(ALONE), set(ALONE_AGAIN), set(ALONE)]


def test_the_inputs_of_a_heavy_call_are_light():
    (found,) = first_inputs(of_all, ATTENTION)
    assert {v.call.arguments[0].shape[:2] for v in found} == {(2, 2)}


# --- Inputs on which what the original writes overlaps


def overlapping_where(wrong):
    async def self_check(calls):
        return [InputOutcome("equal", outputs=1, overlapping=wrong(*call.arguments)) for call in calls]

    return self_check


INTO = Call("", "m.py", "transposed", (tensor(64, 96), tensor(96, 64)))


def test_inputs_on_which_only_what_the_original_writes_overlaps_are_left_out():
    groups = rows(INTO)
    found = asyncio.run(asked(INTO, groups, overlapping_where(lambda _, out: out.strides[0] == 1), seed=1))
    assert ("transposed memory", "what the original writes overlaps") in found.skipped
    abouts = {v.about for v in found.variations}
    assert "gaps between rows" in abouts
    assert "transposed memory" not in abouts


def test_where_what_the_original_writes_always_overlaps_nothing_is_left_out():
    groups = rows(INTO)
    found, usual = (
        asyncio.run(asked(INTO, groups, overlapping_where(lambda *_, it=it: it), seed=1)) for it in (True, False)
    )
    assert found == usual
    assert "transposed memory" in {v.about for v in found.variations}
