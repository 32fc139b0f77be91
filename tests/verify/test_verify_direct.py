"""Direct launches: what the host function never does tells a kernel that understands its arguments from one that guesses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar
from tritonforge.domain.messages import CompareResult, InputOutcome, Program, Record
from tritonforge.jobs import Worker
from tritonforge.jobs.session import open_session
from tritonforge.verify.direct import DirectInputs, direct_variations
from tritonforge.verify.direct_grid import axes_of

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
    "the layout of what the host makes": ("r * so0 + c * so1", "r * N + c"),
    "a stride of one, hard-coded": ("c * sx1, mask=c < N, other=0.0)\n        tl.store", "c, mask=c < N, other=0.0)\n        tl.store"),
    "a stride that is ignored": ("total += tl.load(x + r * sx0", "total += tl.load(x + r * N"),
    "sizes taken to be divisible": ("(v - mean) * factor + shift, mask=c < N)", "(v - mean) * factor + shift)"),
    "one element too far": ("total += tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0)",
                            "total += tl.where(c < N, tl.load(x + r * sx0 + c * sx1, mask=c <= N, other=0.0), 0.0)"),
    "a factor's recorded value": ("* factor", "* 0.5"),
    "a whole number's recorded value": ("+ shift", "+ 3"),
    "programs past the recorded ones": ("mean = tl.sum(total) / N", "mean = tl.where(r < 40, tl.sum(total) / N, 0.0)"),
}  # fmt: skip


UNCHECKED = PROGRAM.replace(", mask=c < N, other=0.0", "").replace(", mask=c < N", "")
# The last element of the last row is data that a mask of the original leaves out.
MASKED = PROGRAM.replace("mask=c < N, other=0.0", "mask=(c < N) & (c != N - 1), other=0.0")
READ = "tl.load(x + r * sx0 + c * sx1, mask=c < N, other=0.0)"
MASKED_LATER = PROGRAM.replace(READ, f"tl.where(c != N - 1, {READ}, 0.0)")
OTHER_GRID = {
    "tl.program_id(0)\n": "2 * tl.program_id(0)\n",
    "kernel[(M,)]": "kernel[(M // 2,)]",
}


def edited(program: str, edits: dict[str, str]) -> str:
    for old, new in edits.items():
        assert program.count(old) == 1, old
        program = program.replace(old, new)
    return program


async def _try(worker: Worker, root: Path, program: str, text: str) -> Tried:
    original = Program(str(root), "k.py", (("k.py", program),))
    candidate = Program(str(root), "k.py", (("k.py", text),))
    launches = []
    for one in (original, candidate):
        recorded = await worker.run(Record(one, "function", "main"))
        launches.append([launch for call in recorded.calls for launch in call.launches])
    kernel, candidate_kernel = (analyze(t, "k.py").kernels[0] for t in (program, text))
    found = await direct_variations(
        worker, original, candidate, *launches, kernel=kernel, candidate_kernel=candidate_kernel, seed=1
    )
    return Tried(found, None if found.reason else await worker.run(found.request(original, candidate)))


async def _try_all(root: Path) -> dict[str, Tried]:
    async with open_session(load(root), "offline") as session:
        found = {}
        for about, (old, new) in {**RIGHT, **WRONG}.items():
            text = edited(PROGRAM, {old: new} if old else {})
            found[about] = await _try(session.worker, root, PROGRAM, text)
        found["grid"] = await _try(session.worker, root, PROGRAM, edited(PROGRAM, OTHER_GRID))
        filled = edited(PROGRAM, {"torch.empty_like(x)": "torch.zeros_like(x)", "tl.store(o": "tl.atomic_add(o"})
        found["adding"] = await _try(session.worker, root, PROGRAM, filled)
        found["read behind a mask"] = await _try(session.worker, root, MASKED, MASKED_LATER)
        found["unchecked"] = await _try(session.worker, root, UNCHECKED, UNCHECKED.replace("B=32", "B=64"))
        return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory) -> dict[str, Tried]:
    root = tmp_path_factory.mktemp("direct")
    (root / "k.py").write_text(PROGRAM)
    return asyncio.run(_try_all(root))


@pytest.mark.parametrize("about", RIGHT)
def test_what_computes_the_same_passes(tried, about):
    one = tried[about]
    assert not one.found.reason
    assert not one.failing
    assert sum(o.status == "equal" for o in one.result.outcomes) >= 6, one.found.notes


@pytest.mark.parametrize("about", WRONG)
def test_what_the_host_function_hides_is_caught(tried, about):
    assert tried[about].failing


def test_another_grid_is_skipped_with_the_reason(tried):
    assert tried["grid"].found.reason == "the candidate's grid is [20, 1, 1], not [40, 1, 1]"


def test_a_kernel_that_does_not_check_its_sizes_is_launched_on_even_ones(tried):
    one = tried["unchecked"]
    assert not one.failing
    assert any("does not check N" in note for note in one.found.notes)
    sizes = {dict(v.call.keywords)["N"].value for v in one.found.variations}
    assert all(size % 64 == 0 for size in sizes)


def test_a_kernel_that_adds_to_an_output_is_not_launched_on_one_that_nobody_filled(tried):
    said = "the candidate's kernel adds to what it finds in memory, where the original does not"
    assert tried["adding"].found.reason == said


def test_what_a_mask_leaves_out_inside_a_tensor_may_be_read(tried):
    one = tried["read behind a mask"]
    assert one.result is not None
    assert not one.failing


def test_buffers_end_where_the_original_stops(tried):
    first = dict(tried["the kernel itself"].found.variations[0].call.keywords)
    m, n, step = (first[name].value for name in ("M", "N", "sx0"))
    assert n < step, "rows are padded"
    assert first["x"].shape == ((m - 1) * step + n,)
    assert first["o"].values.kind == "uninitialised"


def launch_of(text: str, grid: tuple[int, int, int], **numbers: int) -> tuple[Kernel, RecordedLaunch]:
    kernel = analyze(text, "k.py").kernels[0]
    named = [(p.name, Scalar(numbers[p.name]), p.constexpr) for p in kernel.parameters]
    arguments = tuple((name, value) for name, value, constexpr in named if not constexpr)
    constexprs = tuple((name, value) for name, value, constexpr in named if constexpr)
    site = CallSite("k.py", 0, "host")
    return kernel, RecordedLaunch("k.py", "k", 1, arguments, constexprs, (), grid, site)


KERNEL = """
@triton.jit
def k(M, N, B_M: tl.constexpr, B_N: tl.constexpr):
    pass


def host(M, N, batch):
    k[GRID](M, N, B_M=64, B_N=32)
"""


@pytest.mark.parametrize(
    ("grid", "recorded", "wanted"),
    [
        ("(triton.cdiv(M, 64), N)", (5, 200, 1), (2, 70, 1)),
        ('lambda meta: (triton.cdiv(M, meta["B_M"]) * triton.cdiv(N, meta["B_N"]),)', (35, 1, 1), (6, 1, 1)),
        ("(batch, N)", (9, 200, 1), (3, 70, 1)),
        ("somewhere(M, N)", (5, 7, 1), (2, 3, 1)),
        ("somewhere(M, N)", (35, 1, 1), (6, 1, 1)),
        ("somewhere(M, N)", (300, 1, 1), (100, 1, 1)),
        ("somewhere(M, N)", (13, 1, 1), (13, 1, 1)),
    ],
)
def test_a_grid_follows_the_sizes(grid, recorded, wanted):
    kernel, launch = launch_of(KERNEL.replace("GRID", grid), recorded, M=300, N=200, B_M=64, B_N=32)
    axes = axes_of(kernel, launch, [launch], ["M", "N"])
    assert tuple(axis.extent({"M": 100, "N": 70, "B_M": 64, "B_N": 32}) for axis in axes) == wanted


def test_what_numbers_do_not_tell_apart_stays_equal():
    kernel, launch = launch_of(KERNEL.replace("GRID", "g(M)"), (300, 1, 1), M=300, N=300, B_M=64, B_N=32)
    assert axes_of(kernel, launch, [launch], ["M", "N"])[0].ties == (frozenset({"M", "N"}),)
