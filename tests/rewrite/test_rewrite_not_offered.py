"""What was measured as useless, or as a trap, is proposed by nobody."""

import json
import re
from dataclasses import replace

import pytest
from test_structural_golden import GOLDEN, task_of

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import RuleEngine
from tritonforge.rewrite.protocol import Task
from tritonforge.rewrite.structural import Rewritten, rewrites
from tritonforge.rewrite.structural.hoisted_loads import HoistedLoads

TEXT = """\
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    m = pid_m * BM + tl.arange(0, BM)
    n = (pid_n * BN + tl.arange(0, BN)) % N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    acc = libdevice.pow(acc, 2.0)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


def run(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N)
    kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, c, M, N, K, BM=64, BN=64, BK=32)
    return c
"""


@pytest.fixture(scope="module")
def proposed():
    (kernel,) = analyze(TEXT, "k.py").kernels
    line = kernel.launch_sites[0].range.start.line
    sizes = tuple((name, Scalar(4096)) for name in "MNK")
    options = (("num_warps", Scalar(4)), ("num_stages", Scalar(3)))
    tiles = (("BM", Scalar(64)), ("BN", Scalar(64)), ("BK", Scalar(32)))
    launch = Launch(
        "1", "k.py", "kernel", Problem(sizes), Config(tiles, options, (64, 64, 1)), CallSite("k.py", line, "run")
    )
    found = []
    for kind in ("tensor-core", "dram-bandwidth"):
        task = Task(kernel, {"k.py": TEXT}, (launch,), (), {"1": Bottleneck(kind, 1.0, "predicted")})
        found += [c for c in RuleEngine().propose(task) if isinstance(c, Candidate)]
    assert len(found) > 30
    return [(candidate, apply_edits(TEXT, candidate.edits)) for candidate in found]


@pytest.mark.parametrize(
    "words",
    [
        "maxnreg",
        "warp_specialize",
        "eviction_policy",
        "cache_modifier",
        "multiple_of",
        "max_contiguous",
        "make_block_ptr",
    ],
)
def test_nobody_writes(proposed, words):
    assert [candidate.title for candidate, text in proposed if words in text] == []


def test_a_small_power_stays_the_compiler_s_business(proposed):
    assert all("libdevice.pow(acc, 2.0)" in text for _, text in proposed)


def test_no_load_loses_its_mask(proposed):
    for candidate, text in proposed:
        if not any(name != "launch-parameters" for name, _ in candidate.rewrites):
            assert text.count("mask=") == TEXT.count("mask="), candidate.title
        for load in re.findall(r"tl\.load\((?:[^()]|\([^()]*\))*\)", text):
            assert "mask=" in load, (candidate.title, load)


def test_programs_are_not_grouped_for_l2(proposed):
    assert [candidate.title for candidate, text in proposed if "GROUP" in text or "swizzle" in text] == []


@pytest.mark.parametrize(("w_buffer", "moved"), [(1, True), (2, False)])
def test_a_load_stays_behind_a_store_to_memory_that_it_may_read(w_buffer, moved):
    """In any launch: the second one here passes the same memory for what is read and what is written."""
    wanted = json.loads((GOLDEN / "hoisted_weights" / "task.json").read_text())
    task = task_of((GOLDEN / "hoisted_weights" / "before.py").read_text(), wanted)
    tensors = (("w_ptr", Tensor((50,), (1,), "float32", 16, buffer=w_buffer)),)
    tensors += (("o_ptr", Tensor((4096, 50), (50, 1), "float32", 16, buffer=2)),)
    second = replace(task.launches[0], id="2", problem=Problem(tensors))
    (outcome,) = rewrites(HoistedLoads(), replace(task, launches=(*task.launches, second)))
    assert isinstance(outcome, Rewritten) is moved
    if not moved:
        assert outcome.reason == "w_ptr and o_ptr are the same memory."
