import pytest
from compilation_golden import artefacts, compilations, measured, nsight

from tritonforge.compilation import architecture, occupancy, waves
from tritonforge.compilation.resources import read_resources, spilled_bytes
from tritonforge.domain.compilation import Resources

SM_90 = architecture("sm_90")


@pytest.mark.parametrize("name", sorted(measured()))
def test_resources_are_those_that_the_driver_reported_on_the_h200(name):
    found, told = compilations("pathologies-3.6.0")[name].resources, measured()[name]
    assert (found.registers, found.shared_bytes) == (told["n_regs"], told["shared"])
    # `transcendental` keeps an array of `sin` on the stack, which the driver counts and which is no spill.
    assert found.spill_bytes == (0 if name == "transcendental" else 4 * told["n_spills"])


@pytest.mark.parametrize("name", sorted(measured()))
def test_a_newer_compiler_moves_registers_and_spills_by_little(name):
    old, new = compilations("pathologies-3.6.0")[name].resources, compilations("pathologies-3.7.1")[name].resources
    assert new.registers == pytest.approx(old.registers, abs=8)
    assert new.spill_bytes == pytest.approx(old.spill_bytes, rel=0.05)
    assert new.shared_bytes == old.shared_bytes


@pytest.mark.parametrize("name", sorted(measured()))
def test_occupancy_is_what_nsight_computed(name):
    assert compilations("pathologies-3.6.0")[name].occupancy.fraction == nsight()[name]["occupancy"]


@pytest.mark.parametrize(
    ("resources", "warps", "arch", "programs", "limiter"),
    [
        # Worked out with the occupancy calculator of Nsight Compute.
        ((32, 0), 4, "sm_90", 16, "warps"),
        ((33, 0), 4, "sm_90", 12, "registers"),  # 33 registers are allocated as 40
        ((255, 0), 8, "sm_90", 1, "registers"),
        ((16, 0), 1, "sm_90", 32, "programs"),
        ((32, 49152), 4, "sm_90", 4, "shared-memory"),
        ((32, 99 * 1024), 4, "sm_86", 1, "shared-memory"),
        ((32, 0), 4, "sm_89", 12, "warps"),
        ((128, 65536), 4, "sm_80", 2, "shared-memory"),
    ],
)
def test_the_tightest_resource_limits_occupancy(resources, warps, arch, programs, limiter):
    registers, shared = resources
    found = occupancy(Resources(registers, 0, shared), warps, architecture(arch))
    assert (found.programs_per_sm, found.limiter) == (programs, limiter)
    assert found.warps_per_sm == programs * warps


def test_a_program_that_does_not_fit_has_no_occupancy():
    assert occupancy(Resources(32, 0, 228 * 1024), 4, SM_90) is None
    assert occupancy(Resources(32, 0, 0), 128, SM_90) is None


def test_an_architecture_nobody_told_us_of_is_unknown():
    assert architecture("sm_42") is None
    assert architecture("sm_90a") is SM_90


def test_spilled_registers_are_told_from_arrays_of_a_library_function():
    assert spilled_bytes(40, "/*0010*/ @P0 LDL.LU.64 R4, [R1+0x48] ;") == 40
    assert spilled_bytes(32, "/*0010*/ LDL R2, [R17+0x14] ; /*0020*/ STL [R1+0x18], R0 ;") == 0


def test_the_reserved_shared_memory_of_newer_architectures_is_not_counted_twice():
    found = artefacts("pathologies-3.6.0")["softmax_three_pass"]
    assert "SHARED:1024" in found.artefacts["resources"]
    assert read_resources(found.artefacts["resources"], found.metadata, "", SM_90).shared_bytes == 16


def test_of_several_functions_the_kernel_s_own_counts():
    dump = " Function helper:\n  REG:9 STACK:0 SHARED:0 LOCAL:0\n Function kern:\n  REG:40 STACK:0 SHARED:0 LOCAL:0\n"
    assert read_resources(dump, {"name": "kern"}, "", SM_90).registers == 40
    assert read_resources(dump, {"name": "other"}, "", SM_90) is None


def test_a_kernel_for_an_amd_gpu_is_read_as_far_as_its_assembly_says():
    found = compilations("samples-3.7.1-gfx942")["causal"]
    assert (found.resources.registers, found.tensor_path) == (78, "mfma")
    # 78 vector registers are allocated as 80 of 512: six waves on each of four SIMDs.
    assert (found.occupancy.warps_per_sm, found.occupancy.limiter) == (24, "registers")
    assert found.work.exact


def test_amd_resources_come_from_the_assembly():
    assembly = "    .vgpr_count:     96\n    .vgpr_spill_count: 3\n"
    assert read_resources(assembly, {"shared": "512"}, "", None) == Resources(96, 12, 512, None, 512)
    more = assembly + "  - .agpr_count:     32\n    .sgpr_count: 40\n    .group_segment_fixed_size: 128\n"
    assert read_resources(more, {"shared": "512"}, "", None) == Resources(96, 12, 640, 128, 512, 32, 40)


def test_static_and_dynamic_shared_memory_are_told_apart():
    dump = " Function kern:\n  REG:40 STACK:0 SHARED:1536 LOCAL:0\n"
    found = read_resources(dump, {"name": "kern", "shared": "4096"}, "", SM_90)
    assert (found.static_shared_bytes, found.dynamic_shared_bytes, found.shared_bytes) == (512, 4096, 4608)
    unknown = read_resources(dump, {"name": "kern"}, "", SM_90)
    assert unknown.dynamic_shared_bytes is None


@pytest.mark.parametrize(
    ("resources", "warps", "arch", "step"),
    [
        # 5 programs of 4 warps are 20 warps: 5 on each scheduler, which leaves them 102 registers, in units of 8.
        ((120, 0), 4, "sm_90", (5, 96, 47104 - 1024 - 512, ("registers",))),
        ((32, 99 * 1024), 4, "sm_80", (2, 255, 82 * 1024 - 1024, ("shared-memory",))),
        ((255, 227 * 1024), 4, "sm_90", (2, 255, 113 * 1024, ("shared-memory",))),
        ((255, 227 * 1024), 8, "sm_90", (2, 128, 113 * 1024, ("registers", "shared-memory"))),
    ],
)
def test_the_next_step_of_occupancy_says_what_must_shrink_and_to_what(resources, warps, arch, step):
    registers, shared = resources
    machine = architecture(arch)
    found = occupancy(Resources(registers, 0, shared), warps, machine)
    next_step = found.next_step
    assert (next_step.programs_per_sm, next_step.registers, next_step.shared_bytes, next_step.exceeded) == step
    allowed = Resources(min(registers, step[1]), 0, min(shared, step[2]))
    assert occupancy(allowed, warps, machine).programs_per_sm >= step[0]
    for broken in (Resources(step[1] + 1, 0, 0), Resources(16, 0, step[2] + 1)):
        if broken.registers <= 255:
            assert occupancy(broken, warps, machine).programs_per_sm < step[0]


def test_a_full_sm_has_no_next_step():
    assert occupancy(Resources(32, 0, 0), 4, SM_90).next_step is None
    assert occupancy(Resources(16, 0, 0), 1, SM_90).next_step is None  # 32 programs are the most


def test_waves_count_the_last_partial_one():
    found = waves(programs=1000, programs_per_sm=2, sms=132)
    assert (found.slots, found.full, found.tail_programs, found.busy_sms) == (264, 3, 208, 1.0)
    assert found.waves == pytest.approx(1000 / 264)
    assert found.efficiency == pytest.approx(1000 / (4 * 264))


def test_whole_waves_have_no_tail_and_small_grids_leave_sms_idle():
    assert waves(528, 4, 132).tail_programs == 0
    assert waves(528, 4, 132).efficiency == 1.0
    few = waves(33, 4, 132)
    assert (few.full, few.tail_programs, few.busy_sms) == (0, 33, 0.25)
    assert waves(0, 4, 132) is None


GOLDEN = [
    # arch, kernel, registers, shared bytes, programs per SM, what allows no further one, matrix instructions and FLOPs
    # of each. Matrix instructions: PTX mma m16n8k32 (int8) and m16n8k16 (fp16); CDNA 3 mfma 32x32x16 (int8) and
    # 32x32x8 (fp16), which CDNA 4 has twice as long in k. Of 64x32 results there are two such tiles for four wavefronts:
    # each is computed twice.
    ("sm_86", "uses_helper", 24, 0, 12, "warps", 0, 0),
    ("sm_86", "causal", 63, 16896, 5, "shared-memory", 1088, 4096),
    ("sm_86", "int8_dot", 207, 32768, 2, "registers", 512, 8192),
    ("sm_89", "uses_helper", 24, 0, 12, "warps", 0, 0),
    ("sm_89", "causal", 63, 16896, 5, "shared-memory", 1088, 4096),
    ("sm_89", "int8_dot", 207, 32768, 2, "registers", 512, 8192),
    ("sm_120", "uses_helper", 25, 0, 12, "warps", 0, 0),
    ("sm_120", "causal", 63, 16896, 5, "shared-memory", 1088, 4096),
    ("sm_120", "int8_dot", 208, 32768, 2, "registers", 512, 8192),
    ("gfx942", "uses_helper", 15, 0, 8, "warps", 0, 0),
    ("gfx942", "causal", 78, 8192, 6, "registers", 576, 16384 / 2),
    ("gfx942", "int8_dot", 120, 16384, 4, "registers", 128, 32768),
    ("gfx950", "uses_helper", 15, 0, 8, "warps", 0, 0),
    ("gfx950", "causal", 78, 8192, 6, "registers", 288, 32768 / 2),
    ("gfx950", "int8_dot", 96, 16384, 5, "registers", 64, 65536),
]


@pytest.mark.parametrize("golden", GOLDEN, ids=[f"{arch}-{kernel}" for arch, kernel, *_ in GOLDEN])
def test_facts_of_architectures_that_nobody_here_has(golden):
    arch, kernel, registers, shared, programs, limiter, matrix, flops = golden
    found = compilations(f"samples-3.7.1-{arch}")[kernel]
    assert (found.arch, found.error) == (arch, None)
    assert (found.resources.registers, found.resources.spill_bytes) == (registers, 0)
    assert found.resources.shared_bytes == shared
    assert (found.occupancy.programs_per_sm, found.occupancy.limiter) == (programs, limiter)
    executed = sum((line.executed or {}).get("mma", 0.0) for line in found.instructions.values())
    assert executed == pytest.approx(matrix)
    assert found.tensor_path == ("none" if not matrix else "mma" if arch.startswith("sm_") else "mfma")
    # What the matrix instructions do is what the source asks for.
    # (A pipelined loop's last iteration stands behind it on AMD, and is counted once too often.)
    assert executed * flops == pytest.approx(found.work.total("dot_flops"), rel=0.06)
    assert {access.lane_bytes for access in found.accesses if access.kind != "store"} == {16}
