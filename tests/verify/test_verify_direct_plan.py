"""What direct launches are planned from: grids, buffers and sizes, read off launches that nobody has to run."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import CallSite, Distribution, ExactValues, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import BufferExtent, CallExtents
from tritonforge.verify.direct_buffers import as_launched, fitted
from tritonforge.verify.direct_grid import axes_of
from tritonforge.verify.direct_plan import Plan, plan_of
from tritonforge.verify.direct_wishes import base, steps, unchecked

PARTIAL_SUMS = """
@triton.jit
def k(x, sums, n_rows, n_cols, stride, rows_per_program, BLOCK: tl.constexpr):
    first = tl.program_id(0) * rows_per_program
    c = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for r in range(first, tl.minimum(first + rows_per_program, n_rows)):
        total += tl.load(x + r * stride + c, mask=c < n_cols, other=0.0)
    tl.store(sums + tl.program_id(0) * 128 + c, total, mask=c < n_cols)


def host(x, programs):
    n_rows, n_cols = x.shape
    sums = torch.empty((programs, 128), device=x.device)
    rows = triton.cdiv(n_rows, programs)
    k[(programs,)](x, sums, n_rows, n_cols, x.stride(0), rows, BLOCK=triton.next_power_of_2(n_cols))
    return sums.sum(0)
"""


def dense(*shape: int, dtype: str = "float32", values=None) -> Tensor:
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return Tensor(shape, strides, dtype, values=values or Distribution())


def launch(grid: int, *, constexprs=(), **arguments) -> RecordedLaunch:
    given = tuple((name, value if isinstance(value, Tensor) else Scalar(value)) for name, value in arguments.items())
    named = tuple((name, Scalar(value)) for name, value in dict(constexprs).items())
    return RecordedLaunch("k.py", "k", 3, given, named, (), (grid, 1, 1), CallSite("k.py", 0, "host"))


def partial_sums(n_rows: int, each: int, n_cols: int = 100) -> RecordedLaunch:
    programs = -(-n_rows // each)
    return launch(
        programs,
        x=dense(n_rows, n_cols),
        sums=dense(programs, 128, values=Distribution("uninitialised")),
        n_rows=n_rows,
        n_cols=n_cols,
        stride=n_cols,
        rows_per_program=each,
        constexprs={"BLOCK": 128},
    )


def kernel_of(text: str) -> Kernel:
    return analyze(text, "k.py").kernels[0]


class TestRowsThatAProgramWalks:
    launches = (partial_sums(300, 7), partial_sums(301, 5), partial_sums(180, 7))

    @pytest.fixture
    def plan(self) -> Plan:
        return plan_of(kernel_of(PARTIAL_SUMS), self.launches[0], self.launches, 128)

    def test_several_launches_explain_a_grid_by_an_ordinary_argument(self):
        sizes = ["n_rows", "n_cols", "rows_per_program"]
        (axis, *_) = axes_of(kernel_of(PARTIAL_SUMS), self.launches[0], self.launches, sizes)
        assert [axis.extent({"n_rows": n, "rows_per_program": 7}) for n in (50, 49, 300)] == [8, 7, 43]
        assert axis.extent({"n_rows": 50, "rows_per_program": 10}) == 5
        assert axis.reads == {"n_rows", "rows_per_program"}
        assert axis.grows == "n_rows"

    def test_one_launch_does_not(self):
        """Its grid is as long as the partial sums are, and that may be all there is to it."""
        (axis, *_) = axes_of(kernel_of(PARTIAL_SUMS), self.launches[0], self.launches[:1], ["n_rows", "n_cols"])
        assert axis.rows == 43
        assert axis.extent({"n_rows": 50, "rows_per_program": 7}) == axis.few

    def test_no_size_that_is_walked_is_over_a_tile(self, plan):
        assert plan.walked == {"n_rows"}
        assert plan.over()["n_rows"] == plan.ragged()["n_rows"]
        assert plan.recorded["n_cols"] == plan.over()["n_cols"] > plan.ragged()["n_cols"]

    @staticmethod
    def touched(sizes, grid: int, *, checked: bool) -> CallExtents:
        """Return what a kernel touches that keeps partial sums 128 apart; it may write them in whole tiles."""
        rows, columns, stride = (sizes[name] for name in ("n_rows", "n_cols", "stride"))
        wide = columns if checked else -(-columns // 32) * 32
        x = BufferExtent("x", (rows - 1) * stride + columns, read=True, written=False)
        return CallExtents((x, BufferExtent("sums", (grid - 1) * 128 + wide, read=False, written=True)))

    def found(self, plan: Plan, *, checked: bool) -> str:
        launches, varied = steps(plan)
        assert {name for name, _ in varied} == {"n_rows", "n_cols"}
        touched = [
            self.touched({**plan.recorded, **wish.values}, wish.grid[0], checked=checked) for wish, _, _ in launches
        ]
        return unchecked(plan, launches, varied, touched)

    def test_partial_sums_that_follow_the_grid_leave_no_size_unchecked(self, plan):
        assert self.found(plan, checked=True) == ""

    def test_whole_tiles_of_partial_sums_do(self, plan):
        """The grid, which does not follow the columns, is no reason for more of them."""
        assert self.found(plan, checked=False) == "n_cols"


HALVES = """
@triton.jit
def k(q, cos, n, half, stride, D: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = q + tl.program_id(0) * stride + c
    turn = tl.load(cos + tl.program_id(0) * half + c, mask=c < half)
    one, other = tl.load(at, mask=c < half), tl.load(at + half, mask=c < half)
    tl.store(at, one * turn - other, mask=c < half)
    tl.store(at + half, other * turn + one, mask=c < half)


def host(q, cos):
    k[(q.shape[0],)](q, cos, q.shape[0], cos.shape[1], q.stride(0), D=DIM, BLOCK=64)
"""


class TestHeads:
    def plan(self, width: int, **numbers: int) -> Plan:
        n, half, d = numbers.get("n", 300), numbers.get("half", 40), numbers.get("d", 0)
        one = launch(
            n, q=dense(n, width), cos=dense(n, half), n=n, half=half, stride=width, constexprs={"D": d, "BLOCK": 64}
        )
        return plan_of(kernel_of(HALVES), one, [one], 64)

    @pytest.mark.parametrize("parts", [2, 3, 4])
    def test_a_head_of_several_parts_keeps_room_for_all_of_them(self, parts):
        plan = self.plan(parts * 40)
        sizes = plan.ragged()
        assert plan.extents("q", sizes)[1][0] == (parts * sizes["half"],)
        wish, _, top = base(plan, even=False)
        assert wish.values["stride"] >= parts * sizes["half"]
        assert plan.spans("q", sizes, top) == {(sizes["n"] - 1) * wish.values["stride"] + parts * sizes["half"]}
        assert plan.room("q", sizes, top) > sizes["n"] * wish.values["stride"]

    def test_what_is_longer_than_a_few_parts_is_no_head(self):
        plan = self.plan(5 * 40)
        assert plan.extents("q", plan.ragged())[1][0] == (24,)

    def test_an_extent_that_the_kernel_is_told_is_that_and_no_multiple_of_a_size(self):
        """A tile as wide as two sizes by chance stays as wide: rows that are too narrow for it would overlap."""
        plan = self.plan(64, n=32, half=20, d=64)
        assert plan.extents("q", plan.ragged())[1][0] == (64,)
        wish, _, _ = base(plan, even=False)
        assert wish.values["stride"] >= 64


INDICES = """
@triton.jit
def k(x, at, o, n, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(at + c, mask=c < n, other=0)
    tl.store(o + c, tl.load(x + i, mask=c < n), mask=c < n)


def host(x, at, o):
    k[(triton.cdiv(at.numel(), 64),)](x, at, o, at.numel(), BLOCK=64)
"""


class TestIndices:
    def values(self, dtype: str, policy) -> list[np.ndarray]:
        unset = Distribution("uninitialised")
        tensors = {"x": dense(500), "at": dense(500, dtype=dtype, values=policy), "o": dense(500, values=unset)}
        one = launch(8, **tensors, n=500, constexprs={"BLOCK": 64})
        plan = plan_of(kernel_of(INDICES), one, [one], 64)
        wish, sizes, _ = base(plan, even=False)
        extents = CallExtents(tuple(BufferExtent(name, 200, read=True, written=False) for name in tensors))
        calls = (
            fitted(plan, wish, extents, {}, sizes, function="k", seed=3),
            as_launched(plan, dict.fromkeys(tensors, 500), {}, function="k", seed=3),
        )
        chosen = [dict(call.keywords)["at"].values for call in calls]
        assert all(isinstance(one, ExactValues) for one in chosen)
        return [np.frombuffer(zlib.decompress(one.data), dtype) for one in chosen]

    @pytest.mark.parametrize("dtype", ["int32", "int64", "int16"])
    def test_whole_numbers_that_are_not_known_are_no_negative_indices(self, dtype):
        for found in self.values(dtype, Distribution()):
            assert found.min() == 0
            assert found.max() > 0

    def test_those_that_are_known_stay_as_they_are(self):
        recorded = np.resize(np.array([3, -100, 7], np.int32), 500)
        for found in self.values("int32", ExactValues(zlib.compress(recorded.tobytes()))):
            assert (found == recorded[: found.size]).all()
            assert found.min() == -100


def test_a_launch_as_it_was_recorded_keeps_its_grid_and_numbers():
    one = partial_sums(300, 7)
    plan = plan_of(kernel_of(PARTIAL_SUMS), one, [one], 128)
    call = as_launched(plan, {"x": 30_000, "sums": 5504}, {"sums": True}, function="k", seed=2)
    given = dict(call.keywords)
    assert call.kernel_launch is not None
    assert call.kernel_launch.grid == ("43", "1", "1")
    assert (given["n_rows"], given["rows_per_program"], given["stride"]) == (Scalar(300), Scalar(7), Scalar(100))
    assert (given["x"].shape, given["sums"].shape) == ((30_000,), (5504,))
    assert (given["x"].values, given["sums"].values.kind) == (Distribution(), "uninitialised")


ROWS_OF_HEADS = """
@triton.jit
def k(x, o, T, stride_h, stride_t, D: tl.constexpr):
    at = tl.program_id(0) * stride_t + tl.program_id(1) * stride_h + tl.arange(0, D)
    tl.store(o + at, tl.load(x + at))


def host(x):
    B, H, T, D = x.shape
    o = torch.empty_like(x)
    k[(T, B * H)](x, o, T, x.stride(1), x.stride(2), D=D)
    return o
"""


def rows_of_heads(samples: int, heads: int, rows: int, width: int) -> Plan:
    x = dense(samples, heads, rows, width)
    arguments = {"x": x, "o": x, "T": rows, "stride_h": rows * width, "stride_t": width}
    given = tuple((name, one if isinstance(one, Tensor) else Scalar(one)) for name, one in arguments.items())
    named, grid = (("D", Scalar(width)),), (rows, samples * heads, 1)
    one = RecordedLaunch("k.py", "k", 3, given, named, (), grid, CallSite("k.py", 0, "host"))
    return plan_of(kernel_of(ROWS_OF_HEADS), one, (one,), 64)


@pytest.mark.parametrize("heads", [16, 12])
def test_rows_do_not_overlap_where_a_grid_is_as_long_as_a_row_by_chance(heads):
    """Eight times sixteen heads are as many programs as a row of a head has elements."""
    plan = rows_of_heads(8, heads, 2048, 128)
    wish, sizes, _ = base(plan, even=False)
    assert sizes["T"] < 2048
    assert wish.values["stride_t"] >= 128
    assert wish.values["stride_h"] >= sizes["T"] * 128
