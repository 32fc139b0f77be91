import pytest

from tritonforge.prediction import GPUS, gpu_for


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("sm_80", "NVIDIA A100 80GB"),
        ("sm_89", "NVIDIA L40S"),
        ("sm_90", "NVIDIA H200"),
        ("sm_90a", "NVIDIA H200"),
        ("sm_100", "NVIDIA B200"),
        ("sm_120", "NVIDIA GeForce RTX 5090"),
        ("gfx942", "AMD Instinct MI300X"),
    ],
)
def test_each_architecture_has_a_usual_gpu(arch, name):
    assert gpu_for(arch).name == name


@pytest.mark.parametrize(
    ("asked", "arch", "name"),
    [
        ("H100", "sm_90", "NVIDIA H100"),
        ("NVIDIA H100 80GB HBM3", "sm_90", "NVIDIA H100"),
        ("rtx 4090", "sm_89", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA A100-SXM4-80GB", "sm_80", "NVIDIA A100 80GB"),
        ("MI300X", "gfx942", "AMD Instinct MI300X"),
        ("a card from the future", "sm_90", "NVIDIA H200"),
    ],
)
def test_a_gpu_is_found_by_part_of_its_name(asked, arch, name):
    assert gpu_for(arch, asked).name == name


@pytest.mark.parametrize(
    ("asked", "arch", "name"),
    [
        ("NVIDIA A10", "sm_86", "NVIDIA L40S"),  # no A100
        ("NVIDIA H20", "sm_90", "NVIDIA H200"),
        ("NVIDIA L4", "sm_89", "NVIDIA L40S"),
        ("NVIDIA H100 PCIe", "sm_90", "NVIDIA H100"),
        ("NVIDIA A100-PCIE-40GB", "sm_80", "NVIDIA A100 80GB"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA B300 SXM6 AC", "sm_103", "NVIDIA B200"),
        ("a card from the future", "sm_90", "NVIDIA H200"),
        (None, "sm_86", "NVIDIA L40S"),
    ],
)
def test_a_gpu_that_is_not_known_gets_the_nearest_figures_and_they_say_so(asked, arch, name):
    found = gpu_for(arch, asked)
    assert found.name == name
    assert found.stand_in


def test_a_gpu_that_is_known_stands_in_for_nothing():
    for spec in GPUS.values():
        assert gpu_for(spec.arch, spec.name) == spec
    assert not gpu_for("sm_90a", "NVIDIA H100 80GB HBM3").stand_in
    assert not gpu_for("sm_80").stand_in
    assert gpu_for("", "NVIDIA H100 80GB HBM3").name == "NVIDIA H100"


def test_code_for_another_architecture_is_judged_by_a_gpu_of_that():
    # `analyze --arch sm_80` beside an H200: its column must not show the H200's times.
    assert gpu_for("sm_80", "NVIDIA H200").name == "NVIDIA A100 80GB"


@pytest.mark.parametrize("arch", ["", "sm_42", "gfx1100", "hello"])
def test_an_architecture_that_nobody_knows_has_no_figures_whatever_the_name(arch):
    assert gpu_for(arch) is None
    assert gpu_for(arch, "a card from the future") is None


def test_an_unknown_architecture_has_no_figures():
    assert gpu_for("sm_42") is None
    assert gpu_for("gfx90a") is None


def test_figures_say_that_they_are_public_and_make_sense():
    for spec in GPUS.values():
        ceilings = spec.ceilings
        assert ceilings.provenance == "public"
        assert ceilings.l2_gbps > ceilings.copy_gbps > 500
        assert ceilings.tflops["fp16"] > ceilings.tflops["fp32"] > 10
