"""Layouts, coalescing, bank conflicts and moves between layouts, against values worked out by hand."""

import pytest

from tritonforge.compilation.accesses import moved_bytes
from tritonforge.compilation.banks import conflict_ways, read_offsets
from tritonforge.compilation.coalescing import sectors_of, widest_bytes
from tritonforge.compilation.layouts import Layout, kind_of, read_aliases, read_layout
from tritonforge.compilation.mlir import Type
from tritonforge.compilation.moves import way_between
from tritonforge.compilation.values import Known, Run

ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
LINE = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
OPERAND = "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>"


def layout(text, *shape, **aliases):
    return read_layout(text, shape, aliases)


def test_a_blocked_layout_gives_registers_lanes_and_warps_powers_of_two_in_its_order():
    found = layout(ROWS, 16, 32)
    assert found.register == ((0, 1), (0, 2))
    assert found.lane == ((0, 4), (0, 8), (0, 16), (1, 0), (2, 0))
    assert found.warp == ((4, 0), (8, 0))


def test_a_block_larger_than_the_layout_repeats_in_registers_and_a_smaller_one_in_lanes():
    assert layout(LINE, 1024).register == ((1,), (2,), (512,))
    small = layout(LINE, 32)
    assert small.lane == ((4,), (8,), (16,), (0,), (0,))
    assert small.replicas == 16


def test_a_slice_drops_a_dimension():
    found = layout("#ttg.slice<{dim = 1, parent = #b}>", 16, b=ROWS)
    assert (found.register, found.lane) == ((), ((0,), (0,), (0,), (1,), (2,)))
    assert kind_of("#ttg.slice<{dim = 1, parent = #b}>", {"b": ROWS}) == "slice of blocked"


def test_an_accumulator_of_the_matrix_unit_lies_as_the_instruction_set_says():
    # PTX, mma.m16n8: lane l holds row l / 4 (and 8 further), columns 2 * (l % 4) and the next.
    found = layout(MMA, 64, 8)
    assert found.register == ((0, 1), (8, 0))
    assert found.lane == ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))


@pytest.mark.parametrize(
    "text", ["", "#nothing", "#ttg.blocked<{sizePerThread = [1]}>", "#ttg.padded_shared<[64:+4] {}>", "#ttg.linear<{}>"]
)
def test_a_layout_that_is_not_understood_is_unknown(text):
    assert layout(text, 16) is None
    assert layout(ROWS, 12, 32) is None


def test_aliases_are_read_from_the_module():
    text = f"#blocked = {ROWS}\n#loc1 = loc(unknown)\n#b2 = #blocked\nmodule {{\n}}\n"
    assert read_aliases(text) == {"blocked": ROWS, "b2": ROWS}


@pytest.mark.parametrize(
    ("stride", "lane_bytes", "sectors", "needed", "overfetch"),
    [
        (1, 16, 16, 16, 1.0),  # 32 lanes × 16 bytes in a row
        (1, 4, 16, 4, 1.0),  # every fourth word with each instruction, all of them together
        (2, 4, 32, 4, 2.0),
        (8, 4, 32, 4, 8.0),
        (0, 4, 1, 1, 1.0),
    ],
)
def test_sectors_follow_from_stride_and_width(stride, lane_bytes, sectors, needed, overfetch):
    found = sectors_of(Known(0, (stride,), (1024,), "x"), layout(LINE, 1024), 4, lane_bytes)
    assert (found.sectors, found.sectors_needed, found.overfetch) == (sectors, needed, overfetch)


def test_a_row_that_starts_within_a_sector_touches_one_more():
    found = sectors_of(Known(1, (1,), (1024,), "x"), layout(LINE, 1024), 4, 16)
    assert (found.sectors, found.sectors_needed) == (17, 16)


def test_addresses_that_depend_on_data_have_no_sectors():
    assert sectors_of(Known(None, (None,), (1024,), "x"), layout(LINE, 1024), 4, 4) is None


@pytest.mark.parametrize(
    ("strides", "divisor", "alignment", "widest"),
    [
        ((1024, 1), 1 << 20, 256, 16),
        ((1004, 1), 1 << 20, 256, 8),  # rows start at multiples of 8 bytes
        ((1001, 1), 1 << 20, 256, 2),
        ((1024, 1), 2, 256, 4),  # the block starts at an even element
        ((1024, 1), 1 << 20, 4, 4),  # the tensor itself is aligned to 4 bytes
        ((1, 1024), 1 << 20, 256, 16),
        ((2, 1024), 1 << 20, 256, 2),  # no two elements are neighbours
        ((1024, 1), None, 256, None),
    ],
)
def test_the_widest_access_is_as_wide_as_rows_are_aligned(strides, divisor, alignment, widest):
    assert widest_bytes(Known(0, strides, (64, 64), "x"), divisor, alignment, layout(ROWS, 64, 64), 2) == widest


def test_lanes_that_have_one_element_each_can_move_no_more():
    assert widest_bytes(Known(0, (1,), (128,), "x"), 1 << 20, 256, layout(LINE, 128), 2) == 2


def test_a_column_of_a_row_major_block_meets_in_one_bank_and_swizzling_spreads_it():
    lanes = Layout(((0, 1),), ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0)), ())
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    assert conflict_ways(lanes, read_offsets(plain, (32, 32), {}, 4), 4) == 16  # 8-byte accesses, 16 lanes at a time
    one = Layout((), lanes.lane, ())
    assert conflict_ways(one, read_offsets(plain, (32, 32), {}, 4), 4) == 32
    swizzled = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 32, order = [1, 0]}>"
    assert conflict_ways(one, read_offsets(swizzled, (32, 32), {}, 4), 4) == 1
    half = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
    assert conflict_ways(one, read_offsets(half, (32, 32), {}, 4), 4) == 4


def test_matrix_rows_without_a_swizzle_conflict_when_read_with_a_transpose():
    operand = layout(OPERAND, 64, 64, mma=MMA)
    plain = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 1, order = [0, 1]}>"
    swizzled = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [0, 1]}>"
    assert conflict_ways(operand, read_offsets(plain, (64, 64), {}, 2), 2, matrix=1) == 8
    assert conflict_ways(operand, read_offsets(swizzled, (64, 64), {}, 2), 2, matrix=1) == 1


def test_the_way_between_layouts_is_the_shortest():
    rows = layout(ROWS, 16, 32)
    assert way_between(rows, rows) == "registers"
    assert way_between(rows, layout(COLUMNS, 16, 32)) == "shared"
    swapped = Layout(rows.register[::-1], rows.lane, rows.warp)
    assert way_between(rows, swapped) == "registers"
    turned = Layout(rows.register, (*rows.lane[1:], rows.lane[0]), rows.warp)
    assert way_between(rows, turned) == "shuffle"
    assert way_between(rows, None) is None


def test_an_accumulator_becomes_an_operand_within_its_lane():
    # Attention's second product: the accumulator of the first is the left operand of the next, in 16 bits.
    assert way_between(layout(MMA, 64, 64), layout(OPERAND, 64, 64, mma=MMA)) == "registers"


IMAGE = 6 * 10
SPLIT = {
    "put together again": (lambda i: i // 28 * 28 + i % 28, lambda i: i.quotient(28).times(28).plus(i.remainder(28))),
    "in three, and together again": (
        lambda i: i // IMAGE * IMAGE + i // 10 % 6 * 10 + i % 10,
        lambda i: i.quotient(IMAGE).times(IMAGE).plus(i.quotient(10).remainder(6).times(10)).plus(i.remainder(10)),
    ),
    "rows apart": (lambda i: i // 64 * 1000 + i % 64, lambda i: i.quotient(64).times(1000).plus(i.remainder(64))),
    "one weight a row": (lambda i: i // 64, lambda i: i.quotient(64)),
    "as it is": (lambda i: i, lambda i: i),
}


@pytest.mark.parametrize("what", SPLIT)
def test_indices_taken_apart_touch_the_sectors_that_their_addresses_lie_in(what):
    address, how = SPLIT[what]
    run = how(Run(1))
    sectors = {address(i) * 4 // 32 for i in range(1920)}
    moved = moved_bytes(Known(0, (run.stride,), (1920,), "x", runs=(run,)), Type((1920,), "f32"))
    assert moved == pytest.approx(32 * len(sectors), rel=0.07)


def test_lanes_that_go_down_a_column_first_each_touch_a_sector():
    run = Run(1).remainder(64).times(1024).plus(Run(1).quotient(64))
    assert run.stride == 1024
    assert moved_bytes(Known(0, (run.stride,), (1920,), "x", runs=(run,)), Type((1920,), "f32")) == 1920 * 32


def test_lanes_of_an_index_put_together_again_step_evenly():
    for what in ("put together again", "in three, and together again"):
        assert SPLIT[what][1](Run(1)) == Run(1)
    assert Run(1).remainder(28) == Run(1, ((28, -1),))
    assert Run(64).remainder(64) == Run(64)
    assert Run(64).quotient(16) == Run(4)
