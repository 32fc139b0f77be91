"""The gate on real programs: each kind of mistake that computes the recorded call rightly is refused all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tritonforge.config import load
from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import open_session
from tritonforge.verify import Gate, Trialled

pytestmark = pytest.mark.triton

PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, M, N, sx0, sx1, so0, so1, factor, B: tl.constexpr):
    r = tl.program_id(0)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0) * factor
        tl.store(o + r * so0 + c * so1, tl.where(v < 0, 0.0, v), mask=c < N)


def scale(x, factor, upper=False):
    M, N = x.shape
    o = torch.empty((M, N), device=x.device, dtype=x.dtype)
    kernel[(M,)](x, o, M, N, x.stride(0), x.stride(1), o.stride(0), o.stride(1), factor, B=32)
    return o.triu() if upper else o
"""
ALLOCATION = "o = torch.empty((M, N), device=x.device, dtype=x.dtype)"
KEPT = "o = globals().setdefault((M, N), torch.empty((M, N), device=x.device, dtype=x.dtype))"
CALL = Call("c", "k.py", "scale", (Tensor((300, 200), (200, 1), "float32"), Scalar(0.5)), (("upper", Scalar(False)),))

RIGHT = {
    "a larger block": ("B=32", "B=64, num_warps=8"),
    "the choice the other way round": ("tl.where(v < 0, 0.0, v)", "tl.where((v >= 0) | (v != v), v, 0.0)"),
    "output strides of a fresh tensor": ("r * so0 + c * so1", "r * N + c"),
}
WRONG = {
    "rows taken for dense": ("r * sx0", "r * N", "gaps between rows"),
    "columns taken for dense": ("c * sx1", "c", "transposed memory"),
    "a loop as long as the recorded one": ("range(0, N, B)", "range(0, 200 + 0 * N, B)", "over a tile"),
    "a factor that was folded in": ("* factor", "* 0.5", "other factors"),
    "a flag that is ignored": ("o.triu() if upper else o", "o", "upper=True"),
    "NaN swallowed": ("tl.where(v < 0, 0.0, v)", "tl.maximum(v, 0.0)", "NaN"),
    "one row taken for none": ("    return o", "    if M == 1 and N > 1: o.zero_()\n    return o", "one size is one"),
    "no kernel at all": (ALLOCATION, "return (x * factor).clamp(min=0)", "computes with the library: .clamp()"),
    "one output buffer for all calls": (ALLOCATION, KEPT, "uses globals"),
    "another layout": ("    return o.triu()", "    o = o.t().contiguous().t()\n    return o.triu()", "strides"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, Trialled]:
    root = tmp_path_factory.mktemp("gate")
    (root / "k.py").write_text(PROGRAM)
    return asyncio.run(_judge_all(root))


async def _judge_all(root: Path) -> dict[str, Trialled]:
    found = {}
    async with open_session(load(root), "offline") as session:
        gate = Gate(session.worker, Program(str(root), "k.py"), (CALL,), seed=1, grid=frozenset({300}))
        for name, (old, new, *_) in {**RIGHT, **WRONG}.items():
            assert PROGRAM.count(old) == 1, old
            candidate = Program(str(root), "k.py", (("k.py", PROGRAM.replace(old, new)),))
            found[name] = await gate.check(candidate, tile=64)
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_what_computes_the_same_passes(verdicts, name):
    assert verdicts[name].verdict.accepted, verdicts[name].verdict.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_is_right_on_the_recorded_call_alone_is_refused(verdicts, name):
    verdict = verdicts[name].verdict
    assert not verdict.accepted
    assert WRONG[name][2] in verdict.reason
