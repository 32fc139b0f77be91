"""Grids of inputs that are larger than the recorded ones, compared without running them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import CompiledLaunch, Program
from tritonforge.verify.grouping import Groups
from tritonforge.verify.growing import Larger, changes_hosts, larger, may_stay_behind, stays_behind
from tritonforge.verify.resizing import places

TEXT = """import triton
import triton.language as tl


@triton.jit
def kernel(x, n, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * B, 1.0)


def host(x):
    kernel[(triton.cdiv(len(x), 64),)](x, len(x), B=64)
"""


def of(programs: int, block: int = 64) -> CompiledLaunch:
    site = CallSite("k.py", 11, "host")
    numbers = (("n", Scalar(4000)),), (("B", Scalar(block)),)
    launch = RecordedLaunch("k.py", "kernel", 6, *numbers, (), (programs, 1, 1), site)
    return CompiledLaunch(launch, "sm_90", "3.7")


def call(n: int = 1000) -> Call:
    return Call("", "k.py", "host", (Tensor((n,), (1,), "float32"),))


def test_a_grid_with_a_largest_size_is_refused():
    grown = Larger(call(4000), (of(63),))
    said = stays_behind(grown, (of(16),))
    assert "launches 16 programs of kernel for host(fp32[4000]), seed 0, where the original launches 63" in said


@pytest.mark.parametrize("other", [of(63), of(100), of(16, block=256)])
def test_as_many_programs_or_other_tiles_pass(other):
    assert stays_behind(Larger(call(4000), (of(63),)), (other,)) == ""


def test_the_sizes_that_grids_count_grow():
    recorded = replace(call(), launches=(of(16).launch,))
    groups = Groups(tuple((place,) for place in places(recorded)))
    grown = larger(recorded, groups, frozenset())
    assert grown is not None
    assert [t.shape for t in grown.arguments if isinstance(t, Tensor)] == [(4000,)]
    assert larger(recorded, Groups(()), frozenset()) is None
    with_tail = larger(recorded, groups, frozenset(), tail=7)
    assert with_tail is not None
    assert [t.shape for t in with_tail.arguments if isinstance(t, Tensor)] == [(4007,)]


def test_what_only_changes_kernels_changes_no_host(tmp_path):
    (tmp_path / "k.py").write_text(TEXT)
    original = Program(str(tmp_path), "k.py")
    kernel_only = replace(original, overlays=(("k.py", TEXT.replace("1.0", "2.0 - 1.0")),))
    assert not changes_hosts(original, kernel_only)
    host = replace(original, overlays=(("k.py", TEXT.replace("triton.cdiv(len(x), 64)", "16")),))
    assert changes_hosts(original, host)
    assert not may_stay_behind(host)
    assert may_stay_behind(replace(original, overlays=(("k.py", TEXT + "# tl.num_programs(0)\n"),)))
