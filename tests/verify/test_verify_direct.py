"""Direct launches: what the host function never does tells a kernel that understands its arguments from one that guesses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.messages import CompareResult, InputOutcome, Program, Record
from tritonforge.jobs import Worker
from tritonforge.jobs.session import open_session
from tritonforge.verify.direct import DirectInputs, direct_variations

pytestmark = pytest.mark.triton

PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, M, N, sx0, sx1, so0, so1, factor, shift, B: tl.constexpr):
    r = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        total += tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0)
    mean = tl.sum(total) / N
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0)
        tl.store(o + r * so0 + c * so1, (v - mean) * factor + shift, mask=c < N)


def centre(x):
    M, N = x.shape
    o = torch.empty_like(x)
    kernel[(M,)](x, o, M, N, x.stride(0), x.stride(1), o.stride(0), o.stride(1), 0.5, 3, B=32)
    return o


def main():
    centre(torch.randn(40, 128, device="cuda"))
    centre(torch.randn(40, 256, device="cuda"))
"""


@dataclass(frozen=True)
class Tried:
    """What became of one candidate on direct launches."""

    found: DirectInputs
    result: CompareResult | None

    @property
    def failing(self) -> list[tuple[str, InputOutcome]]:
        outcomes = self.result.outcomes if self.result else ()
        pairs = zip(self.found.variations, outcomes, strict=False)
        return [(v.about, o) for v, o in pairs if o.status in ("different", "candidate-failed")]


RIGHT = {
    "the kernel itself": ("", ""),
    "another loop tile": ("B=32", "B=64"),
    "a sum in another order": ("tl.sum(total)", "tl.sum(tl.reshape(total, (4, B // 4)).trans())"),
}
WRONG = {
    "a stride of one, hard-coded": ("c * sx1, mask=c < N, other=0.0)\n        tl.store", "c, mask=c < N, other=0.0)\n        tl.store"),
    "a stride that is ignored": ("r * so0", "r * sx0"),
    "sizes taken to be divisible": ("(v - mean) * factor + shift, mask=c < N)", "(v - mean) * factor + shift)"),
    "one element too far": ("total += tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0)",
                            "total += tl.where(c < N, tl.load(x + r * sx0 + c * sx1, mask=c <= N, other=0.0), 0.0)"),
    "a factor's recorded value": ("* factor", "* 0.5"),
    "a whole number's recorded value": ("+ shift", "+ 3"),
    "programs past the recorded ones": ("mean = tl.sum(total) / N", "mean = tl.where(r < 40, tl.sum(total) / N, 0.0)"),
}  # fmt: skip


def tried_on(root: Path, program: str, candidates: dict[str, str], name: str = "kernel") -> dict[str, Tried]:
    (root / "k.py").write_text(program)
    return asyncio.run(_try_all(root, program, candidates, name))


async def _try_all(root: Path, program: str, candidates: dict[str, str], name: str) -> dict[str, Tried]:
    async with open_session(load(root), "offline") as session:
        original = Program(str(root), "k.py")
        return {about: await _try(session.worker, original, program, text, name) for about, text in candidates.items()}


async def _try(worker: Worker, original: Program, program: str, text: str, name: str) -> Tried:
    candidate = Program(original.root, "k.py", (("k.py", text),))
    kernels = [next(k for k in analyze(t, "k.py").kernels if k.name == name) for t in (program, text)]
    launches = []
    for one in (original, candidate):
        recorded = await worker.run(Record(one, "function", "main"))
        launches.append([launch for call in recorded.calls for launch in call.launches])
    found = await direct_variations(
        worker, original, candidate, *launches, kernel=kernels[0], candidate_kernel=kernels[1], seed=1
    )
    result = None if found.reason else await worker.run(found.request(original, candidate))
    return Tried(found, result)


@pytest.fixture(scope="module")
def tried(tmp_path_factory) -> dict[str, Tried]:
    texts = {}
    for about, (old, new) in {**RIGHT, **WRONG}.items():
        assert not old or PROGRAM.count(old) == 1, old
        texts[about] = PROGRAM.replace(old, new)
    return tried_on(tmp_path_factory.mktemp("direct"), PROGRAM, texts)


@pytest.mark.parametrize("about", RIGHT)
def test_what_computes_the_same_passes(tried, about):
    one = tried[about]
    assert not one.found.reason
    assert not one.failing
    assert sum(o.status == "equal" for o in one.result.outcomes) >= 6, one.found.notes


@pytest.mark.parametrize("about", WRONG)
def test_what_the_host_function_hides_is_caught(tried, about):
    assert tried[about].failing
