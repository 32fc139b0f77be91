"""Which inputs the gate chooses: sizes that may differ do, sizes that belong together stay together."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import zlib

import numpy as np
import pytest

from tritonforge.domain.launch import (
    Call,
    CallSite,
    Distribution,
    ExactValues,
    KernelLaunch,
    RecordedLaunch,
    Scalar,
    Tensor,
)
from tritonforge.domain.messages import InputOutcome, Program
from tritonforge.verify.asking import Asked, asked, other_dtypes
from tritonforge.verify.inputs import find_groups, variations
from tritonforge.verify.resizing import places, resize
from tritonforge.verify.scalars import flipped_flags, neighbours, other_scalars
from tritonforge.verify.signature import Parameter, parameters_of
from tritonforge.verify.spreading import spread


def tensor(*shape: int, **options) -> Tensor:
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return dataclasses.replace(Tensor(shape, tuple(strides), "float32"), **options)


def original(accepts):
    """A stand-in for running the original: it accepts a call when `accepts(*arguments)` holds."""

    async def self_check(calls):
        return [
            InputOutcome("equal" if accepts(*c.arguments) else "original-failed", "refused", outputs=1) for c in calls
        ]

    return self_check


def groups_of(call: Call, accepts) -> set[frozenset[tuple]]:
    found = asyncio.run(find_groups(call, original(accepts)))
    return {frozenset((place.path, place.axis) for place in group) for group in found.groups}


def test_the_inner_dimensions_of_a_product_stay_equal_and_the_outer_ones_are_free():
    call = Call("", "m.py", "matmul", (tensor(4096, 4096), tensor(4096, 4096)))
    groups = groups_of(call, lambda a, b: a.shape[1] == b.shape[0])
    assert groups == {frozenset({((0,), 0)}), frozenset({((0,), 1), ((1,), 0)}), frozenset({((1,), 1)})}


def test_rows_and_columns_of_squares_are_told_apart():
    call = Call("", "m.py", "backward", (tensor(1024, 1024), tensor(1024, 1024), tensor(1024), tensor(1024)))

    def fits(dy, x, weight, mean):
        return dy.shape[0] >= x.shape[0] <= mean.shape[0] and dy.shape[1] == x.shape[1] == weight.shape[0]

    rows = frozenset({((0,), 0), ((1,), 0), ((3,), 0)})
    assert groups_of(call, fits) == {rows, frozenset({((0,), 1), ((1,), 1), ((2,), 0)})}


def test_each_size_divides_evenly_while_the_others_do_not():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    found = asyncio.run(find_groups(call, original(lambda *_: True)))
    chosen = [v.call.arguments[0].shape for v in variations(call, found, tile=64, seed=1)]
    assert any(m % 64 == 0 and n % 2 for m, n in chosen)
    assert any(n % 64 == 0 and m % 2 for m, n in chosen)


def test_nan_and_infinity_come_in_one_tile_of_a_row_and_not_in_another():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    found = asyncio.run(find_groups(call, original(lambda *_: True)))
    over = [
        v.call.arguments[0]
        for v in variations(call, found, tile=64, seed=1)
        if "Inf" in v.about and "over a tile" in v.about
    ]
    assert any(x.shape[1] > 64 == x.values.run for x in over)


def test_three_vectors_of_one_length_stay_equal():
    call = Call("", "m.py", "f", (tensor(4096), tensor(4096), tensor(4096), Scalar(4096)))
    groups = groups_of(call, lambda x, y, z, n: x.shape == y.shape == z.shape == (n.value,))
    assert groups == {frozenset({((0,), 0), ((1,), 0), ((2,), 0), ((3,), -1)})}


def test_a_second_vector_that_may_be_longer_still_follows_the_first():
    call = Call("", "m.py", "f", (tensor(4096), tensor(4096)))
    groups = groups_of(call, lambda x, y: y.shape[0] >= x.shape[0])
    assert groups == {frozenset({((0,), 0), ((1,), 0)})}


def test_a_bias_that_may_be_longer_but_not_shorter_follows_the_rows():
    call = Call("", "m.py", "norm", (tensor(4096, 2048), tensor(2048), tensor(2048)))
    groups = groups_of(call, lambda x, w, b: x.shape[1] == w.shape[0] <= b.shape[0])
    assert groups == {frozenset({((0,), 0)}), frozenset({((0,), 1), ((1,), 0), ((2,), 0)})}


def test_what_must_be_as_large_as_another_grows_with_it():
    call = Call("", "m.py", "embed", (tensor(32000, 768), tensor(1024, 768)))
    found = asyncio.run(find_groups(call, original(lambda table, rows: rows.shape[1] >= table.shape[1] - 60)))
    assert len(found.groups) == 4
    chosen = [v.call.arguments for v in variations(call, found, tile=1024, seed=1)]
    assert all(rows.shape[1] >= table.shape[1] - 60 for table, rows in chosen)
    assert any(table.shape[1] > 1024 for table, _ in chosen)


def test_where_one_size_must_stay_the_others_change():
    call = Call("", "m.py", "f", (tensor(2048, 512), tensor(96)))
    found = asyncio.run(find_groups(call, original(lambda x, _: x.shape[0] == 2048)))
    assert {place.size for group in found.groups for place in group} == {512, 96}
    assert {v.call.arguments[0].shape[0] for v in variations(call, found, tile=32, seed=1)} == {2048}


def test_two_sizes_that_are_bound_to_each_other_stay_as_they_are_and_the_others_get_small():
    """A rotary embedding: half of the width is the width of its tables, and their length that of a sequence."""
    call = Call("c", "k.py", "f", (tensor(4096, 32, 128), tensor(4096, 64)))
    found = asyncio.run(find_groups(call, original(lambda x, t: x.shape[2] == 128 and t.shape[1] == 64)))
    sizes = sorted(group[0].size for group in found.groups)
    assert sizes == [32, 4096]


def test_when_the_original_takes_no_other_size_it_is_tried_as_recorded():
    call = Call("", "m.py", "f", (tensor(4096),))
    found = asyncio.run(find_groups(call, original(lambda x: x.shape == (4096,))))
    assert found.groups == ()
    chosen = variations(call, found, tile=32, seed=1)
    assert {v.call.arguments[0].shape for v in chosen} == {(4096,)}
    assert len({v.call.seed for v in chosen}) == len(chosen) > 1
    assert all("as recorded" in v.about for v in chosen)


def test_every_size_crosses_the_tile_once_with_a_tail():
    call = Call("", "m.py", "matmul", (tensor(4096, 2048), tensor(2048, 512)))
    found = asyncio.run(find_groups(call, original(lambda a, b: a.shape[1] == b.shape[0])))
    chosen = [v.call.arguments for v in variations(call, found, tile=128, seed=1)]
    for read in (lambda a, _: a.shape[0], lambda a, _: a.shape[1], lambda _, b: b.shape[1]):
        assert any(read(*args) > 128 and read(*args) % 16 for args in chosen)
    assert any(a.shape == (1, 1) for a, _ in chosen)
    assert all(a.shape[1] == b.shape[0] for a, b in chosen)


def test_a_size_that_counts_programs_stays_small():
    call = Call("", "m.py", "softmax", (tensor(8192, 2048),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=4096, seed=1, grid=frozenset({8192}))
    assert max(v.call.arguments[0].shape[0] for v in chosen) < 300
    assert max(v.call.arguments[0].shape[1] for v in chosen) > 4096


def test_every_input_has_a_seed_of_its_own():
    call = Call("", "m.py", "f", (tensor(4096),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    seeds = [v.call.seed for v in variations(call, found, tile=32, seed=7)]
    assert len(set(seeds)) == len(seeds)


def test_a_transposed_argument_stays_transposed_and_a_padded_row_stays_padded():
    transposed = tensor(4096, 2048, strides=(1, 4096))
    padded = tensor(4096, 2048, strides=(2080, 1))
    call = Call("", "m.py", "f", (transposed, padded))
    sizes = {place: {4096: 37, 2048: 21}[place.size] for place in places(call)}
    a, b = resize(call, sizes, seed=1).arguments
    assert a.strides == (1, 37)
    assert b.strides[1] == 1
    assert b.strides[0] > 21


def test_sizes_alike_cross_a_tile_although_one_of_them_counts_programs():
    call = Call("", "m.py", "dropout", (tensor(1024, 1024),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=256, seed=1, grid=frozenset({1024, 4}))
    for axis in range(2):
        assert any(256 < v.call.arguments[0].shape[axis] < 512 for v in chosen)


def test_recorded_indices_stay_valid_when_the_table_shrinks():
    indices = np.arange(4096, dtype=np.int32)[::-1]
    index = tensor(4096, dtype="int32", values=ExactValues(zlib.compress(indices.tobytes())))
    call = Call("", "m.py", "gather", (tensor(4096, 64), index))
    sizes = dict.fromkeys(places(call), 40)
    _, small = resize(call, sizes, seed=1).arguments
    values = np.frombuffer(zlib.decompress(small.values.data), dtype=np.int32)
    assert values.size == 40
    assert values.max() < 40


def starts(*values: int) -> Tensor:
    data = np.array(values, dtype=np.int32)
    return tensor(len(values), dtype="int32", values=ExactValues(zlib.compress(data.tobytes())))


def whole_numbers(found: Tensor) -> list[int]:
    return np.frombuffer(zlib.decompress(found.values.data), dtype=np.int32).tolist()


@pytest.mark.parametrize(
    ("rows", "expected"), [(20, [0, 6, 6, 20]), (2048, [0, 700, 700, 2048]), (3000, [0, 700, 700, 3000])]
)
def test_where_rows_begin_follows_how_many_there_are(rows, expected):
    call = Call("", "m.py", "segment_sum", (tensor(2048, 64), starts(0, 700, 700, 2048)))
    (found, _) = (place for place in places(call))
    _, offsets = resize(call, {found: rows}, seed=1).arguments
    assert whole_numbers(offsets) == expected


def test_indices_that_differ_from_each_other_still_do():
    call = Call("", "m.py", "scatter", (tensor(512, 64), starts(*(7 * i % 512 - (i == 3) * 600 for i in range(512)))))
    _, slots = resize(call, dict.fromkeys(places(call), 30), seed=1).arguments
    kept = [value for value in whole_numbers(slots) if value >= 0]
    assert len(kept) == 29
    assert sorted(kept) == list(range(29))


def test_an_element_count_given_beside_its_tensor_follows_it():
    call = Call("", "m.py", "f", (tensor(64, 128), Scalar(64 * 128), Scalar(3)))
    resized = resize(call, dict.fromkeys(places(call), 20), seed=1)
    assert [a.value for a in resized.arguments[1:]] == [400, 3]


def test_two_views_of_one_buffer_are_left_as_they_are():
    call = Call("", "m.py", "f", (tensor(64, buffer=0), tensor(32, buffer=0, offset=32)))
    found = asyncio.run(find_groups(call, original(lambda *_: True)))
    assert "views of one buffer" in found.note


def test_a_distribution_replaces_floating_values_only():
    call = Call("", "m.py", "f", (tensor(64), tensor(64, dtype="int64", values=Distribution("uniform", high=9))))
    x, i = resize(call, {}, seed=1, values=Distribution("normal", mean=64.0)).arguments
    assert x.values.mean == 64.0
    assert i.values.high == 9


def test_a_size_goes_beyond_the_recorded_one_where_that_can_be_interpreted():
    call = Call("", "m.py", "f", (tensor(600),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    assert max(v.call.arguments[0].shape[0] for v in variations(call, found, tile=64, seed=1)) > 600
    huge = Call("", "m.py", "f", (tensor(1 << 24),))
    found = asyncio.run(find_groups(huge, original(lambda x: True)))
    largest = max(v.call.arguments[0].shape[0] for v in variations(huge, found, tile=64, seed=1))
    assert 8 * 64 < largest < 4096


def test_each_size_is_one_while_the_others_are_not():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    shapes = {v.call.arguments[0].shape for v in variations(call, found, tile=64, seed=1)}
    assert {(1, 1), (1, 25), (19, 1)} <= shapes


def launch(*grid: int, **constexprs: int) -> RecordedLaunch:
    extents = (*grid, 1, 1)[:3]
    given = tuple((name, Scalar(value)) for name, value in constexprs.items())
    return RecordedLaunch("m.py", "kernel", 1, (), given, (), extents, CallSite("m.py", 9, "f"))


def programs_of(chosen, count) -> int:
    return max(count(*variation.call.arguments) for variation in chosen)


def test_more_programs_run_than_were_recorded_where_a_size_counts_them():
    call = Call("", "m.py", "f", (tensor(1000, 512),), launches=(launch(1000, BLOCK=512),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=512, seed=1, grid=frozenset({1000}))
    assert programs_of(chosen, lambda x: x.shape[0]) > 1000
    assert "more programs than recorded" in chosen[-1].about


def test_more_programs_run_than_were_recorded_where_blocks_count_them():
    call = Call("", "m.py", "f", (tensor(98432),), launches=(launch(97, BLOCK=1024),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=1024, seed=1, grid=frozenset({97}))
    assert programs_of(chosen, lambda x: -(-x.shape[0] // 1024)) > 97


def test_more_programs_run_than_were_recorded_where_two_sizes_share_a_flat_grid():
    call = Call("", "m.py", "f", (tensor(640, 256), tensor(256, 480)), launches=(launch(300, M=32, K=32),))
    found = asyncio.run(find_groups(call, original(lambda a, b: a.shape[1] == b.shape[0])))
    chosen = variations(call, found, tile=64, seed=1, grid=frozenset({300}))
    assert programs_of(chosen, lambda a, b: -(-a.shape[0] // 32) * -(-b.shape[1] // 32)) > 300


def test_heads_that_multiply_a_grid_are_understood():
    call = Call("", "m.py", "f", (tensor(4, 100, 64),), launches=(launch(400, B=64),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=64, seed=1, grid=frozenset({400}))
    assert programs_of(chosen, lambda x: 4 * x.shape[1]) > 400


def test_too_many_programs_are_cut_and_that_is_said():
    call = Call("", "m.py", "f", (tensor(100_000, 512),), launches=(launch(100_000, BLOCK=512),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    chosen = variations(call, found, tile=512, seed=1, grid=frozenset({100_000}))
    assert programs_of(chosen, lambda x: x.shape[0]) < 1000
    assert "the recorded 100000 take long" in chosen[-1].about


def test_a_call_of_small_extents_only_is_varied_all_the_same():
    call = Call("", "m.py", "f", (tensor(8, 4),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    assert {v.call.arguments[0].shape for v in variations(call, found, tile=16, seed=1)} > {(1, 1)}


def test_the_same_seed_gives_the_same_inputs_and_another_gives_others():
    call = Call("", "m.py", "f", (tensor(4096, 2048), tensor(2048)))
    found = asyncio.run(find_groups(call, original(lambda x, w: x.shape[1] == w.shape[0])))
    first, again, other = (variations(call, found, tile=64, seed=seed) for seed in (7, 7, 1007))
    assert first == again
    assert not {v.call.seed for v in first} & {v.call.seed for v in other}


@pytest.mark.parametrize(
    ("shapes", "accepts"),
    [
        (((8192, 2048),), lambda x: True),
        (((4096, 2048), (2048,)), lambda x, w: x.shape[1] == w.shape[0]),
        (((2048, 2048), (2048, 2048)), lambda a, b: a.shape[1] == b.shape[0]),
    ],
    ids=["softmax", "norm", "product"],
)
def test_a_candidate_needs_few_runs(shapes, accepts):
    call = Call("", "m.py", "f", tuple(tensor(*shape) for shape in shapes))
    found = asyncio.run(find_groups(call, original(accepts)))
    assert len(variations(call, found, tile=128, seed=1)) <= 33


def test_an_output_that_nobody_wrote_gets_no_values():
    output = tensor(600, values=Distribution("uninitialised"))
    call = Call("", "m.py", "f", (tensor(600), output))
    found = asyncio.run(find_groups(call, original(lambda *_: True)))
    chosen = variations(call, found, tile=32, seed=1)
    assert {v.call.arguments[1].values for v in chosen} == {Distribution("uninitialised")}


def test_memory_gets_gaps_that_only_strides_tell_of():
    call = Call("", "m.py", "f", (tensor(4, 6), tensor(5), tensor(4, 6, strides=(0, 1))))
    matrix, vector, broadcast = spread(call, "rows").arguments
    assert matrix.strides[0] > 6
    assert matrix.strides[1] == 1
    assert vector.strides == (1,)
    assert broadcast.strides == (0, 1)
    matrix, vector, _ = spread(call, "transposed").arguments
    assert matrix.strides[0] == 1
    assert matrix.strides[1] > 4
    _, vector, _ = spread(call, "elements").arguments
    assert vector.strides == (2,)


def test_memory_starts_off_its_alignment_and_dimensions_are_expanded():
    call = Call("", "m.py", "f", (tensor(4, 6), tensor(5), tensor(4, 6, values=Distribution("uninitialised"))))
    assert [t.offset for t in spread(call, "offset").arguments] == [1, 1, 1]
    assert [t.strides for t in spread(call, "expanded rows").arguments] == [(0, 1), (0,), (6, 1)]
    assert [t.strides for t in spread(call, "expanded elements").arguments] == [(6, 0), (1,), (6, 1)]


def ask(call: Call, accepts, **options) -> Asked:
    found = asyncio.run(find_groups(call, original(accepts)))
    return asyncio.run(asked(call, found, original(accepts), seed=1, **options))


def test_memory_with_gaps_is_used_only_where_the_original_minds_strides():
    call = Call("", "m.py", "f", (tensor(4096, 2048), tensor(4096)))
    chosen = ask(
        call, lambda x, y: x.shape[0] == y.shape[0] and x.strides[1] == 1 and 0 not in (*x.strides, *y.strides)
    )
    abouts = [v.about for v in chosen.variations]
    assert {"gaps between rows", "gaps between elements", "memory that starts off 16 bytes"} <= set(abouts)
    assert not any("transposed" in about for about in abouts)
    assert ("transposed memory", "the original fails: refused") in chosen.skipped


def test_other_memory_is_tried_on_one_argument_where_all_together_are_refused():
    call = Call("", "m.py", "f", (tensor(4096, 2048), tensor(4096, 2048)))
    chosen = ask(call, lambda x, y: x.shape == y.shape and y.strides[1] == 1)
    (alone,) = [v.call.arguments for v in chosen.variations if v.about == "transposed memory, argument 0 alone"]
    assert alone[0].strides[0] == 1
    assert alone[1].strides[1] == 1


def test_arguments_of_one_shape_have_strides_of_their_own_in_some_input():
    call = Call("", "m.py", "f", tuple(tensor(4096, 2048, buffer=i) for i in range(4)))
    chosen = [v.call.arguments for v in ask(call, lambda *_: True).variations if "each argument" in v.about]
    for one, other in itertools.combinations(range(4), 2):
        assert any(c[one].strides != c[other].strides for c in chosen)
    assert any(len({one.strides for one in c}) == 4 for c in chosen)
    shared = dataclasses.replace(call, arguments=(tensor(4096, 2048, buffer=0), tensor(4096, 2048, buffer=0)))
    assert not [v for v in ask(shared, lambda *_: True).variations if "each argument" in v.about]


def test_small_extents_change_alone_and_with_what_is_one_longer():
    """A state is one shorter than its taps, and the batch happens to be as long as they are."""
    call = Call("", "m.py", "conv", (tensor(4, 256, 2048), tensor(256, 4), tensor(4, 256, 3)))

    def fits(x, taps, state):
        return x.shape[0] == state.shape[0] and taps.shape[1] <= state.shape[2] + 1

    found = [[t.shape for t in v.call.arguments] for v in ask(call, fits).variations]
    assert any((taps[1], state[2]) == (5, 4) for _, taps, state in found)
    assert any((taps[1], state[2]) == (3, 3) for _, taps, state in found)


def test_what_was_recorded_in_one_type_is_tried_in_a_narrow_one():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    assert "float16 instead of float32" in [v.about for v in ask(call, lambda *_: True).variations]
    abouts = [v.about for v in ask(call, lambda *_: True, dtypes=frozenset({"bfloat16"})).variations]
    assert "bfloat16 instead of float32" in abouts
    assert "float16 instead of float32" not in abouts


def test_each_size_is_empty_once_where_the_original_takes_that():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    chosen = ask(call, lambda x: x.shape[1] > 0)
    assert [v.call.arguments[0].shape for v in chosen.variations if v.about.startswith("empty")] == [(0, 25)]
    assert sum(about.startswith("empty") for about, _ in chosen.skipped) == 2


def test_a_number_of_heads_changes_where_the_original_knows_no_fixed_one():
    call = Call("", "m.py", "f", (tensor(8, 4096), tensor(8), Scalar(8)))
    chosen = ask(call, lambda x, y, n: x.shape[0] == y.shape[0] == n.value)
    (more,) = [v.call.arguments for v in chosen.variations if v.about == "an extent of 8 is 9"]
    assert (more[0].shape[0], more[1].shape, more[2].value) == (9, (9,), 9)
    assert any(about == "an extent of 8 is 9" for about, _ in ask(call, lambda x, *_: x.shape[0] == 8).skipped)


PARAMETERS = (
    Parameter("x", positional=True),
    Parameter("eps", positional=True, default=Scalar(1e-6)),
    Parameter("flag", positional=True, default=Scalar(False)),
    Parameter("bias", positional=True, default=Scalar(None)),
)


def test_an_argument_that_equals_its_default_is_left_out_and_given_otherwise():
    call = Call("", "m.py", "f", (tensor(4096), Scalar(1e-6), Scalar(True)))
    chosen = {v.about: v.call for v in ask(call, lambda *_: True, parameters=PARAMETERS).variations}
    left = chosen["eps left to its default"]
    assert left.arguments[1:] == ()
    assert dict(left.keywords)["flag"] == Scalar(True)
    other = [c for about, c in chosen.items() if about == "eps other than its default"]
    assert all(c.arguments[1].value != 1e-6 for c in other)
    assert other


def test_an_argument_that_was_left_out_is_given():
    call = Call("", "m.py", "f", (tensor(4096, 2048),))
    abouts = {}
    for variation in ask(call, lambda *_: True, parameters=PARAMETERS).variations:
        abouts.setdefault(variation.about, []).append(dict(variation.call.keywords))
    assert [given["eps"].value for given in abouts["eps other than its default"]] == [0.75e-6, 3e-6 + 0.25]
    assert abouts["flag other than its default"] == [{"flag": Scalar(True)}]
    biases = [given["bias"] for given in abouts["bias other than its default"]]
    assert [bias.shape for bias in biases] == [(25,), (19, 25), (19, 25), (25, 19), (25, 19)]
    # What is given may be an output, and no output need be dense.
    assert [bias.strides[-1] for bias in biases] == [1, 1, 22, 28, 1]
    rows = abouts["eps other than its default, rows of every magnitude"]
    assert len(rows) == 2


def test_an_optional_tensor_is_left_out_as_none():
    call = Call("", "m.py", "f", (tensor(4096, 2048),), (("bias", tensor(2048)),))
    chosen = ask(call, lambda *_: True, parameters=PARAMETERS).variations
    (without,) = [v.call for v in chosen if v.about == "bias=None"]
    assert dict(without.keywords)["bias"] == Scalar(None)


def test_integers_that_are_no_sizes_get_their_neighbours():
    call = Call("", "m.py", "f", (tensor(64, 128), Scalar(128), Scalar(3), Scalar(64 * 128)))
    assert [changed.arguments[2].value for _, changed in neighbours(call)] == [4, 2, 7]
    assert all(changed.arguments[1].value == 128 for _, changed in neighbours(call))


def test_narrow_integer_data_reaches_the_ends_of_its_type():
    call = Call("", "m.py", "f", (tensor(64, 128, dtype="int8"), tensor(64, dtype="int64")))
    (chosen,) = [v.call for v in ask(call, lambda *_: True).variations if v.about.startswith("integers")]
    assert (chosen.arguments[0].values.low, chosen.arguments[0].values.high) == (-128, 127)
    assert chosen.arguments[1].values == call.arguments[1].values


def test_a_dtype_of_another_call_is_tried_on_a_call_without_it():
    half, single = (Call("", "m.py", "f", (tensor(64, 128, dtype=d), tensor(64))) for d in ("float16", "float32"))
    assert other_dtypes(half, (half, single)) == {"float32"}
    assert other_dtypes(half, (half,)) == frozenset()
    chosen = ask(half, lambda *_: True, dtypes=frozenset({"bfloat16"})).variations
    (changed,) = [v.call for v in chosen if v.about == "bfloat16 instead of float16"]
    assert [t.dtype for t in changed.arguments] == ["bfloat16", "float32"]


def test_a_kernel_that_is_launched_directly_keeps_its_memory():
    call = Call("", "m.py", "k", (tensor(4096), Scalar(4096)), kernel_launch=KernelLaunch(("n",)))
    assert not {"gaps between elements", "memory that starts off 16 bytes"} & {
        v.about for v in ask(call, lambda *_: True).variations
    }


def test_defaults_are_read_off_the_source(tmp_path):
    (tmp_path / "m.py").write_text("EPS = 1e-5\ndef f(x, n=-1, *, eps=EPS, out=None, g=len):\n    pass\n")
    call = Call("", "m.py", "f", ())
    found = parameters_of(Program(str(tmp_path), "m.py"), call)
    assert [(p.name, p.default) for p in found] == [
        ("x", None),
        ("n", Scalar(-1)),
        ("eps", Scalar(1e-5)),
        ("out", Scalar(None)),
        ("g", None),
    ]
    changed = Program(str(tmp_path), "m.py", (("m.py", "def f(y=2): pass"),))
    assert [(p.name, p.default) for p in parameters_of(changed, call)] == [("y", Scalar(2))]
    assert parameters_of(Program(str(tmp_path), "m.py"), dataclasses.replace(call, file="gone.py")) == ()


def test_factors_change_a_little_and_flags_turn_round_one_at_a_time():
    call = Call("", "m.py", "f", (Scalar(0.5), Scalar(True), Scalar(3)), (("causal", Scalar(False)),))
    changed = other_scalars(call)
    assert changed is not None
    assert changed.arguments == (Scalar(0.375), Scalar(True), Scalar(3))
    assert other_scalars(Call("", "m.py", "f", (Scalar(3), Scalar(float("inf"))))) is None
    (_, first), (about, second) = flipped_flags(call)
    assert first.arguments[1] == Scalar(False)
    assert first.keywords == call.keywords
    assert about == "causal=True"
    assert second.keywords == (("causal", Scalar(True)),)
