"""A suggestion's values left to `@triton.autotune`: written where that is safe, refused with a reason elsewhere."""

from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotuned import autotuned

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def run(x):
    o = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), BLOCK=256, num_warps=4)
    return o
"""


def form(text, wanted, before, file="k.py"):
    kernel = analyze(text, file).kernels[0]
    site = kernel.launch_sites[0] if kernel.launch_sites else None
    constexprs = tuple((k, Scalar(v)) for k, v in before.items() if not k.startswith("num_"))
    options = tuple((k, Scalar(v)) for k, v in before.items() if k.startswith("num_"))
    launch = Launch(
        "l", file, kernel.name, Problem(()), Config(constexprs, options, (1, 1, 1)),
        CallSite(file, site.range.start.line if site else 1, ""),
    )  # fmt: skip
    return autotuned(kernel, text, wanted, launch)


def test_old_and_new_values_become_configs_and_the_launch_gives_none_of_them():
    found = form(SCALE, {"BLOCK": 1024, "num_warps": 8}, {"BLOCK": 256, "num_warps": 4})
    assert isinstance(found, Candidate)
    text = apply_edits(SCALE, found.edits)
    configs = [
        '        triton.Config({"BLOCK": 1024}, num_warps=8),',
        '        triton.Config({"BLOCK": 256}, num_warps=4),',
    ]
    decorator = ["@triton.autotune(", "    configs=[", *configs, "    ],", '    key=["n"],', ")", "@triton.jit"]
    launch = '    scale[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](x, o, x.numel())'
    expected = SCALE.replace("@triton.jit", "\n".join(decorator))
    lines = [launch if "scale[" in line else line for line in expected.split("\n")]
    assert text == "\n".join(lines)
    (kernel,) = analyze(text, "k.py").kernels
    assert [value.source for _, value in kernel.launch_sites[0].constexprs] == ["autotune"]


def test_a_grid_in_a_variable_of_its_own_reads_the_chosen_tiles():
    text = (EXAMPLES / "matmul.py").read_text()
    tiles = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}
    found = form(text, tiles, dict.fromkeys(tiles, 32))
    assert isinstance(found, Candidate)
    after = apply_edits(text, found.edits)
    assert 'grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]), triton.cdiv(N, META["BLOCK_N"]))' in after
    assert "BLOCK_M=32" not in after
    compile(after, "matmul.py", "exec")


def test_line_ends_and_everything_else_stay():
    text = SCALE.replace("\n", "\r\n") + "# é🚀\r\n"
    found = form(text, {"BLOCK": 512}, {"BLOCK": 256})
    assert isinstance(found, Candidate)
    after = apply_edits(text, found.edits)
    assert "\n" not in after.replace("\r\n", "")
    assert after.endswith("# é🚀\r\n")
    assert ", num_warps=4)" in after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SCALE.replace("@triton.jit", "@triton.autotune([triton.Config({})], key=[])\n@triton.jit"), "tuned already"),
        (SCALE.replace("tl.store(o_ptr", "tl.store(x_ptr"), "changes what it reads"),
        (SCALE.replace("tl.store(", "tl.atomic_add("), "changes what it reads"),
        (SCALE + "\n\ndef other(x):\n    scale[(9,)](x, x, 9, BLOCK=256)\n", "exactly one place"),
        (SCALE.replace("BLOCK=256", "BLOCK=B").replace("    o =", "    B = 256\n    print(B)\n    o ="), ""),
        (SCALE.replace("x.numel(), BLOCK=256", "x.numel(), 256"), ""),
        (SCALE.partition("def run")[0], "exactly one place"),
    ],
)  # fmt: skip
def test_what_a_tuner_cannot_choose_safely_is_refused(text, reason):
    found = form(text, {"BLOCK": 1024}, {"BLOCK": 256})
    assert isinstance(found, Refusal)
    assert reason in found.reason
