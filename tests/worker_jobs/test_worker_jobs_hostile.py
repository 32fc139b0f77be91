"""Hostile values have the properties that they are drawn for."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest

torch = pytest.importorskip("torch")

from tritonforge.domain.codec import decode, encode  # noqa: E402 - after the skip
from tritonforge.domain.launch import Call, Family, Hostile, Tensor  # noqa: E402 - after the skip
from tritonforge.worker.drawing import draw  # noqa: E402 - after the skip
from tritonforge.worker.rebuilding import rebuild  # noqa: E402 - after the skip

DTYPES = ["float16", "bfloat16", "float32", "float64"]
ROW = 60


def drawn(family: Family, dtype: str, *, run: int = 16, n: int = ROW):
    generator = torch.Generator().manual_seed(3)
    return draw(Hostile((family,), run=run), (n,), getattr(torch, dtype), generator).double()


def test_a_policy_survives_its_way_to_the_worker():
    tensor = Tensor((4, 6), (6, 1), "float32", values=Hostile(("one-nan", "offset"), "axis", axis=1, run=7))
    assert decode(Tensor, json.loads(json.dumps(encode(tensor)))) == tensor


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", get_args(Family))
def test_only_what_is_meant_to_be_infinite_or_nan_is(family, dtype):
    special = (drawn(family, dtype).isnan() | drawn(family, dtype).isinf()).sum()
    expected = {"one": 1, "all": ROW}.get(family.split("-")[0], 16 if family.endswith("block") else 0)
    assert special == expected


@pytest.mark.parametrize(
    ("family", "value"),
    [("nan-block", math.nan), ("inf-block", math.inf), ("negative-inf-block", -math.inf)],
)
def test_a_block_is_one_stretch(family, value):
    values = drawn(family, "float32", run=8)
    at = (values.isnan() if math.isnan(value) else values == value).nonzero().reshape(-1)
    assert at.tolist() == list(range(int(at[0]), int(at[0]) + 8))
    assert len(drawn(family, "float32", run=8, n=5)) == 5


def test_whatever_the_seed_a_row_begins_with_a_block_of_minus_infinity_and_another_has_it_later():
    policy = Hostile(("normal", "negative-inf-block"), "rows", run=8)
    for seed in range(20):
        rows = draw(policy, (4, 20), torch.float32, torch.Generator().manual_seed(seed))
        infinite = (rows == -math.inf).int().tolist()
        assert infinite[1] == [1] * 8 + [0] * 12
        assert infinite[3] == [0] * 8 + [1] * 8 + [0] * 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes_span_what_their_square_allows(dtype):
    values, info = drawn("mixed-magnitudes", dtype, n=400).abs(), torch.finfo(getattr(torch, dtype))
    assert values.max() / values.min() > 2**6
    assert float(values.max()) ** 4 <= info.max


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormals_are_below_the_smallest_normal_number_and_not_zero(dtype):
    values, tiny = drawn("subnormal", dtype).abs(), torch.finfo(getattr(torch, dtype)).tiny
    assert (values <= tiny).all()
    assert (values < tiny).sum() > ROW // 2
    assert (values > 0).all()


def test_zeros_have_both_signs_only_where_they_are_meant_to():
    signed = drawn("signed-zeros", "float32")
    assert {math.copysign(1, v) for v in signed[signed == 0].tolist()} == {1.0, -1.0}
    assert {math.copysign(1, v) for v in drawn("zeros", "float32").tolist()} == {1.0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_offset_dwarfs_the_spread_and_stays_far_from_overflow(dtype):
    values, info = drawn("offset", dtype, n=400), torch.finfo(getattr(torch, dtype))
    assert values.mean().abs() > 10 * values.std()
    assert values.std() > 0.5
    assert values.abs().max() < info.max / 32


def test_an_offset_ruins_a_variance_that_is_a_difference_of_squares():
    values = drawn("offset", "float32", n=400).float()
    wrong = (values * values).mean() - values.mean() ** 2
    assert abs(float(wrong) / float(values.double().var()) - 1) > 0.1


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_terms_cancel_exactly(dtype):
    values = drawn("cancellation", dtype)
    assert values.abs().max() > 100 * abs(math.fsum(values.tolist()))
    huge = values[values.abs() > 50].tolist()
    assert math.fsum(huge) == 0
    assert len(huge) > ROW // 2


def test_an_exponential_overflows_only_in_sums_and_at_the_far_end():
    values = drawn("large-maxima", "float32").float()
    near = values[: ROW - ROW // 3]
    assert torch.isfinite(near.exp()).all()
    assert torch.isinf(near.exp().sum())
    assert torch.isinf(values[-ROW // 3 :].exp()).all()


def test_values_far_below_zero_vanish_without_their_own_maximum():
    values = drawn("negative", "float32").float()
    assert (values < 0).all()
    assert float(values.exp().sum()) < torch.finfo(torch.float32).tiny
    assert torch.isfinite(values.softmax(0)).all()


def test_sorted_constant_and_tied_values_are_so():
    assert drawn("ascending", "float32").diff().min() >= 0
    assert drawn("descending", "float32").diff().max() <= 0
    assert drawn("constant", "float32").unique().numel() == 1
    assert 1 < drawn("ties", "float32").unique().numel() <= 3


def test_small_values_have_squares_like_an_epsilon():
    assert 1e-9 < float(drawn("small", "float32").square().mean()) < 1e-3


def test_powers_of_two_include_ties_of_rounding():
    values = drawn("powers-of-two", "float32", n=400)
    mantissas = torch.frexp(values.abs()).mantissa * 2
    assert {1.0, 1.5, 1 + 2.0**-8, 1 + 2.0**-11, 1 + 2.0**-23} <= set(mantissas.tolist())


@pytest.mark.parametrize(
    ("pieces", "where"),
    [
        ("rows", [[True] * 6, [False] * 6, [True] * 6, [False] * 6]),
        ("axis", [[True, False] * 3] * 4),
        ("runs", [[True, True, True, False, False, False]] * 4),
    ],
)
def test_each_piece_holds_its_own_family(pieces, where):
    policy = Hostile(("all-nan", "constant"), pieces, axis=1, run=3)
    values = draw(policy, (4, 6), torch.float32, torch.Generator().manual_seed(1))
    assert values.isnan().tolist() == where
    if pieces == "axis":
        assert values[:, 1].unique().numel() == 1


def test_a_call_is_rebuilt_with_the_same_values_for_the_same_seed():
    def values(seed: int):
        call = Call("", "m.py", "f", (Tensor((5, 7), (9, 1), "float16", values=Hostile(("ties",), "rows")),), seed=seed)
        return rebuild(call).arguments[0].clone()

    assert torch.equal(values(1), values(1))
    assert not torch.equal(values(1), values(2))


def test_empty_tensors_have_no_values():
    assert draw(Hostile(("one-nan",), "rows"), (0, 5), torch.float32, torch.Generator()).shape == (0, 5)
    assert draw(Hostile(("one-nan",), "axis"), (5, 0), torch.float32, torch.Generator()).shape == (5, 0)
