"""What the engine proposes where host code chooses values in branches, and what it says of values that stay."""

import dataclasses

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import Refusal, RuleEngine, Task

KERNELS = """
import torch
import triton
import triton.language as tl
from elsewhere import place


@triton.jit
def scores_kernel(q, k, out, T, D: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    i_t, i_v = place(tl.cdiv(D, BV))
    rows = i_t * BT + tl.arange(0, BT)
    columns = tl.arange(0, BD)
    values = i_v * BV + tl.arange(0, BV)
    b_q = tl.load(q + rows[:, None] * D + columns[None, :], mask=(rows < T)[:, None], other=0.0)
    acc = tl.zeros((BT, BV), dtype=tl.float32)
    for start in range(0, T, BS):
        keys = start + tl.arange(0, BS)
        b_k = tl.load(k + keys[:, None] * D + columns[None, :], mask=(keys < T)[:, None], other=0.0)
        b_v = tl.load(k + keys[:, None] * D + values[None, :], mask=(keys < T)[:, None], other=0.0)
        acc += tl.dot(tl.dot(b_q, tl.trans(b_k)).to(b_v.dtype), b_v)
    tl.store(out + rows[:, None] * D + values[None, :], acc, mask=(rows < T)[:, None])


@triton.jit
def other_kernel(q, T, D: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    rows = tl.program_id(0) * BT + tl.arange(0, BT)
    tl.store(q + rows * D, 0.0, mask=rows < T)
"""

SHARED = """

def scores(q, k):
    T, D = q.shape
    if torch.cuda.get_device_capability()[0] >= 9:
        BT = 128
        BS = 64
        BD = max(triton.next_power_of_2(D), 16)
        BV = max(triton.next_power_of_2(D), 16)
        num_warps = 8
    else:
        BS = 32
        BT = 128 if D <= 64 else 64
        BD = max(triton.next_power_of_2(D), 16)
        BV = max(triton.next_power_of_2(D), 16)
        num_warps = 4
    blocks = table_of(T, BT)
    NT = triton.cdiv(T, BT)
    out = torch.empty_like(q)
    other_kernel[(NT,)](q, T, D=D, BT=BT, BS=BS, num_warps=num_warps)
    scores_kernel[(NT * triton.cdiv(D, BV),)](q, k, out, T, D=D, BT=BT, BS=BS, BD=BD, BV=BV, num_warps=num_warps)
    return out, blocks
"""

OWN = """

def scores(q, k):
    T, D = q.shape
    if torch.cuda.get_device_capability()[0] >= 9:
        BT, BS, num_warps = 128, min(64, triton.next_power_of_2(T)), 8
    else:
        BT, BS, num_warps = 64, min(32, triton.next_power_of_2(T)), 4
    BD = BV = triton.next_power_of_2(D)
    NT = triton.cdiv(T, BT)
    out = torch.empty_like(q)
    scores_kernel[(NT * triton.cdiv(D, BV),)](q, k, out, T, D=D, BT=BT, BS=BS, BD=BD, BV=BV, num_warps=num_warps)
    return out, NT
"""


def _steps(host, text="", other=None, **changes):
    """Return what is proposed and refused; `other`: what one more launch ran with that differs."""
    text = text or KERNELS + host
    (kernel,) = (k for k in analyze(text, "a.py").kernels if k.name == "scores_kernel")
    values = {"BT": 128, "BS": 64, "BD": 128, "BV": 128, "num_warps": 8, "num_stages": 3} | changes
    tensor = Tensor((4096, 128), (128, 1), "bfloat16")
    arguments = (("q", tensor), ("k", tensor), ("out", tensor), ("T", Scalar(4096)))
    options = tuple((n, Scalar(v)) for n, v in values.items() if n.startswith("num_"))
    tiles = tuple((n, Scalar(v)) for n, v in values.items() if not n.startswith("num_"))
    site = kernel.launch_sites[0]
    launch = Launch(
        "1", "a.py", kernel.name, Problem(arguments, (("D", Scalar(128)),)), Config(tiles, options, (32, 1, 1)),
        CallSite("a.py", site.range.start.line, "scores"),
    )  # fmt: skip
    launches = [launch]
    if other is not None:
        differs = tuple((n, Scalar(other.get(n, v.value))) for n, v in tiles)
        launches.append(
            dataclasses.replace(launch, id="2", config=dataclasses.replace(launch.config, constexprs=differs))
        )
    steps = list(RuleEngine(()).propose(Task(kernel, {"a.py": text}, tuple(launches))))
    made = {s.title: apply_edits(text, s.edits) for s in steps if isinstance(s, Candidate)}
    return made, [s.reason for s in steps if isinstance(s, Refusal)]


@pytest.fixture(scope="module")
def shared():
    return _steps(SHARED)


def test_warps_and_stages_are_tried_although_no_tile_is_known_as_m_or_n(shared):
    made, _ = shared
    text = made["BS=64, num_warps=16, num_stages=3"]
    assert "        num_warps = 8\n" in text, "the other kernel's warps are its own"
    assert "BV=BV, num_warps=16)" in text
    assert "BV=BV, num_warps=num_warps, num_stages=4)" in made["BS=64, num_warps=8, num_stages=4"]


def test_a_tile_of_a_branch_that_another_kernel_reads_is_written_at_the_launch(shared):
    made, _ = shared
    title = next(t for t in made if t.startswith("BS=32"))
    assert "BT=BT, BS=32, BD=BD" in made[title]
    assert "other_kernel[(NT,)](q, T, D=D, BT=BT, BS=BS, num_warps=num_warps)" in made[title]


def test_values_that_stay_are_told_with_the_reason(shared):
    _, reasons = shared
    line = 1 + (KERNELS + SHARED)[: (KERNELS + SHARED).index("    blocks = ")].count("\n")
    (bt,) = (r for r in reasons if r.startswith("BT stays 128: "))
    assert bt.endswith(f"another launch at line {line + 3} too, and line {line} depends on it.")
    assert "BV stays 128: BV is triton.next_power_of_2(D), so that one block covers a whole row." in reasons


def test_tiles_of_a_branch_are_searched_with_all_that_follows_them():
    made, _ = _steps(OWN)
    changed = {title: text for title, text in made.items() if title.startswith("BT=64, BS=64")}
    assert changed
    for text in changed.values():
        assert "BT, BS, num_warps = 64, min(64, triton.next_power_of_2(T))" in text
        assert "BT=BT, BS=BS" in text
    assert any("min(32, triton.next_power_of_2(T)), 8\n" in text for text in made.values())


def test_a_branch_that_cannot_have_run_is_not_edited():
    _, reasons = _steps(OWN, BT=32)
    assert any(
        r.startswith("BT stays 32: this launch ran with BT=32, which is set at none of the lines") for r in reasons
    )


def test_a_branch_is_not_edited_for_launches_that_ran_with_different_values():
    _, reasons = _steps(OWN, other={"BT": 64})
    assert (
        "BT stays 128: the recorded launches ran with different values of BT, and an edit has to hold for all of them."
    ) in reasons
    assert "BV stays 128: BV is triton.next_power_of_2(D), so that one block covers a whole row." in reasons


def test_tiles_that_an_autotuner_leaves_to_the_launch_stay():
    autotuned = "@triton.autotune(configs=[triton.Config({}, num_warps=8)], key=['T'])\n@triton.jit\ndef scores_kernel"
    host = OWN.replace(", num_warps=num_warps)", ")")
    text = (KERNELS + host).replace("@triton.jit\ndef scores_kernel", autotuned)
    _, reasons = _steps(host, text)
    assert "BT stays 128: the autotuner's configs leave BT to the launch." in reasons
    _, reasons = _steps(host, text.replace("@triton.autotune", "@triton.heuristics({'BT': pick})\n@triton.autotune"))
    assert "BT stays 128: BT is chosen by @triton.heuristics." in reasons
