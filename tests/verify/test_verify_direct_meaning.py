"""Kernels whose buffers mean something only to their own host function: two-stage reductions, through the whole gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import open_session
from tritonforge.verify import Gate, Trialled

pytestmark = pytest.mark.triton

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def part(x, sums, M, N, stride, R, B: tl.constexpr):
    first = tl.program_id(0) * R
    c = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(0, R):
        r = first + i
        total += tl.load(x + r * stride + c, mask=(c < N) & (r < M), other=0.0)
    tl.store(sums + tl.program_id(0) * N + c, total, mask=c < N)
"""
ON_THE_HOST = """

def column_sums(x):
    x = x.contiguous()
    M, N = x.shape
    sums = torch.empty((triton.cdiv(M, 8), N), device=x.device)
    part[(triton.cdiv(M, 8),)](x, sums, M, N, x.stride(0), 8, B=64)
    return sums.sum(0)
"""
BY_A_KERNEL = """

@triton.jit
def whole(sums, o, P, N, B: tl.constexpr):
    c = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for p in range(0, P):
        total += tl.load(sums + p * N + c, mask=c < N, other=0.0)
    tl.store(o + c, total, mask=c < N)


def column_sums(x):
    x = x.contiguous()
    M, N = x.shape
    sums = torch.empty((triton.cdiv(M, 8), N), device=x.device)
    part[(triton.cdiv(M, 8),)](x, sums, M, N, x.stride(0), 8, B=64)
    o = torch.empty(N, device=x.device)
    whole[(1,)](sums, o, sums.shape[0], N, B=64)
    return o
"""
PROGRAMS = {"on the host": KERNEL + ON_THE_HOST, "by a kernel": KERNEL + BY_A_KERNEL}
INTERLEAVED = [
    ("first = tl.program_id(0) * R", "first = tl.program_id(0)"),
    ("r = first + i\n", "r = first + i * tl.num_programs(0)\n"),
]
DENSE = [("r * stride", "r * N")]
CALL = Call("c", "k.py", "column_sums", (Tensor((60, 40), (40, 1), "float32"),))
CHECK = "kernels compared directly"


@dataclass(frozen=True)
class Case:
    program: str
    edits: list[tuple[str, str]]


CASES = {
    "other partial sums, added up on the host": Case("on the host", INTERLEAVED),
    "other partial sums, added up by a kernel": Case("by a kernel", INTERLEAVED),
    "a stride that the host makes dense": Case("on the host", DENSE),
    "one warp": Case("on the host", [("B=64)", "B=64, num_warps=1)")]),
}


async def _judge_all(root: Path) -> dict[str, Trialled]:
    found = {}
    async with open_session(load(root), "offline") as session:
        gates = {}
        for name, text in PROGRAMS.items():
            original = Program(str(root), "k.py", (("k.py", text),))
            kernel = analyze(text, "k.py").kernels[0]
            gates[name] = Gate(session.worker, original, (CALL,), seed=1, arch="sm_90", kernel=kernel)
        for about, case in CASES.items():
            text = PROGRAMS[case.program]
            for old, new in case.edits:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            found[about] = await gates[case.program].check(Program(str(root), "k.py", (("k.py", text),)))
    return found


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, Trialled]:
    root = tmp_path_factory.mktemp("meaning")
    (root / "k.py").write_text(PROGRAMS["on the host"])
    return asyncio.run(_judge_all(root))


@pytest.mark.parametrize("where", ["on the host", "by a kernel"])
def test_other_partial_sums_are_accepted_and_why_kernels_were_not_compared_is_said(judged, where):
    verdict = judged[f"other partial sums, added up {where}"].verdict
    assert verdict.accepted, verdict.reason
    said = verdict.checks[CHECK]
    assert said.startswith(
        "skipped: where the host function launches them, too, the two kernels leave different things"
    )
    assert "sums differs at" in said
    assert not any("launched directly" in text for text in verdict.inputs)


def test_a_stride_that_is_ignored_is_still_refused_where_the_host_always_makes_it_dense(judged):
    verdict = judged["a stride that the host makes dense"].verdict
    assert not verdict.accepted
    assert verdict.checks[CHECK].startswith("failed: ")
    assert "launched directly" in verdict.reason or "direct launch" in verdict.reason


def test_kernels_that_mean_the_same_are_compared(judged):
    one = judged["one warp"]
    assert one.verdict.accepted, one.verdict.reason
    assert one.verdict.checks[CHECK] == "passed"
    direct = [text for text in one.verdict.inputs if "launched directly" in text]
    assert sum("equal" in text for text in direct) >= 6
    assert not any("does not check" in note for note in one.notes)
