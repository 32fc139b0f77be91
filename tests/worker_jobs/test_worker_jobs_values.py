"""Values that steer a program are kept: what is measured of a tensor is what is built from its description."""

import math

import pytest

pytestmark = pytest.mark.triton
torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tritonforge.domain.launch import Call, Distribution, ExactValues, Tensor  # noqa: E402 - after the skip
from tritonforge.worker import policies  # noqa: E402
from tritonforge.worker.failures import JobFailed  # noqa: E402
from tritonforge.worker.policies import measure  # noqa: E402
from tritonforge.worker.rebuilding import rebuild  # noqa: E402


def measured(tensor, **known):
    return measure(tensor, written=known.get("written", False), unset=known.get("unset", False))


def built(policy, shape, dtype, seed=0):
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    call = Call("c", "f.py", "f", (Tensor(shape, strides, dtype, values=policy),), seed=seed)
    return rebuild(call).arguments[0]


@pytest.fixture
def few_exact(monkeypatch):
    """Take small tensors for those that are too large to be kept exactly."""
    monkeypatch.setattr(policies, "EXACT_INTEGERS", 256)
    monkeypatch.setattr(policies, "_COMPRESSED_BYTES", 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64, torch.uint8])
def test_index_like_tensors_come_back_exactly(dtype):
    tensor = torch.randint(0, 2, (5, 300)).to(dtype)
    policy = measured(tensor)
    assert isinstance(policy, ExactValues)
    assert torch.equal(built(policy, (5, 300), str(dtype).removeprefix("torch.")), tensor)


def test_long_index_tensors_that_pack_well_come_back_exactly():
    blocks = torch.arange(3_000_000, dtype=torch.int32) // 4096
    policy = measured(blocks)
    assert isinstance(policy, ExactValues)
    assert len(policy.data) < 1 << 20


@pytest.mark.usefixtures("few_exact")
@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        ("arange", torch.arange(7, 1007)),
        ("permutation", torch.randperm(1000, generator=torch.Generator().manual_seed(1)) + 5),
        ("offsets", torch.randint(0, 9, (1000,), generator=torch.Generator().manual_seed(1)).cumsum(0)),
        ("bernoulli", (torch.arange(1000) % 4 == 0).to(torch.int64)),
        ("uniform", torch.randint(-50, 50, (1000,), generator=torch.Generator().manual_seed(1))),
    ],
)
def test_long_index_tensors_keep_their_kind_and_range(kind, tensor):
    policy = measured(tensor)
    assert policy.kind == kind
    again = built(policy, tuple(tensor.shape), "int64")
    assert again.min() >= tensor.min()
    assert again.max() <= tensor.max()
    assert measured(again).kind == kind
    if kind == "permutation":
        assert torch.equal(again.sort().values, tensor.sort().values)
    if kind == "offsets":
        assert (again[0], again[-1]) == (tensor[0], tensor[-1])


@pytest.mark.parametrize("n", [1, 2, 17, 5000])
def test_offsets_of_another_length_still_go_from_the_first_to_the_last(n):
    offsets = built(Distribution("offsets", low=0, high=4096), (n,), "int32")
    assert offsets[0] == 0
    assert bool((offsets.diff() >= 0).all())
    assert n == 1 or offsets[-1] == 4096


def test_large_masks_in_floats_keep_their_zeros():
    mask = (torch.rand(400_000, generator=torch.Generator().manual_seed(2)) < 0.2).float()
    policy = measured(mask)
    assert policy.kind == "bernoulli"
    again = built(policy, (400_000,), "float16")
    assert set(again.unique().tolist()) == {0.0, 1.0}
    assert abs(float(again.float().mean()) - 0.2) < 0.01


def test_nan_infinity_order_and_sparsity_come_back():
    values = torch.randn(2_000_000, generator=torch.Generator().manual_seed(3))
    values[::10] = math.nan
    values[1::20] = -math.inf
    values[2::4] = 0.0  # on every second NaN, too
    policy = measured(values)
    again = built(policy, (200_000,), "float32")
    assert abs(float(torch.isnan(again).float().mean()) - 0.05) < 0.01
    assert abs(float((again == -math.inf).float().mean()) - 0.05) < 0.01
    assert policy.zero_fraction > 0.2
    assert policy.inf_fraction == 0.0
    rising = torch.rand(100_000, generator=torch.Generator().manual_seed(4)).sort().values
    policy = measured(rising)
    assert (policy.kind, policy.order) == ("uniform", "ascending")
    again = built(policy, (1000,), "float32")
    assert bool((again.diff() >= 0).all())
    assert again.max() <= 1.0


def test_the_same_seed_gives_the_same_values_and_another_others():
    policy = Distribution("permutation", low=0)
    assert torch.equal(built(policy, (100,), "int64"), built(policy, (100,), "int64"))
    assert not torch.equal(built(policy, (100,), "int64"), built(policy, (100,), "int64", seed=1))


def test_a_tensor_that_fits_nowhere_is_described_but_not_filled():
    huge = Tensor((1 << 20, 1 << 20), (1 << 20, 1), "float16")
    call = Call("c", "f.py", "f", (huge,))
    made = rebuild(call, large_as_meta=True).arguments[0]
    assert tuple(made.shape) == huge.shape
    assert made.is_meta
    with pytest.raises(JobFailed, match="does not fit into memory"):
        rebuild(call)
