"""Recording: what a program would launch, without a GPU."""

import pytest
from worker_jobs_lane import PROGRAMS

from tritonforge.domain.launch import Distribution, ExactValues, Scalar, Tensor
from tritonforge.domain.messages import Compile, Program, Record
from tritonforge.worker.failures import JobFailed

pytestmark = pytest.mark.triton


def one(calls, function):
    found = [c for c in calls if c.function == function]
    assert len(found) == 1, [c.function for c in calls]
    return found[0]


def test_the_main_block_of_the_example_matmul_is_recorded_at_full_size(compile_lane, example):
    result = compile_lane.do(Record(example("matmul"), "main"))
    call = one(result.calls, "matmul")
    assert call.file == "examples/matmul.py"
    assert [a.shape for a in call.arguments] == [(4096, 4096), (4096, 4096)]
    assert {a.dtype for a in call.arguments} == {"float16"}
    assert call.arguments[0].buffer != call.arguments[1].buffer
    (launch,) = call.launches
    assert (launch.kernel, launch.kernel_line, launch.grid) == ("matmul_kernel", 12, (128, 128, 1))
    assert launch.call_site.function == "matmul"
    assert launch.call_site.line == 49
    assert dict(launch.constexprs)["BLOCK_M"] == Scalar(32)
    assert dict(launch.options)["num_warps"] == Scalar(4)
    assert dict(launch.arguments)["stride_am"] == Scalar(4096)
    assert not result.failures


def test_random_inputs_keep_their_distribution(compile_lane, example):
    call = compile_lane.do(Record(example("matmul"), "main")).calls[0]
    values = call.arguments[0].values
    assert isinstance(values, Distribution)
    assert values.kind == "normal"
    assert abs(values.mean) < 0.02
    assert abs(values.std - 1) < 0.02


def test_a_test_that_checks_results_still_records(compile_lane, example):
    result = compile_lane.do(Record(example("scale_shift"), "function", "test_scale_shift"))
    call = one(result.calls, "scale_shift")
    assert call.arguments[2] == Scalar(0.5)
    assert call.launches[0].grid == (262145, 1, 1)


def test_a_function_that_main_calls_is_recorded_not_main(compile_lane, example):
    result = compile_lane.do(Record(example("row_softmax"), "main"))
    assert [c.function for c in result.calls] == ["row_softmax"]


def test_an_argument_that_equals_its_default_is_left_out_and_any_other_is_kept(compile_lane, program):
    result = compile_lane.do(Record(program("defaults.py"), "main"))
    default, positional, keyword = result.calls
    assert (len(default.arguments), default.keywords) == (1, ())
    assert positional.arguments[1:] == (Scalar(64),)
    assert keyword.keywords == (("scale", Scalar(3.0)),)
    assert [dict(c.launches[0].constexprs)["BLOCK"] for c in result.calls] == [Scalar(128), Scalar(64), Scalar(128)]


def test_tuned_heuristic_and_factory_kernels_are_resolved(compile_lane, program):
    result = compile_lane.do(Record(program("kernels.py"), "function", "test_everything"))
    tuned = one(result.calls, "add_one_tuned")
    assert tuned.count == 3
    assert tuned.launches[0].autotuned
    assert dict(tuned.launches[0].constexprs)["BLOCK"] == Scalar(256)
    assert dict(tuned.launches[0].options)["num_warps"] == Scalar(2)
    assert tuned.launches[0].grid == (4, 1, 1)
    sums = one(result.calls, "row_sums")
    assert dict(sums.launches[0].constexprs)["BLOCK"] == Scalar(128)
    assert sums.launches[0].grid == (4, 1, 1)
    factory = one(result.calls, "times_three")
    assert factory.count == 2
    assert factory.launches[0].kernel == "make_kernel.scaled_kernel"
    assert factory.launches[0].call_site.function == "make_kernel.launch"


def test_index_tensors_keep_their_values_and_aliases_are_seen(compile_lane, program):
    result = compile_lane.do(Record(program("kernels.py"), "function", "test_everything"))
    call = one(result.calls, "scale_in_place")
    x, indices = call.arguments[:2]
    assert isinstance(indices, Tensor)
    assert isinstance(indices.values, ExactValues)
    assert call.arguments[2] == Scalar(3.0)
    assert dict(call.launches[0].arguments)["x_ptr"].buffer == x.buffer


def test_a_launch_in_backward_is_recorded_with_cuda_tensors(compile_lane, program):
    result = compile_lane.do(Record(program("kernels.py"), "function", "test_autograd"))
    assert {c.function for c in result.calls} == {"add_one_tuned", "times_three"}


def test_a_launch_straight_in_a_test_makes_the_test_the_call(compile_lane, program):
    result = compile_lane.do(Record(program("kernels.py"), "function", "test_inline"))
    call = one(result.calls, "test_inline")
    assert call.arguments == ()
    assert call.launches[0].kernel == "tuned_kernel"


def test_calls_before_an_exception_are_kept(compile_lane, program):
    result = compile_lane.do(Record(program("kernels.py"), "function", "test_fails"))
    assert len(result.calls) == 1
    assert any("no more" in reason for _, reason in result.failures)


def test_an_exception_before_any_launch_is_the_users_with_its_line(compile_lane, program):
    with pytest.raises(JobFailed) as caught:
        compile_lane.do(Record(program("kernels.py"), "function", "test_broken"))
    failure = caught.value.failure
    assert failure.kind == "user-error"
    assert failure.message == "ValueError: never launched"
    assert failure.file == "kernels.py"
    text = (PROGRAMS / "kernels.py").read_text().splitlines()
    line = 1 + next(i for i, source in enumerate(text) if "never launched" in source)
    assert failure.line == line
    assert "Traceback" in failure.detail


def test_a_function_that_needs_arguments_says_which(compile_lane, program):
    with pytest.raises(JobFailed, match=r"needs arguments \(x, y\)"):
        compile_lane.do(Record(program("kernels.py"), "function", "needs_arguments"))


def test_a_syntax_error_has_its_line(compile_lane, program):
    broken = Program(program("kernels.py").root, "kernels.py", (("kernels.py", "x = 1\ndef f(:\n"),))
    with pytest.raises(JobFailed) as caught:
        compile_lane.do(Record(broken, "module"))
    assert (caught.value.failure.file, caught.value.failure.line) == ("kernels.py", 2)


def test_relative_imports_and_overlays_of_imported_files_hold(compile_lane, program):
    plain = compile_lane.do(Record(program("package/inner/ops.py"), "function", "test_double"))
    assert dict(plain.calls[0].launches[0].constexprs)["BLOCK_SIZE"] == Scalar(128)
    root = program("package/inner/ops.py").root
    overlaid = Program(root, "package/inner/ops.py", (("package/sizes.py", "BLOCK = 32\n"),))
    result = compile_lane.do(Record(overlaid, "function", "test_double"))
    assert dict(result.calls[0].launches[0].constexprs)["BLOCK_SIZE"] == Scalar(32)
    assert result.calls[0].launches[0].kernel_file == "package/inner/ops.py"


def test_liger_operators_record_forward_and_backward(compile_lane, program):
    pytest.importorskip("liger_kernel")
    result = compile_lane.do(Record(program("liger.py"), "function", "test_all"))
    launches = {c.function: len(c.launches) for c in result.calls}
    assert launches == {"test_rms_norm": 2, "test_swiglu": 2, "test_softmax": 2, "test_layer_norm": 2}
    assert not result.failures


def test_nothing_is_written_beside_the_users_files(compile_lane, tmp_path):
    (tmp_path / "helper.py").write_text("SIZE = 4\n")
    (tmp_path / "kernel.py").write_text("import helper\nimport torch\nx = torch.zeros(helper.SIZE, device='cuda')\n")
    compile_lane.do(Record(Program(str(tmp_path), "kernel.py"), "module"))
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["helper.py", "kernel.py"]


def test_module_level_launches_are_recorded_each_time_and_can_be_repeated(compile_lane, tmp_path):
    text = (
        PROGRAMS / "kernels.py"
    ).read_text() + "\ntest_inline()\ntuned_kernel[(1,)](X := torch.ones(8, device='cuda'), X, 8)\n"
    (tmp_path / "launching.py").write_text(text)
    launching = Program(str(tmp_path), "launching.py")
    for _ in range(2):
        calls = compile_lane.do(Record(launching, "module")).calls
        assert [c.function for c in calls] == ["test_inline", "__module__"]
    assert len(compile_lane.do(Compile(launching, calls[1], "sm_90", artefacts=())).launches) == 2
