"""Which function says what is right: the one that is named, or the one that is plainly meant."""

from __future__ import annotations

import pytest

from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Call, KernelLaunch, Scalar, Tensor
from tritonforge.domain.messages import Program
from tritonforge.verify.references import named_reference, recognised_reference

HOST = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, N, B: tl.constexpr):
    pass


def softmax(x, dim=-1):
    o = torch.empty_like(x)
    kernel[(1,)](x, o, x.numel(), B=32)
    return o


"""
CALL = Call("c", "ops/k.py", "softmax", (Tensor((3, 4), (4, 1), "float32"),), (("dim", Scalar(-1)),))
PROGRAM = Program("/w", "ops/k.py", (("ops/k.py", HOST),))


def recognised(more: str, call: Call = CALL, text: str = HOST) -> str | None:
    found = recognised_reference(PROGRAM, text + more, call)
    return found.reference.function if found else None


@pytest.mark.parametrize(
    "name", ["torch_softmax", "softmax_torch", "ref_softmax", "softmax_ref", "softmax_reference", "naive_softmax",
             "softmax_naive", "eager_softmax", "reference", "torch_ref"],
)  # fmt: skip
def test_a_marked_function_with_the_same_parameters_is_recognised(name):
    expected = None if name == "torch_ref" else name  # it speaks of `ref`, or of `torch`
    assert recognised(f"def {name}(x, dim=-1):\n    return x.softmax(dim)\n") == expected


def test_a_wrapper_that_says_triton_is_still_meant():
    text = HOST.replace("def softmax(", "def triton_softmax_fwd(")
    call = Call("c", "ops/k.py", "triton_softmax_fwd", CALL.arguments, CALL.keywords)
    assert recognised("def torch_softmax(x, dim=-1):\n    return x.softmax(dim)\n", call, text) == "torch_softmax"


@pytest.mark.parametrize(
    "more",
    [
        "def torch_softmax(x):\n    return x.softmax(-1)\n",
        "def torch_softmax(x, axis=-1):\n    return x.softmax(axis)\n",
        "def torch_gelu(x, dim=-1):\n    return torch.nn.functional.gelu(x)\n",
        "def other(x, dim=-1):\n    return x.softmax(dim)\n",
        "def torch_softmax(x, dim=-1):\n    print(x)\n",
        "def torch_softmax(x, dim=-1):\n    return softmax(x, dim)\n",
        "@torch.compile\ndef torch_softmax(x, dim=-1):\n    return x.softmax(dim)\n",
        "def torch_softmax(x, dim=-1):\n    return x.softmax(dim)\n\n\ndef softmax_ref(x, dim=-1):\n    return x\n",
    ],
    ids=["fewer parameters", "another parameter", "another operation", "unmarked", "returns nothing", "launches",
         "decorated", "two of them"],
)  # fmt: skip
def test_what_may_compute_something_else_is_not_taken(more):
    assert recognised(more) is None


def test_the_function_that_names_the_operation_goes_before_one_that_does_not():
    more = "def reference(x, dim=-1):\n    return x\n\n\ndef softmax_ref(x, dim=-1):\n    return x.softmax(dim)\n"
    assert recognised(more) == "softmax_ref"


def test_a_direct_launch_has_no_reference_to_recognise():
    call = Call("c", "ops/k.py", "kernel", (), kernel_launch=KernelLaunch(("1",)))
    assert recognised("def torch_kernel(x, o, N, B):\n    return x\n", call) is None


def named(function: str, text: str, call: Call = CALL):
    return named_reference(Program("/w", "r.py", ()), function, text, "r.py", [call])


def test_a_named_reference_may_stand_anywhere_and_be_called_anything():
    found = named("anything", "def anything(x, dim):\n    return x.softmax(dim)\n")
    assert (found.reference.program.file, found.reference.function, found.text) == (
        "r.py",
        "anything",
        "r.py::anything",
    )
    assert not found.recognised


@pytest.mark.parametrize(
    ("function", "text", "said"),
    [
        ("missing", "def there(x, dim):\n    return x\n", "r.py defines no function missing."),
        ("f", "def f(\n", "r.py is no Python."),
        ("f", "def f(x):\n    return x\n", "f cannot be called as softmax is: it has no parameter dim."),
        ("f", "def f(*, x, dim):\n    return x\n", "it takes 0 arguments in order, not 1"),
        ("f", "def f(x, dim, eps):\n    return x\n", "nothing is given for its parameter eps"),
        ("softmax", HOST, "softmax launches a kernel itself."),
    ],
)
def test_a_reference_that_cannot_be_used_is_a_usage_error(function, text, said):
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        named(function, text)


def test_a_reference_may_take_more_than_it_is_given():
    assert named("f", "def f(x, *rest, dim=0, **more):\n    return x\n")
