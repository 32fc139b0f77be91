"""What the flow through a kernel's body finds: roles, accesses, loops, axes, operations."""

from __future__ import annotations

import textwrap

import pytest

from tritonforge.analysis import analyze

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n@triton.jit\n"


def kernel_of(body, rest=""):
    found = analyze(HEAD + textwrap.dedent(body).strip("\n") + "\n" + textwrap.dedent(rest), "f.py")
    assert found.errors == ()
    return next(k for k in found.kernels if k.name == "k")


def roles(body, rest=""):
    return {p.name: p.role for p in kernel_of(body, rest).parameters}


def test_a_size_that_masks_compare_with_is_meaning_and_the_block_a_tile():
    assert roles("""
    def k(x, row_stride, N_COLS: tl.constexpr, BLOCK: tl.constexpr, ACT: tl.constexpr, CAUSAL: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        p = x + tl.program_id(0) * row_stride + cols
        v = tl.load(p, mask=cols < N_COLS)
        if CAUSAL:
            v = v * 2
        if ACT == "relu":
            v = tl.maximum(v, 0)
        tl.store(p, v, mask=cols < N_COLS)
    """) == {
        "x": "pointer",
        "row_stride": "stride",
        "N_COLS": "meaning",
        "BLOCK": "tile",
        "ACT": "meaning",
        "CAUSAL": "meaning",
    }


def test_a_scalar_factor_of_values_is_no_stride():
    found = roles("""
    def k(x, scale, s, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK) * s
        tl.store(x + i, tl.load(x + i) * scale)
    """)
    assert (found["scale"], found["s"]) == ("scalar", "stride")


def test_a_head_dimension_taken_from_a_shape_is_meaning_though_it_sizes_a_block():
    body = """
    def k(q, HEAD: tl.constexpr, BLOCK: tl.constexpr):
        p = q + tl.arange(0, BLOCK)[:, None] * 64 + tl.arange(0, HEAD)[None, :]
        tl.store(p, tl.load(p))
    """
    launch = """
    def f(q):
        B, H, D = q.shape
        k[(1,)](q, HEAD=D, BLOCK=triton.next_power_of_2(q.shape[0]))
    """
    assert roles(body, launch) == {"q": "pointer", "HEAD": "meaning", "BLOCK": "tile"}


def test_options_quoted_annotations_and_unused_parameters():
    assert roles("""
    def k(x, n, unused, B: "tl.constexpr", num_warps: tl.constexpr):
        tl.store(x + tl.arange(0, B), n + 1)
    """) == {"x": "pointer", "n": "scalar", "unused": "unknown", "B": "tile", "num_warps": "option"}


@pytest.mark.parametrize(
    "tile_use", ["tl.zeros((T, 4), tl.float32)", "tl.full([T], 0, tl.float32)", "tl.arange(0, T * 2)"]
)
def test_a_constexpr_that_sizes_a_block_is_a_tile(tile_use):
    assert roles(f"def k(x, T: tl.constexpr):\n    tl.store(x, tl.sum({tile_use}))")["T"] == "tile"


def test_pointers_are_followed_through_names_casts_loops_and_block_pointers():
    kernel = kernel_of("""
    def k(a_ptr, b_ptr, c, d, off, n, B: tl.constexpr):
        i = tl.arange(0, B)
        a_row = a_ptr + off * n + i
        bp = tl.make_block_ptr(b_ptr + off, (n, n), (n, 1), (0, 0), (B, B), (1, 0))
        for j in range(n):
            v = tl.load(a_row)
            w = tl.load(bp, boundary_check=(0, 1), padding_option="zero")
            a_row += B
            bp = tl.advance(bp, (B, 0))
        p = tl.load(c + off).to(tl.pointer_type(tl.float32))
        tl.store(p + i, v + tl.sum(w, 0))
        tl.atomic_add(d + i, v)
    """)
    assert [(x.kind, x.pointer, x.block) for x in kernel.accesses] == [
        ("load", "a_ptr", True),
        ("load", "b_ptr", True),
        ("load", "c", False),
        ("store", "c", True),
    ]
    assert (kernel.accesses[1].mask, kernel.accesses[1].other) == (
        "boundary_check=(0, 1)",
        'padding_option="zero"',
    )
    assert {p.name: p.role for p in kernel.parameters}["d"] == "pointer"
    assert [(a.name, a.arguments) for a in kernel.atomics] == [("atomic_add", ("d + i", "v"))]


def test_descriptor_accesses_are_blocks_of_their_base():
    kernel = kernel_of("""
    def k(a_ptr, out_desc, M, N, B: tl.constexpr):
        d = tl.make_tensor_descriptor(a_ptr, shape=[M, N], strides=[N, 1], block_shape=[B, B])
        out_desc.store([0, 0], d.load([0, 0]))
    """)
    assert [(x.kind, x.pointer, x.block, x.feeds) for x in kernel.accesses] == [
        ("store", "out_desc", True, ()),
        ("load", "a_ptr", True, ("store",)),
    ]
    assert kernel.tiles == ("B",)


def test_feeds_stop_at_where_and_pass_through_arithmetic_and_accumulators():
    kernel = kernel_of("""
    def k(x, o, n, B: tl.constexpr):
        i = tl.arange(0, B)
        a = tl.load(x + i, mask=i < n)
        b = tl.load(x + i, mask=i < n)
        c = tl.load(x + i, mask=i < n)
        d = tl.load(x + i, mask=i < n)
        acc = tl.zeros((B,), tl.float32)
        for j in range(n):
            acc += a * 2
        s = tl.sum(acc) + tl.sum(tl.where(i < n, b, 0)) + c.max() + tl.max(tl.cumsum(d, 0))
        tl.store(o, s)
    """)
    assert [x.feeds for x in kernel.accesses if x.kind == "load"] == [("reduction",), (), ("reduction",), ("scan",)]


def test_an_element_at_a_time_loop_is_scalar_and_a_block_loop_is_not():
    kernel = kernel_of("""
    def k(x, idx, o, n, B: tl.constexpr):
        row = tl.program_id(0)
        acc = 0.0
        for j in range(0, n):
            acc += tl.load(x + row * n + j)
        p = x
        while acc < n:
            acc += tl.load(p)
            p += 1
        for j in range(0, n, B):
            acc += tl.sum(tl.load(x + j + tl.arange(0, B)), 0)
        for j in range(0, n):
            e = tl.load(idx + j)
            acc += tl.sum(tl.load(x + e * B + tl.arange(0, B)), 0)
        for j in tl.static_range(4):
            acc += tl.load(x + row)
        tl.store(o + row, acc)
    """)
    assert [loop.kind for loop in kernel.loops] == ["range", "while", "range", "range", "static_range"]
    assert [loop.scalar for loop in kernel.loops] == [True, True, False, False, False]
    assert [loop.step_tile for loop in kernel.loops] == [None, None, "B", None, None]


def test_loops_know_their_bounds_nesting_and_tiles():
    kernel = kernel_of("""
    def k(x, K, BK: tl.constexpr, S: tl.constexpr):
        pid = tl.program_id(0)
        for t in tl.range(pid, K, tl.num_programs(0), num_stages=3):
            for i in range(tl.cdiv(K, BK)):
                tl.store(x + t + i * BK + tl.arange(0, BK), 1)
        i = 0
        while i < K:
            i += BK
    """)
    outer, inner, last = kernel.loops
    assert (outer.kind, outer.start, outer.stop, outer.step) == ("tl.range", "pid", "K", "tl.num_programs(0)")
    assert (inner.depth, inner.start, inner.stop, inner.step, inner.step_tile) == (1, "0", "tl.cdiv(K, BK)", "1", "BK")
    assert (last.kind, last.variable, last.stop, last.step_tile) == ("while", "i", None, "BK")
    assert kernel.accesses[0].loops == (0, 1)


def test_a_flattened_grid_lists_every_tile_that_its_axis_reaches_but_no_group_size():
    kernel = kernel_of("""
    def k(c, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
        pid = tl.program_id(axis=0)
        batch = tl.program_id(2)
        num_n = tl.cdiv(N, BN)
        in_group = GROUP * num_n
        first = (pid // in_group) * GROUP
        size = min(tl.cdiv(M, BM) - first, GROUP)
        pid_m = first + (pid % in_group) % size
        pid_n = (pid % in_group) // size
        rm = (pid_m * BM + tl.arange(0, BM)) % M
        rn = (pid_n * BN + tl.arange(0, BN)) % N
        tl.store(c + batch * M * N + rm[:, None] * N + rn[None, :], 0.0)
    """)
    assert kernel.program_axes == ((0, ("BM", "BN")),)
    assert {p.name: p.role for p in kernel.parameters}["GROUP"] == "meaning"


def test_a_place_that_is_rounded_down_to_a_tile_is_no_number_of_tiles():
    kernel = kernel_of("""
    def k(x, n, BM: tl.constexpr, BN: tl.constexpr):
        pid = tl.program_id(0)
        rows = pid * BM + tl.arange(0, BM)
        end = tl.minimum(pid * BM + 1, n) // BN * BN
        first = (pid * BM // BN) * BN
        for start in range(first, end, BN):
            tl.store(x + rows[:, None] * n + start + tl.arange(0, BN)[None, :], 0.0)
    """)
    assert kernel.program_axes == ((0, ("BM",)),)


def test_rows_per_program_are_a_tile_of_their_axis():
    kernel = kernel_of("""
    def k(x, n, ROWS_PER_PROGRAM: tl.constexpr, B: tl.constexpr):
        start = tl.program_id(0) * ROWS_PER_PROGRAM
        for row in range(start, min(start + ROWS_PER_PROGRAM, n)):
            tl.store(x + row * 64 + tl.arange(0, B), 0)
    """)
    assert kernel.program_axes == ((0, ("ROWS_PER_PROGRAM",)),)


def test_operations_are_found_as_functions_methods_and_through_aliases():
    source = """
import triton
import triton.language as lang
from triton.language import sum as total
from triton.language.extra.libdevice import tanh
from triton.language.math import rsqrt
from .compat import exp

@triton.jit
def add(a, b):
    return a + b

@triton.jit
def k(x, n, B: lang.constexpr):
    i = lang.arange(0, B)
    v = lang.load(x + i)
    a = total(v) + v.sum(axis=0) + lang.max(v, axis=0) + max(1, n) + lang.reduce(v, 0, add) + lang.xor_sum(v, 0)
    b = lang.cumsum(v, 0) + lang.associative_scan(v, 0, add)
    c = exp(v) + lang.exp2(v) + tanh(v) + rsqrt(v) + v / n + v % n + n // 2 + lang.math.log(v)
    d = lang.dot(v, v, acc=b, input_precision="ieee")
    lang.store(x + i, a + b + c + d)
"""
    kernel = next(k for k in analyze(source, "f.py").kernels if k.name == "k")
    assert [r.name for r in kernel.reductions] == ["sum", "sum", "max", "reduce", "xor_sum"]
    assert kernel.reductions[1].arguments == ("v",)
    assert [s.name for s in kernel.scans] == ["cumsum", "associative_scan"]
    assert [m.name for m in kernel.math] == ["exp", "exp2", "tanh", "rsqrt", "/", "%", "log"]
    assert kernel.dots[0].keywords == (("acc", "b"), ("input_precision", '"ieee"'))
    assert [h.name for h in kernel.helpers] == ["add", "exp"] or "exp" in [h.name for h in kernel.helpers]


def test_loops_and_accesses_of_helpers_in_the_file_belong_to_the_kernel():
    source = HEAD + textwrap.dedent("""
    def inner(acc, p, n, BN: tl.constexpr):
        for j in range(0, n, BN):
            acc += tl.sum(tl.load(p + j + tl.arange(0, BN)), 0)
        return acc, n

    @triton.jit
    def k(x, o, n, BLOCK: tl.constexpr):
        for r in range(n):
            acc, m = inner(0.0, x + r, n, BLOCK)
            tl.store(o + r, acc)
    """)
    (kernel,) = analyze(source, "f.py").kernels
    assert [(loop.depth, loop.step_tile) for loop in kernel.loops] == [(0, None), (1, "BLOCK")]
    load = next(a for a in kernel.accesses if a.kind == "load")
    assert (load.pointer, load.block, load.loops, load.feeds) == ("x", True, (0, 1), ("reduction",))
    assert kernel.tiles == ("BLOCK",)


def test_module_constants_that_a_kernel_reads_are_named():
    source = "LOG2E = 1.44\nOTHER = 2\n" + HEAD + "def k(x):\n    tl.store(x, tl.load(x) * LOG2E)\n"
    (kernel,) = analyze(source, "f.py").kernels
    assert kernel.constants == ("LOG2E",)


def test_program_id_through_another_module_s_alias_gives_axes():
    source = """
import triton
import triton.language as tl
from gems import extension as tle

@triton.jit
def k(x, BLOCK: tl.constexpr):
    tl.store(x + tle.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1)
"""
    assert analyze(source, "f.py").kernels[0].program_axes == ((0, ("BLOCK",)),)
