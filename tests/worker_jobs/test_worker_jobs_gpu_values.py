"""Distributions are built on a GPU with what they keep, too."""

import pytest

pytestmark = [pytest.mark.triton, pytest.mark.gpu]
torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tritonforge.domain.launch import Call, Distribution, Tensor  # noqa: E402 - after the skip
from tritonforge.worker.policies import measure  # noqa: E402
from tritonforge.worker.rebuilding import rebuild  # noqa: E402


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(
    ("policy", "dtype"),
    [
        (Distribution("arange", low=3), "int32"),
        (Distribution("permutation", low=0), "int64"),
        (Distribution("offsets", low=0, high=999), "int32"),
        (Distribution("bernoulli", mean=0.25), "bool"),
        (Distribution("bernoulli", mean=0.25), "float16"),
        (Distribution("uniform", low=-4, high=9, order="descending"), "int16"),
        (Distribution("normal", zero_fraction=0.5, nan_fraction=0.1, inf_fraction=0.1), "bfloat16"),
        (Distribution("uniform", low=0.0, high=1.0, order="ascending"), "float32"),
    ],
)
def test_a_distribution_is_built_on_the_gpu_with_what_it_keeps(policy, dtype):
    n = 50_000 if policy.kind != "uniform" or dtype != "int16" else 20_000
    call = Call("c", "f.py", "f", (Tensor((n,), (1,), dtype, values=policy),))
    first, again = (rebuild(call, device="cuda").arguments[0] for _ in range(2))
    assert first.is_cuda
    assert torch.equal(first.cpu().nan_to_num(), again.cpu().nan_to_num())
    values = first.cpu()
    if policy.kind in {"arange", "offsets"}:
        assert bool((values.diff() >= 0).all())
    if policy.kind == "permutation":
        assert torch.equal(values.sort().values, torch.arange(n))
    if policy.kind == "bernoulli":
        assert abs(float(values.float().mean()) - 0.25) < 0.02
    if policy.order != "random":
        steps = values.float().diff()
        assert bool((steps >= 0).all() if policy.order == "ascending" else (steps <= 0).all())
    if policy.nan_fraction:
        kept = measure(values.float().repeat(30), written=False, unset=False)
        assert abs(kept.nan_fraction - 0.1) < 0.02
        assert abs(kept.zero_fraction - 0.5) < 0.05
