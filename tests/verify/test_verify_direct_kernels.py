"""Which kernels of a candidate are launched in their originals' places, and through the whole gate that it matters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import open_session
from tritonforge.verify import Gate, Trialled
from tritonforge.verify.direct_kernels import pairs

TEXT = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(o, x, M, N, so, sx, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * sx + c, mask=c < N)
    tl.store(o + row * so + c, v * 2.0, mask=c < N)


@triton.jit
def shift(o, x, M, N, so, sx, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * sx + c, mask=c < N)
    tl.store(o + row * so + c, v + 1.0, mask=c < N)


def both(x):
    M, N = x.shape
    t = torch.empty((M, N), device=x.device, dtype=x.dtype)
    o = torch.empty_like(t)
    scale[(M,)](t, x, M, N, t.stride(0), x.stride(0), B=64)
    shift[(M,)](o, t, M, N, o.stride(0), t.stride(0), B=64)
    return o
"""
# No input of the host function shows this: what it passes between its kernels is always dense.
DENSE = TEXT.replace("tl.store(o + row * so + c, v * 2.0", "tl.store(o + row * N + c, v * 2.0")
CALL = Call("c", "k.py", "both", (Tensor((5, 40), (40, 1), "float32"),))


def launches(**tiles: int) -> list[RecordedLaunch]:
    site = CallSite("k.py", 27, "both")
    return [RecordedLaunch("k.py", n, 1, (), (("B", Scalar(b)),), (), (5, 1, 1), site) for n, b in tiles.items()]


def compared(candidate: str, after: list[RecordedLaunch], folder: Path) -> list[str]:
    (folder / "k.py").write_text(TEXT)
    original, edited = Program(str(folder), "k.py"), Program(str(folder), "k.py", (("k.py", candidate),))
    kernel = next(one for one in analyze(TEXT, "k.py").kernels if one.name == "shift")
    found = pairs(original, edited, kernel, None, before=launches(scale=64, shift=64), after=after)
    return [one.original.name for one in found]


def test_every_kernel_that_is_edited_is_compared_after_the_one_in_question(tmp_path):
    assert compared(TEXT, launches(scale=64, shift=64), tmp_path) == ["shift"]
    assert compared(DENSE, launches(scale=64, shift=64), tmp_path) == ["shift", "scale"]
    assert compared(TEXT, launches(scale=128, shift=64), tmp_path) == ["shift", "scale"]
    assert compared(TEXT.replace("def shift", "def other"), launches(scale=64), tmp_path) == []


async def judged(folder: Path) -> Trialled:
    (folder / "k.py").write_text(TEXT)
    kernel = next(one for one in analyze(TEXT, "k.py").kernels if one.name == "shift")
    async with open_session(load(folder), "offline") as session:
        gate = Gate(session.worker, Program(str(folder), "k.py"), (CALL,), arch="sm_90", kernel=kernel, seed=7)
        return await gate.check(Program(str(folder), "k.py", (("k.py", DENSE),)))


@pytest.mark.triton
def test_an_edit_of_another_kernel_that_the_host_function_hides_is_refused(tmp_path):
    pytest.importorskip("triton")
    verdict = asyncio.run(judged(tmp_path)).verdict
    assert not verdict.accepted
    assert verdict.checks["kernels compared directly"].startswith("failed")
    assert "scale(" in verdict.reason
    assert "-d1." in verdict.replay
