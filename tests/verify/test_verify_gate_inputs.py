"""The gate on real programs: what only unusual inputs show is refused, and what they do not concern is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tritonforge.config import load
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import open_session
from tritonforge.verify import Gate, Trialled

pytestmark = pytest.mark.triton

PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, N, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * N + c, mask=c < N, other=0.0)
    m = tl.max(tl.where(c < N, v, float("-inf")), axis=0)
    e = tl.where(c < N, tl.exp(v - m), 0.0)
    tl.store(o + r * N + c, e / (tl.sum(e, axis=0) + eps), mask=c < N)


def softmax(x, eps=0.001):
    M, N = x.shape
    o = torch.empty_like(x)
    if N:
        kernel[(M,)](x, o, N, eps, B=triton.next_power_of_2(N))
    return o
"""
LAUNCH = RecordedLaunch("k.py", "kernel", 8, (), (("B", Scalar(64)),), (), (50, 1, 1), CallSite("k.py", 22, "softmax"))
CALL = Call("c", "k.py", "softmax", (Tensor((50, 40), (40, 1), "float32"),), launches=(LAUNCH,))
RIGHT = {
    "more warps": ("B=triton.next_power_of_2(N)", "B=triton.next_power_of_2(N), num_warps=8"),
    "a maximum over what the mask lets through": ('other=0.0)\n    m = tl.max(tl.where(c < N, v, float("-inf")), axis=0)',
                                                 'other=float("-inf"))\n    m = tl.max(v, axis=0)'),
}  # fmt: skip
WRONG = {
    "a default folded in": ("+ eps)", "+ 0.001)", "eps other than its default"),
    "another default": ("eps=0.001", "eps=0.002", ""),
    "right for the recorded programs only": (
        "    c = tl.arange(0, B)\n",
        "    c = tl.arange(0, B)\n    if r >= 50:\n        return\n",
        "more programs than recorded",
    ),
    "no empty rows": ("    if N:\n", "    if N or 1:\n        o.shape[1] // N\n", "empty"),
    "a maximum that starts from zero": ('v, float("-inf"))', "v, 0.0)", ""),
    "no maximum": ("v - m", "v", ""),
    "-Inf taken for very small": ("tl.exp(v - m)", 'tl.where(m == float("-inf"), 0.0, tl.exp(v - m))', "NaN"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, Trialled]:
    root = tmp_path_factory.mktemp("gate-inputs")
    (root / "k.py").write_text(PROGRAM)
    return asyncio.run(_judge_all(root))


async def _judge_all(root: Path) -> dict[str, Trialled]:
    found = {}
    async with open_session(load(root), "offline") as session:
        gate = Gate(session.worker, Program(str(root), "k.py"), (CALL,), seed=1, grid=frozenset({50}))
        for name, (old, new, *_) in {**RIGHT, **WRONG}.items():
            assert PROGRAM.count(old) == 1, old
            candidate = Program(str(root), "k.py", (("k.py", PROGRAM.replace(old, new)),))
            found[name] = await gate.check(candidate, tile=64)
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_what_computes_the_same_passes(verdicts, name):
    assert verdicts[name].verdict.accepted, verdicts[name].verdict.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_only_an_unusual_input_shows_is_refused(verdicts, name):
    verdict = verdicts[name].verdict
    assert not verdict.accepted
    assert WRONG[name][2] in verdict.reason
