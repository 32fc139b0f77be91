"""Which inputs the gate chooses: sizes that may differ do, sizes that belong together stay together."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib

import numpy as np

from tritonforge.domain.launch import Call, Distribution, ExactValues, Scalar, Tensor
from tritonforge.domain.messages import InputOutcome
from tritonforge.verify.inputs import find_groups, strided, variations
from tritonforge.verify.resizing import flipped_flags, other_scalars, places, resize, spread


def tensor(*shape: int, **options) -> Tensor:
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return dataclasses.replace(Tensor(shape, tuple(strides), "float32"), **options)


def original(accepts):
    """A stand-in for running the original: it accepts a call when `accepts(*arguments)` holds."""

    async def self_check(calls):
        return [InputOutcome("equal" if accepts(*c.arguments) else "original-failed", "refused") for c in calls]

    return self_check


def groups_of(call: Call, accepts) -> set[frozenset[tuple]]:
    found = asyncio.run(find_groups(call, original(accepts)))
    return {frozenset((place.path, place.axis) for place in group) for group in found.groups}


def test_the_inner_dimensions_of_a_product_stay_equal_and_the_outer_ones_are_free():
    call = Call("", "m.py", "matmul", (tensor(4096, 4096), tensor(4096, 4096)))
    groups = groups_of(call, lambda a, b: a.shape[1] == b.shape[0])
    assert groups == {frozenset({((0,), 0)}), frozenset({((0,), 1), ((1,), 0)}), frozenset({((1,), 1)})}


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
    assert max(v.call.arguments[0].shape[0] for v in chosen) < 200
    assert max(v.call.arguments[0].shape[1] for v in chosen) > 4096


def test_every_input_has_a_seed_of_its_own():
    call = Call("", "m.py", "f", (tensor(4096),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    seeds = [v.call.seed for v in variations(call, found, tile=32, seed=7)]
    assert len(set(seeds)) == len(seeds)


def test_special_values_reach_the_arguments_in_their_own_type():
    call = Call("", "m.py", "f", (tensor(4096, dtype="bfloat16"),))
    found = asyncio.run(find_groups(call, original(lambda x: True)))
    (special,) = [v for v in variations(call, found, tile=32, seed=7) if "NaN" in v.about]
    (x,) = special.call.arguments
    bits = np.frombuffer(zlib.decompress(x.values.data), dtype=np.uint16).astype(np.uint32) << 16
    values = bits.view(np.float32)
    assert values.size == x.elements
    assert np.isnan(values).any()
    assert np.isposinf(values).any()
    assert np.isneginf(values).any()


def test_a_transposed_argument_stays_transposed_and_a_padded_row_stays_padded():
    transposed = tensor(4096, 2048, strides=(1, 4096))
    padded = tensor(4096, 2048, strides=(2080, 1))
    call = Call("", "m.py", "f", (transposed, padded))
    sizes = {place: {4096: 37, 2048: 21}[place.size] for place in places(call)}
    a, b = resize(call, sizes, seed=1).arguments
    assert a.strides == (1, 37)
    assert b.strides[1] == 1
    assert b.strides[0] > 21


def test_recorded_indices_stay_valid_when_the_table_shrinks():
    indices = np.arange(4096, dtype=np.int32)[::-1]
    index = tensor(4096, dtype="int32", values=ExactValues(zlib.compress(indices.tobytes())))
    call = Call("", "m.py", "gather", (tensor(4096, 64), index))
    sizes = dict.fromkeys(places(call), 40)
    _, small = resize(call, sizes, seed=1).arguments
    values = np.frombuffer(zlib.decompress(small.values.data), dtype=np.int32)
    assert values.size == 40
    assert values.max() < 40


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


def test_memory_with_gaps_is_used_only_where_the_original_minds_strides():
    call = Call("", "m.py", "f", (tensor(4096, 2048), tensor(4096)))
    found = asyncio.run(find_groups(call, original(lambda x, y: x.shape[0] == y.shape[0])))

    async def takes_rows_only(calls):
        return [InputOutcome("equal" if c.arguments[0].strides[1] == 1 else "different", outputs=1) for c in calls]

    chosen = asyncio.run(strided(call, found, takes_rows_only, seed=1))
    assert [v.about for v in chosen] == ["gaps between rows", "gaps between elements"]


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
