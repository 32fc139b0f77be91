"""Every family of values reaches every floating argument, and what hides others is put where it hides least."""

from __future__ import annotations

from typing import get_args

from tritonforge.domain.launch import Call, Distribution, Family, Hostile, Scalar, Tensor
from tritonforge.verify.grouping import Groups
from tritonforge.verify.inputs import variations
from tritonforge.verify.resizing import places
from tritonforge.verify.values import (
    FINITE,
    IN_WORDS,
    POISONED,
    alone,
    floating,
    mosaic,
    poisoned,
    poisoned_alone,
    turns,
)


def tensor(*shape: int, **options) -> Tensor:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return Tensor(shape, tuple(strides), options.pop("dtype", "float32"), **options)


NORM = Call("", "m.py", "norm", (tensor(19, 25), tensor(25), Scalar(1e-6), tensor(19, dtype="int64")))
PRODUCT = Call("", "m.py", "product", (tensor(19, 25), tensor(25, 31)))


def test_every_family_reaches_every_floating_argument():
    groups = Groups(tuple((place,) for place in places(NORM)))
    seen: dict[int, set[Family]] = {0: set(), 1: set()}
    for variation in variations(NORM, groups, tile=32, seed=1):
        for index, families in seen.items():
            values = variation.call.arguments[index].values
            families.update(values.families if isinstance(values, Hostile) else ())
    assert all(families == set(get_args(Family)) for families in seen.values())


def test_every_family_is_said_in_words():
    assert set(IN_WORDS) == set(get_args(Family)) == {*FINITE, *POISONED}


def test_what_meets_in_a_row_of_a_mosaic_differs_between_arguments():
    first, second = mosaic(PRODUCT, (), tile=16).values()
    assert all(a != b for a, b in zip(first.families, second.families, strict=True))


def test_a_poisoned_argument_meets_none_that_is_poisoned():
    policies = poisoned(PRODUCT, 0, (), tile=16)  # the largest comes first
    assert policies[(1,)].families == POISONED
    assert policies[(0,)].families == ("normal",)


def test_poison_keeps_to_the_dimension_that_no_other_argument_has():
    m, k, k_too, n = places(PRODUCT)
    groups = ((m,), (k, k_too), (n,))
    assert (poisoned(PRODUCT, 1, groups, tile=16)[(0,)].axis, poisoned(PRODUCT, 0, groups, tile=16)[(1,)].axis) == (
        0,
        1,
    )


def test_a_short_vector_still_has_pieces_of_two_elements_and_a_long_one_pieces_of_a_tile():
    short, long = (Call("", "m.py", "f", (tensor(n),)) for n in (12, 5000))
    assert mosaic(short, (), tile=128)[(0,)].run == 2
    assert (mosaic(long, (), tile=128)[(0,)].pieces, mosaic(long, (), tile=128)[(0,)].run) == ("runs", 128)


def test_zeros_fill_all_arguments_or_none():
    assert {policy.families for policy in alone(PRODUCT, "zeros").values()} == {("zeros",)}
    assert {policy.families for policy in alone(PRODUCT, "offset").values()} > {("offset",)}


def test_over_all_turns_each_argument_gets_each_poison_alone():
    seen: dict[tuple, set] = {}
    for turn in range(turns(PRODUCT)):
        for path, policy in poisoned_alone(PRODUCT, turn, tile=16).items():
            seen.setdefault(path, set()).update(policy.families)
    assert all({"one-nan", "one-inf", "one-negative-inf", "all-negative-inf"} <= families for families in seen.values())


def test_outputs_and_integers_hold_no_families():
    output = tensor(19, 25, values=Distribution("uninitialised"))
    call = Call("", "m.py", "f", (output, tensor(25, dtype="int32"), tensor(25)))
    assert [path for path, _ in floating(call)] == [(2,)]


def test_sums_are_long_where_values_are_adversarial_for_them():
    m, k, k_too, n = places(PRODUCT)
    chosen = variations(PRODUCT, Groups(((m,), (k, k_too), (n,))), tile=32, seed=1)
    cancelling = [v.call.arguments for v in chosen if "terms that cancel" in v.about and "over a tile" in v.about]
    assert cancelling
    assert all(a.shape[1] > 32 for a, _ in cancelling)
