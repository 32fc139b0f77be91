"""What watching a call in the interpreter tells of its kernels."""

from __future__ import annotations

import pytest

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Watch

pytestmark = pytest.mark.triton


def call(function: str, elements: int) -> Call:
    return Call("c", "written.py", function, (Tensor((elements,), (1,), "float32"),))


OTHER = """
@triton.jit
def unmasked(x, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i))

@triton.jit
def racing(x, y, B: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0))

def run_unmasked(x):
    y = torch.empty_like(x)
    unmasked[(triton.cdiv(x.numel(), 64),)](x, y, B=64)
    return y

def run_racing(x):
    y = torch.empty(1, device=x.device)
    racing[(x.numel() // 64,)](x, y, B=64)
    return y
"""


def test_an_access_outside_its_buffers_is_told_with_line_and_program(interpret_lane, written):
    found = interpret_lane.do(Watch(written(OTHER), call("run_unmasked", 6400 + 10)))
    (fault,) = found.faults
    assert (fault.kind, fault.kernel) == ("out-of-bounds", "unmasked")
    assert "program (100, 0, 0)" in fault.text
    assert "reads element 6410 of x" in fault.text
    assert fault.line is not None
    assert found.stopped


def test_programs_that_store_different_values_to_one_place_are_told(interpret_lane, written):
    found = interpret_lane.do(Watch(written(OTHER), call("run_racing", 256)))
    (fault,) = found.faults
    assert (fault.kind, fault.kernel) == ("write-write", "racing")
    assert fault.line is not None
    assert found.stopped == ""


def test_a_right_call_has_no_faults(interpret_lane, written):
    found = interpret_lane.do(Watch(written(""), call("run", 5000)))
    assert (found.faults, found.stopped) == ((), "")
    assert interpret_lane.do(Watch(written(OTHER), call("run_unmasked", 6400))).faults == ()


def test_a_call_that_takes_too_long_is_stopped_without_faults(interpret_lane, written):
    found = interpret_lane.do(Watch(written(OTHER), call("run_unmasked", 64 << 12), seconds=0.05))
    assert found.faults == ()
    assert "0.05 s" in found.stopped
