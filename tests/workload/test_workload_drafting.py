"""First launch specs: what they take from a wrapper, and that they run as they are."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import Settings
from tritonforge.domain.launch import Tensor
from tritonforge.domain.messages import Compile, CompiledLaunch, Program, Time
from tritonforge.jobs.session import open_session
from tritonforge.workload.drafting import Draft, first_spec
from tritonforge.workload.specified import spec_calls, spec_problems

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

"""


def draft(wrapper: str) -> Draft:
    analysis = analyze(HEAD + wrapper, "k.py")
    return first_spec(analysis.kernels[0], analysis)


def launch(body: str, signature: str) -> str:
    lines = [f"def op({signature}):", *body.splitlines(), "kernel[(1,)](x, y, 4, BLOCK=64)"]
    return "\n    ".join(lines) + "\n"


@pytest.mark.parametrize(
    ("signature", "body", "spec"),
    [
        ("x", "y = torch.empty_like(x)\nn = x.numel()", "x=fp16[M] M=16777216"),
        ("x, y", "M, K = x.shape\nK, N = y.shape", "x=fp16[M, K] y=fp16[K, N] M=4096 K=4096 N=4096"),
        ("x, y", "assert x.shape == y.shape\nrows, cols = x.shape", "x=fp16[rows, cols] y=fp16[rows, cols] rows=4096 cols=4096"),
        ("x, y", "assert x.shape[1] == y.shape[0]\na, b = x.shape[0], y.shape[1]", "x=fp16[a, M] y=fp16[M, b] a=4096 M=4096 b=4096"),
        ("x, y, n", "n = x.shape[1]", "x=fp16[M, n] y=fp16[M, n] n=4096 M=4096"),
        ("x, w", "y = x\nD = x.shape[-1]\nx = x.view(-1, D)\nR, D = x.shape\nw.stride(0)", "x=fp16[R, D] w=fp16[D] R=4096 D=4096"),
        ("x", "y = x\nB, H, T, D = x.shape", "x=fp16[B, H, T, D] B=4 H=16 T=1024 D=64"),
        ("x", "y = x\nx = x.transpose(1, 2)\nB, H, T, D = x.shape", "x=fp16[B, T, H, D] B=4 T=1024 H=16 D=64"),
        ("x", "y = x\nassert x.dtype == torch.float32 and x.dim() == 3", "x=fp32[M, N, K] M=4 N=1024 K=1024"),
        ("x", "y = x\nif x.ndim != 2:\n    raise ValueError", "x=fp16[M, N] M=4096 N=4096"),
        ("x, idx", "y = x\nM, N = x.shape\nx.stride(0), idx.numel()", "x=fp16[M, N] idx=i32[M]~randint(0, M) M=4096 N=4096"),
        ("x, cu_seqlens", "y = x\nT, D = x.shape\ncu_seqlens.numel()", "x=fp16[T, D] cu_seqlens=i32[9]~offsets(T) T=4096 D=4096"),
        ("x, labels", "y = x\nT, vocab = x.shape\nlabels.stride(0)", "x=fp16[T, vocab] labels=i64[T]~randint(0, vocab) T=4096 vocab=32768"),
        ("x, mask", "y = x\nM, N = x.shape\nmask.stride(1)", "x=fp16[M, N] mask=i1[M, N]~mask(0.9) M=4096 N=4096"),
        ("x: torch.Tensor, eps: float, flag: bool, mode", "y = x\nif mode == 'relu': pass", "x=fp16[M] eps=1e-6 flag=False mode='relu' M=16777216"),
        ("x, y, p=0.1, out=None", "x.stride(0)", "x=fp16[M, N] y=fp16[M, N] M=4096 N=4096"),
    ],
)  # fmt: skip
def test_a_draft_says_what_the_wrapper_shows(signature, body, spec):
    made = draft(launch(body, signature))
    assert (made.text, made.function, made.subject) == (spec, "op", "function")


def test_what_callers_pass_is_used():
    wrapper = (
        launch("y = x", "x: torch.Tensor, scale, kind") + "def outer(x, scale=0.25):\n    return op(x, scale, 'fast')\n"
    )
    assert draft(wrapper).text == "x=fp16[M] scale=0.25 kind='fast' M=16777216"


def test_without_a_wrapper_the_kernel_itself_gets_a_spec_with_a_grid():
    made = draft("")
    assert (made.subject, made.function, made.line) == ("kernel", "kernel", 6)
    assert made.text == "x_ptr=fp16[16777216] y_ptr=fp16[16777216] n=16777216 BLOCK=1024 grid=cdiv(n, BLOCK)"


def test_a_method_cannot_be_called_so_its_caller_or_the_kernel_is_taken():
    method = "class A:\n    def f(self, x: torch.Tensor):\n        kernel[(1,)](x, x, 4, BLOCK=64)\n"
    assert draft(method).subject == "kernel"
    assert draft(method + "def run(x: torch.Tensor):\n    A().f(x)\n").function == "run"


def test_an_autograd_function_is_drafted_above_its_forward():
    made = draft(
        "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, eps):\n"
        "        M, N = x.shape\n        kernel[(1,)](x, x, 4, BLOCK=64)\n"
    )
    assert (made.function, made.text) == ("Op.forward", "x=fp16[M, N] eps=1e-6 M=4096 N=4096")


def test_a_draft_takes_less_than_a_gibibyte():
    made = draft(launch("A, B, C, D, E = x.shape\n" + "A, B, C, D, E = y.shape", "x, y"))
    analysis = analyze(HEAD + launch("", "x, y").replace("def op", made.comment() + "def op"), "k.py")
    (call,) = spec_calls(analysis, (), analysis.kernels[0])
    assert sum(2 * t.elements for _, t in call.keywords if isinstance(t, Tensor)) <= 1 << 30


def test_a_long_draft_is_written_over_several_lines_that_are_read_as_one():
    names = [f"quite_a_long_name_{i}" for i in range(12)]
    wrapper = launch("y = x", "x, " + ", ".join(f"{name}: int" for name in names))
    made = draft(wrapper)
    comment = made.comment()
    assert max(map(len, comment.splitlines())) <= 120
    assert len(comment.splitlines()) > 1
    lines = (HEAD + wrapper).splitlines(keepends=True)
    lines.insert(made.line - 1, comment)
    analysis = analyze("".join(lines), "k.py")
    assert spec_problems(analysis) == ()
    (call,) = spec_calls(analysis, (), analysis.kernels[0])
    assert [name for name, _ in call.keywords] == ["x", *names]


EXAMPLES = ("matmul", "row_softmax", "scale_shift")
AUTOGRAD = HEAD + (
    "class Op(torch.autograd.Function):\n    # tritonforge: launch x=fp16[M].requires_grad flag=True M in [64, 100]\n"
    "    @staticmethod\n    def forward(ctx, x, flag):\n        assert flag and x.is_cuda\n"
    "        y = torch.empty_like(x)\n        kernel[(2,)](x, y, x.numel(), BLOCK=64)\n        return y\n"
)


def with_draft(name: str) -> str:
    """Return the text of an example with the spec drafted for it."""
    lines = (ROOT / "examples" / f"{name}.py").read_text().splitlines(keepends=True)
    plain = analyze("".join(lines), f"{name}.py")
    made = first_spec(plain.kernels[0], plain)
    lines.insert(made.line - 1, made.comment())
    return "".join(lines)


@pytest.fixture(scope="module")
def compiled():
    """Compile what the specs of each text describe, all on one worker."""
    pytest.importorskip("triton")

    async def run() -> dict[str, list[CompiledLaunch]]:
        found: dict[str, list[CompiledLaunch]] = {}
        async with open_session(Settings(root=ROOT), "offline", python=sys.executable) as session:
            for name, text in {**{name: with_draft(name) for name in EXAMPLES}, "autograd": AUTOGRAD}.items():
                analysis = analyze(text, "k.py")
                for call in spec_calls(analysis, (), analysis.kernels[0]):
                    program = Program("/", "k.py", (("k.py", text),))
                    result = await session.worker.run(Compile(program, call, session.arch, artefacts=()))
                    found.setdefault(name, []).extend(result.launches)
        return found

    return asyncio.run(run())


@pytest.mark.triton
@pytest.mark.parametrize("name", EXAMPLES)
def test_drafts_of_the_examples_compile_as_they_are(compiled, name):
    assert [launch.error for launch in compiled[name]] == [None]


@pytest.mark.triton
def test_a_spec_above_the_forward_of_an_autograd_function_calls_apply(compiled):
    analysis = analyze(AUTOGRAD, "k.py")
    calls = spec_calls(analysis, (), analysis.kernels[0])
    assert [(call.function, len(call.arguments)) for call in calls] == [("Op.apply", 2), ("Op.apply", 2)]
    assert [dict(one.launch.arguments)["n"].value for one in compiled["autograd"]] == [64, 100]


@pytest.mark.gpu
@pytest.mark.triton
def test_drafts_of_the_examples_run_on_a_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")

    async def run() -> list[int]:
        found = []
        async with open_session(Settings(root=ROOT), "local", python=sys.executable) as session:
            for name in EXAMPLES:
                text = with_draft(name)
                analysis = analyze(text, "k.py")
                (call,) = spec_calls(analysis, (), analysis.kernels[0])
                program = Program("/", "k.py", (("k.py", text),))
                (timed,) = (await session.worker.run(Time((program,), call, samples=5))).programs
                assert timed.error is None
                found.append(len(timed.launches[0].samples))
        return found

    assert all(asyncio.run(run()))
