"""What is read of layouts, accesses, conversions, dots, atomics and loops, over five versions of the compiler."""

import dataclasses
import random

import pytest
from compilation_golden import artefacts, compilations

from tritonforge.compilation import read

NVIDIA = [
    "blocks-3.2.0", "blocks-3.3.1", "blocks-3.6.0", "blocks-3.7.1", "blocks-3.9.0", "blocks-3.7.1-sm_80",
    "blocks-3.9.0-sm_100",
]  # fmt: skip
AMD = ["blocks-3.7.1-gfx90a", "blocks-3.7.1-gfx942", "blocks-3.9.0-gfx950"]
EVERYWHERE = NVIDIA + AMD


def accesses(golden, name, kind="load", pointer="x"):
    return [a for a in compilations(golden)[name].accesses if (a.kind, a.pointer) == (kind, pointer)]


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_copy_of_every_fourth_element_touches_four_times_the_sectors_that_it_needs(golden):
    (load,) = accesses(golden, "strided")
    (store,) = accesses(golden, "strided", "store", "o")
    assert (load.lane_bytes, load.overfetch, load.data_dependent, load.masked) == (4, 4.0, False, False)
    assert load.redundancy > 4  # each lane has four neighbouring elements, which four instructions load
    assert (store.lane_bytes, store.redundancy, store.overfetch) == (16, 1.0, 1.0)


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_row_length_that_the_compiler_knows_nothing_of_narrows_its_loads(golden):
    # Rows of 1004 half-precision elements start at multiples of 8 bytes: four elements at once would do.
    (load,) = accesses(golden, "odd_rows")
    assert (load.lane_bytes, load.widest_bytes) == (2, 8)
    assert load.redundancy > 1 == load.overfetch


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_rows_that_an_index_chooses_are_data_dependent_but_coalesced(golden):
    (row,) = [a for a in accesses(golden, "gathered_rows") if a.shape]
    assert (row.data_dependent, row.redundancy) == (True, 1.0)
    (element,) = accesses(golden, "gathered_elements")
    assert (element.data_dependent, element.lane_bytes, element.sectors) == (True, 4, None)
    (index,) = accesses(golden, "gathered_elements", pointer="index")
    assert (index.data_dependent, index.lane_bytes, index.redundancy) == (False, 16, 1.0)


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_block_smaller_than_its_lanes_is_held_several_times(golden):
    (load,) = accesses(golden, "few_lanes")
    lanes = 4 * (64 if golden in AMD else 32)
    assert load.replicas == lanes // 32
    assert (load.sectors, load.sectors_needed) == (4.0, 4.0)


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_transposition_goes_through_shared_memory(golden):
    facts = compilations(golden)["transposed"]
    (conversion,) = facts.conversions
    assert (conversion.line, conversion.through, conversion.nbytes) == (28, "shared", 64 * 64 * 4)
    assert (conversion.source, conversion.loop, conversion.executions) == ("blocked", None, 1.0)
    assert all(access.redundancy == 1.0 for access in facts.accesses)


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_pipelined_loop_has_as_many_stages_as_it_asks_for(golden):
    (loop,) = compilations(golden)["pipelined_dot"].loops
    assert (loop.line, loop.trips, loop.dots, loop.stages_asked, loop.innermost) == (16, 8.0, 1, 4, True)
    if golden in {"blocks-3.7.1-gfx90a", "blocks-3.7.1-gfx942"}:
        # These have no asynchronous copies: blocks wait in registers or shared memory that was stored to.
        assert (loop.loads, loop.async_copies, loop.waits_for_loads) == (2, 0, False)
        assert 1 < loop.stages_used <= 4
    else:
        assert (loop.async_copies, loop.stages_used, loop.waits_for_loads) == (2, 4, False)
        assert loop.buffers in {3, 4}


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_while_loop_waits_for_its_loads_and_runs_an_unknown_number_of_times(golden):
    facts = compilations(golden)["unpipelined_dot"]
    (loop,) = facts.loops
    assert (loop.kind, loop.line, loop.trips, loop.loads, loop.dots) == ("while", 100, None, 2, 1)
    assert (loop.stages_used, loop.async_copies, loop.waits_for_loads) == (1, 0, True)
    assert {access.executions for access in facts.accesses if access.loop == 100} == {None}
    assert facts.instructions[101].executed is None


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_loop_without_loads_has_no_stages(golden):
    (loop,) = compilations(golden)["functions"].loops
    assert (loop.stages_used, loop.waits_for_loads, loop.trips) == (None, None, 12.0)


@pytest.mark.parametrize(
    ("golden", "path"),
    [(g, "wgmma") for g in NVIDIA[:5]]
    + [("blocks-3.7.1-sm_80", "mma"), ("blocks-3.9.0-sm_100", "tcgen05")]
    + [(g, "mfma") for g in AMD],
)
def test_a_dot_knows_its_instructions(golden, path):
    facts = compilations(golden)["pipelined_dot"]
    (dot,) = facts.dots
    assert (dot.line, dot.path, dot.tile, dot.loop, dot.executions) == (17, path, (128, 128, 64), 16, 8.0)
    assert (dot.a_dtype, dot.b_dtype, dot.accumulator) == ("f16", "f16", "f32")
    assert (dot.a_shared, dot.asynchronous) == ((path in {"wgmma", "tcgen05"},) * 2)
    assert facts.tensor_path == path


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_atomics_keep_their_order_and_scope(golden):
    found = compilations(golden)["orders"].atomics
    assert [(a.line, a.operation, a.ordering, a.scope) for a in found] == [
        (61, "add", "relaxed", "gpu"),
        (62, "max", "acquire", "cta"),
        (63, "add", "acq_rel", "gpu"),
        (64, "cas", "release", "sys"),
    ]
    assert [(a.pointer, a.dtype, a.shape, a.result_used) for a in found[:2]] == [
        ("h", "i32", (256,), False),
        ("lock", "i32", (), True),
    ]
    assert [a.distinct for a in found] == [256, 1, 256, 1]


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_functions_are_counted_where_they_stand(golden):
    lines = compilations(golden)["functions"].instructions
    # Of 1024 elements each lane has 8, or 4 of AMD's twice as many; loops may be unrolled.
    each = 4 if golden in AMD else 8
    assert lines[72].functions["exp2"] % each == 0 < lines[72].functions["exp2"]
    assert lines[73].functions["div"] % each == 0 < lines[73].functions["div"]
    assert sum(line.functions.get("rsqrt", 0) for line in lines.values()) >= each
    assert lines[75].functions["int_div"] >= 1


@pytest.mark.parametrize("golden", NVIDIA)
def test_instructions_are_weighted_with_the_trips_of_their_loop(golden):
    lines = compilations(golden)["functions"].instructions
    # 12 trips of 8 elements in each lane of 4 warps; one exponential is one instruction.
    assert lines[72].executed["special"] == 12 * 8 * 4


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_chains_are_shorter_than_loops_and_each_pass_of_a_dependent_one_waits(golden):
    (loop,) = compilations(golden)["functions"].loops
    assert loop.chain < loop.instructions
    assert 0 < loop.carried_chain <= loop.chain
    assert loop.ilp == loop.instructions / loop.chain


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_swizzled_shared_memory_is_free_of_conflicts(golden):
    facts = compilations(golden)["pipelined_dot"]
    known = [access.ways for access in facts.shared_accesses if access.ways is not None]
    assert all(ways < 1.5 for ways in known)
    if golden in NVIDIA:
        assert known


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_mask_at_the_end_of_a_row_counts_in_the_last_iteration_only(golden):
    # Rows of 1000 elements in blocks of 256: four iterations, of which the last has 232 elements.
    work = compilations(golden)["row_sum"].work
    line = work.lines[84]
    assert (line.executions, line.load_bytes, line.trips) == (4.0, 4 * 256 * 4, None)
    assert line.load_bytes * line.unmasked_fraction == pytest.approx(1000 * 4)
    assert work.lines[82].trips == 4.0
    assert work.exact


@pytest.mark.parametrize("golden", EVERYWHERE)
def test_a_mask_at_the_end_of_the_grid_counts_in_the_last_program_only(golden):
    # 100,000 elements in 98 blocks of 1024: the last has 672 elements.
    facts = compilations(golden)["functions"]
    load = facts.work.lines[70]
    assert load.load_bytes == 1024 * 4
    assert facts.programs * load.load_bytes * load.unmasked_fraction == pytest.approx(100_000 * 4)
    assert facts.work.exact


@pytest.mark.parametrize("golden", ["samples-3.7.1", "samples-3.9.0"])
def test_a_triangle_of_blocks_is_counted_block_by_block(golden):
    # Program p of 16 loads 2(p+1) blocks of 64 × 32 keys and one of 64 × 64 queries; all in half precision.
    facts = compilations(golden)["causal"]
    keys = sum(2 * (p + 1) * 64 * 32 * 2 for p in range(16)) * 8
    queries = 16 * 64 * 64 * 2 * 8
    assert facts.work.total("load_bytes") * facts.programs == keys + queries
    assert facts.work.lines[31].trips == 17.0
    # The longest of the four programs that were looked at (the 14th of 16 rows of blocks) takes 28 passes, the mean is 17.
    assert facts.work.imbalance == pytest.approx(28 / 17)


def test_amd_registers_and_scalars_are_told_apart():
    for golden in AMD:
        found = compilations(golden)["pipelined_dot"].resources
        assert 0 <= found.accumulator_registers <= found.registers
        assert found.scalar_registers > 0
        assert found.static_shared_bytes == 0
        assert found.dynamic_shared_bytes == found.shared_bytes > 0


def test_amd_instructions_are_charged_to_their_lines():
    for golden in AMD:
        lines = compilations(golden)["pipelined_dot"].instructions
        assert lines[17].instructions["mma"] > 0
        assert lines[17].instructions["load_shared"] > 0
        assert lines[20].instructions["store_global"] > 0
        assert set(lines[20].access_bytes) <= {2, 4, 8, 16}


@pytest.mark.parametrize("golden", ["pathologies-3.6.0", "pathologies-3.7.1"])
def test_spills_are_told_by_line_and_arrays_on_the_stack_are_none(golden):
    spilling = compilations(golden)["matmul_spilling"].instructions
    assert sum(line.spill_stores for line in spilling.values()) > 20
    assert sum(line.spill_loads for line in spilling.values()) > 20
    others = compilations(golden)["transcendental"].instructions
    assert sum(line.instructions.get("store_local", 0) for line in others.values()) > 0
    assert sum(line.spill_stores + line.spill_loads for line in others.values()) == 0


def test_without_the_ir_with_layouts_blocks_are_unknown_and_the_rest_is_read():
    compiled = artefacts("blocks-3.7.1")["pipelined_dot"]
    texts = {name: text for name, text in compiled.artefacts.items() if name != "ttgir"}
    found = read(dataclasses.replace(compiled, artefacts=texts), launch_id="x", kernel_file_path="/golden/blocks.py")
    assert (found.accesses, found.conversions, found.loops, found.dots, found.atomics) == (None,) * 5
    assert found.resources is not None
    assert found.work.exact


def test_without_a_disassembly_widths_and_chains_are_unknown():
    compiled = artefacts("blocks-3.7.1")["strided"]
    texts = {name: text for name, text in compiled.artefacts.items() if name != "sass"}
    found = read(dataclasses.replace(compiled, artefacts=texts), launch_id="x", kernel_file_path="/golden/blocks.py")
    load = found.accesses[0]
    assert (load.lane_bytes, load.sectors, load.overfetch, load.widest_bytes) == (None, None, None, 4)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_text_never_raises(seed):
    generator = random.Random(seed)
    golden = artefacts(generator.choice(EVERYWHERE))
    compiled = golden[generator.choice(sorted(golden))]
    texts = {}
    for key, text in compiled.artefacts.items():
        lines = text.splitlines()
        for _ in range(30):
            at = generator.randrange(len(lines))
            cut = generator.randrange(len(lines[at]) + 1)
            lines[at] = generator.choice([lines[at][:cut], lines[at][cut:], "", "}", "{", "default {", lines[at][::-1]])
        texts[key] = "\n".join(lines)
    damaged = dataclasses.replace(compiled, artefacts=texts)
    assert read(damaged, launch_id="x", kernel_file_path="/golden/blocks.py").launch == "x"
