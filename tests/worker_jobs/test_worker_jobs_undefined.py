"""Inputs whose integers were made to fit: what the original does not define there says nothing of a candidate."""

import zlib

import numpy as np
import pytest

from tritonforge.domain.launch import Call, Distribution, ExactValues, Tensor
from tritonforge.domain.messages import Compare, InputOutcome

pytestmark = pytest.mark.triton

SEGMENTS = """
@triton.jit
def scaled(x, begins, y, B: tl.constexpr):
    first = tl.load(begins + tl.program_id(0))
    last = tl.load(begins + tl.program_id(0) + 1)
    at = first + tl.arange(0, B)
    tl.store(y + at, {value}, mask=at < {last})

def host(x, begins):
    y = torch.empty_like(x)
    scaled[(begins.numel() - 1,)](x, begins, y, B={block})
    return y
"""
"""The first elements of each segment, as many as a block holds."""

SCATTER = """
@triton.jit
def placed(x, slots, y, first, B: tl.constexpr):
    at = (tl.program_id(0) {order}) * B + tl.arange(0, B)
    v = tl.load(x + at) {change}
    tl.store(y + tl.load(slots + at), v)

def host(x, slots):
    y = torch.empty_like(x)
    placed[(x.numel() // 4,)](x, slots, y, x.numel() // 4 - 1, B=4)
    return y
"""


def integers(*values: int) -> Tensor:
    data = np.array(values, dtype=np.int32)
    return Tensor((len(values),), (1,), "int32", values=ExactValues(zlib.compress(data.tobytes())))


def call(n: int, *values: int) -> Call:
    x = Tensor((n,), (1,), "float32", values=Distribution("normal"))
    return Call("c", "written.py", "host", (x, integers(*values)), seed=3)


@pytest.fixture
def outcome(interpret_lane, written):
    def run(original: str, candidate: str, on: Call, *, made: bool, complete: bool = True) -> InputOutcome:
        request = Compare(
            written(original), written(candidate), (on,), made=(0,) if made else (), complete=complete, again=False
        )
        (found,) = interpret_lane.do(request).outcomes
        return found

    return run


def segments(block: int, value: str = "tl.load(x + at, mask=at < last) * 2", last: str = "last") -> str:
    return SEGMENTS.replace("{value}", value).replace("{last}", last).replace("{block}", str(block))


SHORT, LONG = (12, 0, 5, 12), (40, 0, 5, 40)
"""Segments that a block of eight holds, and one that it does not."""


def test_a_larger_block_may_write_what_the_original_leaves_where_its_integers_do_not_fit(outcome):
    found = outcome(segments(8), segments(64), call(*LONG), made=True)
    assert (found.status, found.unwritten, found.outputs) == ("equal", 27, 3)


@pytest.mark.parametrize(("made", "complete"), [(False, True), (True, False)], ids=["recorded", "never complete"])
def test_it_may_not_where_they_were_recorded_or_where_the_original_never_writes_all(outcome, made, complete):
    found = outcome(segments(8), segments(64), call(*LONG), made=made, complete=complete)
    assert found.status == "different"
    assert "that the original leaves unwritten" in found.detail


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (segments(64, value="tl.load(x + at, mask=at < last) * 3"), "differs"),
        (segments(64, last="last + 1"), "differs|beyond|whose memory"),
        (segments(4), "never written"),
    ],
    ids=["other values", "an element too many", "elements left out"],
)
def test_what_the_original_writes_is_judged_there_all_the_same(outcome, candidate, said):
    found = outcome(segments(8), candidate, call(*LONG), made=True)
    assert found.status in {"different", "candidate-failed"}
    assert any(word in found.detail for word in said.split("|"))


def scatter(order: str = "", change: str = "") -> str:
    return SCATTER.replace("{order}", order).replace("{change}", change)


BACKWARDS = scatter("* -1 + first")
TWICE = (12, 0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 8, 9)
"""Slots of which the third program writes two that the first wrote."""


def test_an_original_is_known_to_leave_elements_unwritten_and_to_overlap(outcome):
    found = outcome(scatter(), scatter(), call(*TWICE), made=True)
    assert (found.status, found.unwritten, found.overlapping) == ("equal", 2, True)


def test_another_order_of_programs_is_no_fault_where_the_original_itself_depends_on_it(outcome):
    found = outcome(scatter(), BACKWARDS, call(*TWICE), made=True)
    assert found.status == "equal"
    assert "the order of the original's programs decides 2 of 12 elements" in found.note


def test_it_is_one_on_recorded_integers(outcome):
    found = outcome(scatter(), BACKWARDS, call(*TWICE), made=False)
    assert found.status == "different"
    assert "differs at 2 of 12 elements" in found.detail


def test_what_no_order_decides_is_judged_there_all_the_same(outcome):
    wrong = scatter("* -1 + first", "+ tl.where(at == 4, 1.0, 0.0)")
    found = outcome(scatter(), wrong, call(*TWICE), made=True)
    assert found.status == "different"
    assert "the first at [4]" in found.detail


def test_an_input_of_which_the_order_decides_everything_is_left_out(outcome):
    everywhere = (8, 0, 1, 2, 3, 0, 1, 2, 3)
    found = outcome(scatter(), BACKWARDS, call(*everywhere), made=True)
    assert found.status == "original-failed"
    assert "not defined" in found.detail
