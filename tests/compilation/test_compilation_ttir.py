import random

import pytest
from compilation_golden import artefacts, compilations

from tritonforge.compilation import read
from tritonforge.compilation.locations import read_locations
from tritonforge.compilation.mlir import read_operations, read_types
from tritonforge.compilation.ttir import read_work
from tritonforge.domain.messages import CompiledLaunch

VERSIONS = ["pathologies-3.6.0", "pathologies-3.7.1"]


@pytest.mark.parametrize("golden", VERSIONS)
def test_a_copy_moves_every_byte_once_each_way(golden):
    facts = compilations(golden)["copy_at_bandwidth"]
    n = 1 << 26
    assert facts.work.total("load_bytes") * facts.programs == 4 * n
    assert facts.work.total("store_bytes") * facts.programs == 4 * n
    assert facts.work.exact


@pytest.mark.parametrize("golden", VERSIONS)
def test_a_matmul_does_2mnk_flops_in_the_tile_it_was_given(golden):
    facts = compilations(golden)["matmul_good"]
    assert facts.work.total("dot_flops") * facts.programs == 2 * 4096**3
    assert (facts.work.dot_tile, facts.work.dot_dtype, facts.work.iterations) == ((128, 256, 64), "fp16", 64)


@pytest.mark.parametrize("golden", VERSIONS)
def test_three_passes_over_a_row_are_seen_as_three_loads_of_one_argument(golden):
    lines = compilations(golden)["softmax_three_pass"].work.lines
    loads = {number: line for number, line in lines.items() if line.load_bytes}
    assert sorted(loads) == [48, 52, 55]
    assert {line.pointers for line in loads.values()} == {("x",)}
    assert {line.load_bytes for line in loads.values()} == {8192 * 4}
    assert lines[52].special_ops == 8192


def test_the_precision_of_a_dot_is_its_operand_type():
    found = compilations("pathologies-3.6.0")["matmul_ieee_fp32"].work
    assert found.dot_dtype == "fp32"
    assert compilations("samples-3.7.1")["int8_dot"].work.dot_dtype == "int8"


def test_strided_addresses_touch_a_sector_for_each_element():
    work = compilations("pathologies-3.6.0")["copy_strided"].work
    assert (work.total("load_bytes"), work.total("store_bytes")) == (1024 * 4, 1024 * 4)
    assert work.total("moved_bytes") == 1024 * 32 + 1024 * 4


def test_a_transposed_load_with_contiguous_columns_wastes_nothing():
    work = compilations("pathologies-3.6.0")["transpose_naive"].work
    assert work.total("moved_bytes") == work.total("load_bytes") + work.total("store_bytes")


def test_atomics_know_how_many_elements_they_are_spread_over():
    line = compilations("pathologies-3.6.0")["histogram_atomic"].work.lines[87]
    assert (line.atomic_ops, line.atomic_targets) == (1024, 8)


def test_a_loop_that_ends_at_the_diagonal_is_averaged_over_the_grid():
    facts = compilations("samples-3.7.1")["causal"].work
    # Program p of 16 makes 2(p+1) steps.
    assert facts.iterations == sum(2 * (p + 1) for p in range(16)) / 16
    assert facts.exact


def test_a_persistent_loop_counts_its_tiles():
    facts = compilations("samples-3.7.1")["persistent_grouped"]
    assert facts.work.total("dot_flops") * facts.programs == 2 * 1024 * 2048 * 512
    assert facts.work.iterations == 4 * 8


def test_descriptors_load_their_whole_block():
    for golden in ("samples-3.7.1", "samples-3.9.0", "samples-3.7.1-sm_100"):
        facts = compilations(golden)["with_descriptors"]
        tiles = 8 * 16
        assert facts.work.total("load_bytes") * facts.programs == tiles * 8 * (128 * 64 + 64 * 128) * 2
        assert facts.work.total("store_bytes") * facts.programs == 1024 * 2048 * 2
        assert "a" in next(line.pointers for line in facts.work.lines.values() if line.load_bytes)


def test_only_the_branch_taken_counts_and_unknown_trips_make_it_inexact():
    work = compilations("samples-3.7.1")["branches"].work
    assert 83 not in work.lines
    assert work.lines[89].executions == work.lines[87].executions / 2
    assert not work.exact


def test_a_while_loop_is_inexact():
    work = compilations("samples-3.7.1")["waits"].work
    assert not work.exact
    assert work.total("atomic_ops") > 1


def test_a_known_mask_says_how_many_lanes_it_leaves_on():
    for name in ("waits", "early_return"):
        lines = compilations("samples-3.7.1")[name].work.lines.values()
        assert {line.unmasked_fraction for line in lines if line.load_bytes} == {1000 / 1024}


@pytest.mark.parametrize("name", ["uses_helper", "causal", "persistent_grouped", "with_descriptors", "int8_dot"])
def test_versions_of_the_compiler_agree_on_the_work(name):
    old, new = compilations("samples-3.7.1")[name].work, compilations("samples-3.9.0")[name].work
    for field in ("load_bytes", "store_bytes", "dot_flops", "special_ops"):
        assert new.total(field) == old.total(field)


def test_locations_resolve_through_names_call_sites_and_fusion():
    text = (
        '#loc1 = loc("/k.py":5:3)\n#loc2 = loc("/lib.py":9:1)\n#loc3 = loc("x"(#loc1))\n#loc4 = loc(callsite(#loc2 at #loc3))\n'
        "#loc5 = loc(callsite(#loc2 at #loc4))\n#loc6 = loc(fused[#loc4, #loc2])\n#loc7 = loc(unknown)\n#loc8 = loc(#loc9)\n#loc9 = loc(#loc8)\n"
    )
    found = read_locations(text, "/k.py")
    assert [found.line(f"loc(#loc{i})") for i in range(1, 9)] == [5, None, 5, 5, 5, 5, None, None]
    assert found.line('loc("/k.py":7:1)') == 7


def test_types_are_read_in_order():
    types = read_types("tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>")
    assert [(t.shape, t.element) for t in types] == [((128, 64), "f16"), ((64, 256), "f16"), ((128, 256), "f32")]
    (pointer,) = read_types("tensor<16x!tt.ptr<bf16>>")
    assert (pointer.pointer, pointer.size, pointer.elements) == (True, 2, 16)
    assert read_types("!tt.tensordesc<tensor<128x64xf16>> -> tensor<128x64xf16>")[0].shape == (128, 64)


def test_regions_nest_as_written():
    text = artefacts("pathologies-3.6.0")["softmax_three_pass"].artefacts["ttir"]
    (module,) = read_operations(text)
    (function,) = module.regions[0]
    loops = [operation for operation in function.regions[0] if operation.name == "scf.for"]
    assert len(loops) == 3
    assert [sum(o.name == "tt.reduce" for o in loop.regions[0]) for loop in loops] == [1, 1, 0]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_text_never_raises(seed):
    generator = random.Random(seed)
    compiled = artefacts("samples-3.7.1")[generator.choice(["branches", "causal", "persistent_grouped", "waits"])]
    texts = {}
    for key, text in compiled.artefacts.items():
        lines = text.splitlines()
        for _ in range(20):
            at = generator.randrange(len(lines))
            cut = generator.randrange(len(lines[at]) + 1)
            lines[at] = generator.choice([lines[at][:cut], lines[at][cut:], "", "}", "{", lines[at] + lines[at]])
        texts[key] = "\n".join(lines)
    damaged = CompiledLaunch(compiled.launch, compiled.arch, compiled.triton, texts, {"shared": "much"})
    found = read(damaged, launch_id="x", kernel_file_path="/golden/samples.py")
    assert found.launch == "x"


def test_nothing_but_an_error_is_read_from_a_failed_compilation():
    compiled = artefacts("samples-3.7.1")["waits"]
    failed = CompiledLaunch(compiled.launch, "sm_90", "3.7.1", error="ptxas gave up")
    found = read(failed, launch_id="x", kernel_file_path="/golden/samples.py")
    assert (found.error, found.resources, found.work, found.instructions) == ("ptxas gave up", None, None, {})


def test_no_text_is_no_work():
    compiled = artefacts("samples-3.7.1")["waits"]
    assert read_work("", compiled.launch, "/golden/samples.py") is None
    empty = CompiledLaunch(compiled.launch, "sm_90", "3.7.1")
    assert read(empty, launch_id="x", kernel_file_path="/golden/samples.py").resources is None
