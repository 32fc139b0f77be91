"""What masked lanes hold, and what is left where lanes or programs of one launch write to one element."""

import pytest

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compare

pytestmark = pytest.mark.triton


def tensor(*shape, dtype="float32", strides=None):
    dense = [1]
    for extent in reversed(shape[1:]):
        dense.insert(0, dense[0] * extent)
    return Tensor(tuple(shape), tuple(strides or dense), dtype)


def call(*arguments, seed=0):
    return Call("c", "written.py", "host", arguments, seed=seed)


@pytest.fixture
def compare(interpret_lane, written):
    """Compare two texts; returns the outcome of the first input that is refused, or of the last, and the result."""

    def run(original, candidate, *calls):
        request = Compare(written(original), written(candidate), calls or (call(tensor(96)), call(tensor(96), seed=1)))
        result = interpret_lane.do(request)
        return next((o for o in result.outcomes if o.status != "equal"), result.outcomes[-1]), result

    return run


# --- Masked lanes

ZEROS = """
def host(x):
    return torch.zeros(4, device=x.device, dtype=x.dtype)
"""
PAST_THE_END = """
@triton.jit
def ends(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in range(4):
        at = n + k
        tl.store(y + k + {lanes}, {load})

def host(x):
    y = torch.empty(4, device=x.device, dtype=x.dtype)
    ends[(1,)](x, y, x.numel(), B=1)
    return y
"""
BLOCK = {
    "other of a float": "tl.load(x + at + i, mask=at + i < n, other=0.0)",
    "other of an integer": "tl.load(x + at + i, mask=at + i < n, other=0)",
    "other by its place": "tl.load(x + at + i, at + i < n, 0.0)",
    "other of a block": "tl.load(x + at + i, mask=at + i < n, other=tl.zeros((B,), tl.float32))",
}
SCALAR = {
    "other of a float": "tl.load(x + at, mask=at < n, other=0.0)",
    "other of an integer": "tl.load(x + at, mask=at < n, other=0)",
    "other by its place": "tl.load(x + at, at < n, 0.0)",
}
LOADS = [
    *(pytest.param("i", load, id=f"a block of one, {how}") for how, load in BLOCK.items()),
    *(pytest.param("0", load, id=f"a scalar, {how}") for how, load in SCALAR.items()),
]


def past_the_end(lanes, load):
    return PAST_THE_END.replace("{lanes}", lanes).replace("{load}", load)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("lanes", "load"), LOADS)
def test_a_single_masked_lane_holds_the_zero_that_it_was_given(compare, lanes, load, dtype):
    outcome, _ = compare(ZEROS, past_the_end(lanes, load), call(tensor(96, dtype=dtype)))
    assert outcome.status == "equal", outcome.detail


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("lanes", "load"),
    [
        pytest.param("i", "tl.load(x + at + i, mask=at + i < n)", id="a block of one"),
        pytest.param("0", "tl.load(x + at, mask=at < n)", id="a scalar"),
        pytest.param(
            "i",
            "tl.load(x + at + i, mask=at + i < n, other=0) + tl.load(x + at + i, mask=at + i < n)",
            id="after a load that was given one",
        ),
    ],
)
def test_a_single_masked_lane_that_is_given_nothing_is_undefined(compare, lanes, load, dtype):
    outcome, _ = compare(ZEROS, past_the_end(lanes, load), call(tensor(96, dtype=dtype)))
    assert outcome.status == "different", outcome


# --- Lanes of one store

PAIRS = """
@triton.jit
def pairs(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    {body}

def host(x):
    y = torch.empty(x.numel() // 2, device=x.device)
    pairs[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y
"""


def pairs(body):
    return PAIRS.replace("{body}", body)


SECOND = pairs("tl.store(y + i, tl.load(x + 2 * i + 1, mask=2 * i + 1 < n), mask=2 * i + 1 < n)")
COLLIDING = pairs("tl.store(y + i // 2, tl.load(x + i, mask=i < n), mask=i < n)")
LAST_WORD = pairs("tl.store(y + i // 2, tl.load(x + i, mask=i < n), mask=(i < n) & (i % 2 == 1))")
ALIKE = pairs("tl.store(y + i // 2, tl.load(x + i // 2 * 2 + 1, mask=i < n), mask=i < n)")
BACKWARDS = pairs("j = n // 2 - 1 - i\n    tl.store(y + j, tl.load(x + 2 * j + 1, mask=j >= 0), mask=j >= 0)")


def test_two_lanes_with_other_values_for_one_element_are_refused_although_the_last_one_is_right(compare):
    outcome, result = compare(SECOND, COLLIDING)
    assert (outcome.status, outcome.check) == ("different", "write conflicts")
    said = "two lanes of one store of program (0, 0, 0) write different values to element 0 of y"
    assert said in outcome.detail
    assert outcome.detail.startswith("pairs (line ")
    assert dict(result.checks)["write conflicts"] == f"failed: {outcome.detail}"


def test_lanes_that_collide_as_the_originals_do_are_noted_and_not_refused(compare):
    outcome, result = compare(COLLIDING, COLLIDING + "\n")
    assert outcome.status == "equal", outcome.detail
    assert any("write-write" in note for note in result.notes)


@pytest.mark.parametrize("candidate", [LAST_WORD, ALIKE, BACKWARDS], ids=["masked", "equal values", "backwards"])
def test_lanes_that_write_one_value_to_an_element_pass(compare, candidate):
    outcome, result = compare(SECOND, candidate)
    assert outcome.status == "equal", outcome.detail
    assert dict(result.checks)["write conflicts"] == "passed"


@pytest.mark.parametrize("dtype", ["float16", "int64", "int8", "bool"])
def test_lanes_that_collide_are_seen_whatever_they_write(compare, dtype):
    made = "device=x.device, dtype=x.dtype)"
    texts = [text.replace("device=x.device)", made) for text in (SECOND, COLLIDING)]
    outcome, _ = compare(*texts, call(tensor(96, dtype=dtype)), call(tensor(96, dtype=dtype), seed=1))
    assert (outcome.status, outcome.check) == ("different", "write conflicts")


class TestAddressesOfLanes:
    """What a store's lanes are compared with: a launch's own memory, without a launch."""

    @pytest.fixture
    def footprint(self):
        torch = pytest.importorskip("torch")
        pytest.importorskip("triton")
        from tritonforge.worker.interpreter.bounds import buffers_of
        from tritonforge.worker.interpreter.conflicts import Footprint

        memory = torch.zeros(64)
        found = Footprint(buffers_of({"y": memory}), "kernel")
        found.enter((0, 0, 0))
        found.memory = memory
        return found

    @staticmethod
    def write(footprint, cells, values):
        import numpy as np

        start = np.uint64(footprint.memory.data_ptr())
        addresses = start + np.asarray(cells, dtype=np.uint64) * np.uint64(4)
        footprint.check("writes", addresses, np.ones(addresses.shape, dtype=bool), 4, np.asarray(values, np.float32))
        return [one.text for one in footprint.conflicts]

    def test_what_goes_up_is_not_sorted(self, footprint, monkeypatch):
        from tritonforge.worker.interpreter import conflicts

        def sort(*_, **__):
            raise AssertionError("sorted for nothing")

        monkeypatch.setattr(conflicts.np, "argsort", sort)
        assert not self.write(footprint, range(32), range(32))
        assert not self.write(footprint, range(1, 64, 2), range(32))
        with pytest.raises(AssertionError, match="for nothing"):
            self.write(footprint, [3, 3], [1.0, 2.0])

    def test_the_first_element_that_lanes_do_not_agree_on_is_named(self, footprint):
        assert not self.write(footprint, [9, 4, 9, 2], [1.0, 2.0, 1.0, 3.0])
        (said,) = self.write(footprint, [[9, 4], [6, 4]], [[1.0, 2.0], [1.0, 3.0]])
        assert said.endswith("write different values to element 4 of y")


# --- Inputs on which what the original writes overlaps

TRANSPOSE = """
@triton.jit
def turned(x, o, M, N, sx, so, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, C)
    inside = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * sx + c[None, :], mask=inside)
    tl.store(o + c[None, :] * so + r[:, None], v, mask=inside)

def host(x, out):
    turned[(triton.cdiv(x.shape[0], {rows}),)](x, out, *x.shape, x.stride(0), out.stride(0), R={rows}, C=32)
"""
OVERLAPPING = (tensor(20, 28), tensor(30, 8))
"""Rows of eight elements where the kernel writes twenty."""


@pytest.mark.parametrize("runs", ["once", "again", "both"])
@pytest.mark.parametrize("rows", [32, 8], ids=["lanes", "programs"])
def test_an_original_whose_writes_overlap_says_so(interpret_lane, written, rows, runs):
    program = written(TRANSPOSE.replace("{rows}", str(rows)))
    calls = (call(*OVERLAPPING), call(tensor(20, 28), tensor(28, 20)))
    request = Compare(program, program, calls, stop_at_first=False, runs=runs)
    outcomes = interpret_lane.do(request).outcomes
    assert [one.overlapping for one in outcomes] == [True, False]
    assert {one.status for one in outcomes} == {"equal"}
