"""Jobs on a real GPU."""

import pytest

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import CompareOnDevice, Describe, MeasureCeilings, Time

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def tensor(*shape, dtype="float32"):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype)


MATMUL = Call("m", "examples/matmul.py", "matmul", (tensor(1024, 1024, dtype="float16"),) * 2)
SHIFT = Call("s", "examples/scale_shift.py", "scale_shift", (tensor(1 << 20), tensor(1 << 20), Scalar(0.5)))
TILES = ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 128), triton.cdiv(N, 128)")
BLOCKS = ("BLOCK_M=32, BLOCK_N=32, BLOCK_K=32", "BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8")


def test_bigger_tiles_are_equal_and_faster(compile_lane, example):
    plain, better = example("matmul"), example("matmul", TILES, BLOCKS)
    (outcome,) = compile_lane.do(CompareOnDevice(plain, better, (MATMUL,))).outcomes
    assert outcome.status == "equal", outcome.detail
    result = compile_lane.do(Time((plain, better), MATMUL, samples=20))
    medians = [sorted(p.launches[0].samples)[10] for p in result.programs]
    assert medians[1] < medians[0]


def test_unwritten_results_are_found_on_the_device(compile_lane, example):
    wrong = example("matmul", ("cdiv(M, 32)", "cdiv(M, 64)"))
    (outcome,) = compile_lane.do(CompareOnDevice(example("matmul"), wrong, (MATMUL,))).outcomes
    assert outcome.status == "different"
    assert "never written" in outcome.detail


def test_a_launch_that_changes_its_input_is_restored(compile_lane, program):
    indices = Tensor((64,), (1,), "int32")
    call = Call("i", "kernels.py", "scale_in_place", (tensor(1000), indices), (("factor", Scalar(2.0)),))
    result = compile_lane.do(Time((program("kernels.py"),), call, samples=5))
    (launch,) = result.programs[0].launches
    assert launch.restored
    assert len(launch.samples) == 5


def test_a_tuned_kernel_is_tuned_before_it_is_timed(compile_lane, program):
    call = Call("t", "kernels.py", "add_one_tuned", (tensor(1 << 20),))
    (timed,) = compile_lane.do(Time((program("kernels.py"),), call, samples=5)).programs
    assert timed.error is None
    assert len(timed.launches) == 1
    assert timed.launches[0].launch.autotuned


def test_a_program_that_does_not_run_is_reported_beside_the_others(compile_lane, example):
    broken = example("scale_shift", ("return out", "return missing"))
    result = compile_lane.do(Time((example("scale_shift"), broken), SHIFT, samples=5))
    assert result.programs[0].launches[0].samples
    assert "NameError" in (result.programs[1].error or "")


def test_ceilings_are_plausible(compile_lane):
    ceilings = compile_lane.do(MeasureCeilings())
    assert ceilings.copy_gbps > 100
    assert ceilings.tflops["fp16"] > ceilings.tflops["fp32"] > 1
    assert 0 < ceilings.launch_us < 100


def test_the_worker_names_its_gpu(compile_lane):
    assert compile_lane.do(Describe()).gpus[0].arch.startswith("sm_")
