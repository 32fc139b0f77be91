"""Small pieces of the jobs, each with its own rule."""

import pytest

pytestmark = pytest.mark.triton
torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tritonforge.domain.messages import Describe, Tolerance  # noqa: E402 - after the skip
from tritonforge.worker.calling import evaluate  # noqa: E402
from tritonforge.worker.fakecuda import faked  # noqa: E402
from tritonforge.worker.interpreter.poison import CANDIDATE, ORIGINAL  # noqa: E402
from tritonforge.worker.judging import ulp_of  # noqa: E402
from tritonforge.worker.outcomes import Outputs, compare_outputs  # noqa: E402


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cdiv(n, B)", 8),
        ("n // B + 1", 8),
        ("min(n, 5) * max(2, 3)", 15),
        ("next_power_of_2(n)", 1024),
        ("-(-n % 7)", -1),
    ],
)
def test_grid_expressions_are_evaluated(expression, value):
    assert evaluate(expression, {"n": 1000, "B": 128}) == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_spacing_of_floats_is_that_of_nextafter(dtype):
    values = torch.tensor([1.0, 1.5, 3.99, 0.1, 1e-30, 123456.0], dtype=dtype)
    expected = (torch.nextafter(values, torch.tensor(float("inf"), dtype=dtype)) - values).double()
    assert torch.equal(ulp_of(values.double(), dtype), expected)


def test_the_spacing_of_narrow_floats_is_right():
    assert ulp_of(torch.tensor([1.0, 64.0, 0.0], dtype=torch.float64), torch.float16).tolist() == [
        2**-10,
        2**-4,
        2**-24,
    ]
    assert ulp_of(torch.tensor([1.0], dtype=torch.float64), torch.bfloat16).item() == 2**-7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int32, torch.int64])  # fmt: skip
def test_each_poison_knows_itself_and_not_the_other(dtype):
    tensor = torch.zeros(8, dtype=dtype)
    ORIGINAL.fill(tensor[::2])
    assert ORIGINAL.where(tensor).tolist() == [True, False] * 4
    assert not CANDIDATE.where(tensor).any()
    if dtype.is_floating_point:
        assert torch.isnan(tensor[0])


def test_nan_and_infinity_must_agree_in_place_and_sign():
    want = torch.tensor([float("nan"), float("inf"), 1.0])
    for got, same in (
        ([float("nan"), float("inf"), 1.0], True),
        ([0.0, float("inf"), 1.0], False),
        ([float("nan"), float("-inf"), 1.0], False),
        ([float("nan"), 3.0, 1.0], False),
    ):
        found = compare_outputs(Outputs({"y": want}), Outputs({"y": torch.tensor(got)}), Tolerance())
        assert (found.problem == "") is same, found


def test_integers_must_be_equal():
    found = compare_outputs(Outputs({"y": torch.tensor([1, 2])}), Outputs({"y": torch.tensor([1, 3])}), Tolerance())
    assert found.difference is not None
    assert (found.difference.index, found.difference.expected, found.difference.got) == ((1,), 2.0, 3.0)


def test_pretended_cuda_follows_devices_and_copies_at_crossings():
    with faked("sm_90") as mode:
        x, y = torch.ones(4, device="cuda"), torch.ones(4)
        assert (x.is_cuda, y.is_cuda, (x + y).is_cuda, (y + 1).is_cuda) == (True, False, True, False)
        back = x.cpu()
        back += 1
        assert x.tolist() == [1.0] * 4
        assert not back.is_cuda
        assert back.to(x.device).is_cuda
        assert y.to("cuda", torch.float16).dtype == torch.float16
        assert torch.nn.Linear(4, 4).to("cuda")(x).is_cuda
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(2).is_cuda
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        assert torch.empty(1 << 33, device="cuda", dtype=torch.float16).shape == (1 << 33,)
        assert mode.fill_empty is None
    assert torch.zeros(2).device.type == "cpu"
    assert not torch.zeros(2).is_cuda


def test_pretended_cuda_reaches_threads_and_backward():
    import threading

    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append((grad.is_cuda, torch.empty(2, device="cuda").is_cuda))
            return grad * 2

    with faked("sm_90"):
        x = torch.ones(3, device="cuda", requires_grad=True)
        Double.apply(x).sum().backward()
        thread = threading.Thread(target=lambda: seen.append((True, torch.zeros(2, device="cuda").is_cuda)))
        thread.start()
        thread.join()
    assert seen == [(True, True)] * 2


def test_the_worker_describes_itself(compile_lane):
    info = compile_lane.do(Describe())
    assert info.torch == torch.__version__
    assert info.triton is not None
    assert info.cores >= 1
