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


def test_an_unknown_architecture_has_no_figures():
    assert gpu_for("sm_42") is None
    assert gpu_for("gfx90a") is None


def test_figures_say_that_they_are_public_and_make_sense():
    for spec in GPUS.values():
        ceilings = spec.ceilings
        assert ceilings.provenance == "public"
        assert ceilings.l2_gbps > ceilings.copy_gbps > 500
        assert ceilings.tflops["fp16"] > ceilings.tflops["fp32"] > 10
