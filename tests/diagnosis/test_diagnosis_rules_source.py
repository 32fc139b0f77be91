"""What the rules say of source text alone: hints at the right line, and silence where the text proves nothing."""

from __future__ import annotations

import pytest
from diagnosis_cases import ROW_SUM, SCALAR_SUM, copy, kernel_of, line_of, matmul

from tritonforge.diagnosis import diagnose
from tritonforge.domain.finding import Finding


def findings_of(source: str, code: str) -> list[Finding]:
    return [f for f in diagnose(kernel_of(source)) if f.code == code]


def test_tile_too_small_hints_at_the_dot_of_a_written_out_32_by_32_tile():
    source = matmul(32, 32)
    (finding,) = findings_of(source, "TF203")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(source, "tl.dot(")
    assert finding.evidence["intensity"].value == 16
    assert finding.evidence["intensity"].provenance == "source"
    assert "32×32 tile: 16 FLOP per byte" in finding.message
    assert finding.estimated_gain is None


@pytest.mark.parametrize(("bm", "bn"), [(128, 128), (64, 64)])
def test_tile_too_small_says_nothing_of_larger_tiles_without_a_gpu_to_compare_with(bm: int, bn: int):
    assert findings_of(matmul(bm, bn), "TF203") == []


def test_tile_too_small_is_silent_where_an_autotuner_chooses():
    source = matmul(32, 32).replace(
        "@triton.jit",
        '@triton.autotune(configs=[triton.Config({"BM": 32, "BN": 32, "BK": 32})], key=["M"])\n@triton.jit',
    )
    assert findings_of(source, "TF203") == []


def test_block_too_small_points_at_the_literal_that_leaves_lanes_idle():
    source = copy(16)
    (finding,) = findings_of(source, "TF304")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(source, "BLOCK=16")
    assert finding.evidence["elements_per_program"].value == 16
    assert finding.evidence["lanes"].value == 128
    assert "112 lanes have nothing to do" in finding.message


def test_block_too_small_counts_the_warps_that_the_launch_asks_for():
    source = copy(32).replace("BLOCK=32)", "BLOCK=32, num_warps=1)")
    assert findings_of(source, "TF304") == []


def test_block_too_small_is_silent_for_a_block_that_fills_the_lanes():
    assert findings_of(copy(1024), "TF304") == []


def test_block_too_small_leaves_a_row_kernel_alone_whose_block_follows_its_columns():
    source = """
    @triton.jit
    def softmax(x, o, n, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        c = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + row * n + c, e / tl.sum(e, 0), mask=c < n)


    def host(x, o):
        rows, cols = x.shape
        softmax[(rows,)](x, o, cols, BLOCK=triton.next_power_of_2(cols))
    """
    assert findings_of(source, "TF304") == []


def test_scalar_loop_points_at_the_header_of_a_loop_over_single_elements():
    (finding,) = findings_of(SCALAR_SUM, "TF207")
    assert finding.severity == "hint"
    assert finding.provenance == "source"
    assert finding.range.start.line == line_of(SCALAR_SUM, "for j")
    assert finding.range.end.line <= finding.range.start.line + 1
    assert "127 of them repeat the work of one" in finding.message


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("few iterations", "range(0, n)", "range(0, 4)"),
        ("unrolled", "range(0, n)", "tl.static_range(0, 64)"),
        ("a block per iteration", "row * n + j)", "row * n + j + tl.arange(0, 128))"),
    ],
)
def test_scalar_loop_is_silent_for(why: str, old: str, new: str):
    assert findings_of(SCALAR_SUM.replace(old, new), "TF207") == [], why


def test_scalar_loop_is_silent_where_the_scalar_looks_up_a_block():
    source = """
    @triton.jit
    def paged(x, table, o, n, BLOCK: tl.constexpr):
        c = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK,), dtype=tl.float32)
        for j in range(0, n):
            page = tl.load(table + j)
            acc += tl.load(x + page * BLOCK + c)
        tl.store(o + c, acc)
    """
    assert findings_of(source, "TF207") == []


def test_masked_load_without_other_is_found_where_dead_lanes_are_summed():
    (finding,) = findings_of(ROW_SUM, "TF502")
    assert finding.severity == "information"
    assert finding.range.start.line == line_of(ROW_SUM, "tl.load")
    assert finding.evidence["reaches"].value == "reduction"
    assert "c < n" in finding.message


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("other is given", "mask=c < n)", "mask=c < n, other=0.0)"),
        ("no mask, no dead lanes", ", mask=c < n)", ")"),
        ("tl.where masks again", "tl.sum(v, 0)", "tl.sum(tl.where(c < n, v, 0.0), 0)"),
    ],
)
def test_masked_load_without_other_is_silent_when(why: str, old: str, new: str):
    assert findings_of(ROW_SUM.replace(old, new), "TF502") == [], why


def test_masked_load_without_other_is_silent_for_lanes_that_are_only_stored():
    assert findings_of(copy(1024), "TF502") == []


def test_masked_load_without_other_is_silent_when_whole_rows_are_dead():
    source = """
    @triton.jit
    def rows(x, o, M, N: tl.constexpr, BM: tl.constexpr):
        r = tl.program_id(0) * BM + tl.arange(0, BM)
        c = tl.arange(0, N)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=r[:, None] < M)
        tl.store(o + r, tl.sum(v, 1), mask=r < M)
    """
    assert findings_of(source, "TF502") == []
    assert len(findings_of(source.replace("tl.sum(v, 1)", "tl.sum(v, 0)"), "TF502")) == 1


def test_masked_load_without_other_is_found_on_the_contraction_of_a_dot_only():
    inner = matmul(64, 64).replace("(k + rk)[None, :] < K, other=0.0", "(k + rk)[None, :] < K")
    (finding,) = findings_of(inner, "TF502")
    assert finding.evidence["reaches"].value == "dot"
    outer = matmul(64, 64).replace("mask=(k + rk)[None, :] < K, other=0.0", "mask=rm[:, None] < M")
    assert findings_of(outer, "TF502") == []


def test_masked_load_without_other_speaks_of_padding_where_a_block_pointer_is_loaded():
    source = """
    @triton.jit
    def total(x, o, n, BLOCK: tl.constexpr):
        p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
        v = tl.load(p, boundary_check=(0,))
        tl.store(o, tl.sum(v, 0))
    """
    (finding,) = findings_of(source, "TF502")
    assert 'padding_option="zero"' in finding.message
    assert (
        findings_of(
            source.replace("(0,))\n        tl.store", '(0,), padding_option="zero")\n        tl.store'), "TF502"
        )
        == []
    )


def test_no_tuning_names_what_is_fixed_and_points_at_the_kernel():
    source = copy(1024)
    (finding,) = findings_of(source, "TF404")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(source, "def copy")
    assert finding.evidence["fixed"].value == "BLOCK=1024"


def test_no_tuning_is_silent_where_something_chooses():
    tuned = copy(1024).replace(
        "@triton.jit",
        '@triton.autotune(configs=[triton.Config({"BLOCK": 1024})], key=["n"])\n@triton.jit',
    )
    assert findings_of(tuned, "TF404") == []
    handed_in = copy(1024).replace("def host(x, o)", "def host(x, o, block)").replace("BLOCK=1024", "BLOCK=block")
    assert findings_of(handed_in, "TF404") == []
    assert findings_of(SCALAR_SUM, "TF404") == []


def test_source_alone_never_gives_a_warning():
    for source in (matmul(16, 16), copy(16), SCALAR_SUM, ROW_SUM):
        assert {f.severity for f in diagnose(kernel_of(source))} <= {"hint", "information"}
