"""Compiling the launches of a call for architectures that this machine does not have."""

import dataclasses

import pytest

from tritonforge.domain.launch import Call, KernelLaunch, Scalar, Tensor
from tritonforge.domain.messages import Compile, Record
from tritonforge.worker.failures import JobFailed

pytestmark = pytest.mark.triton

N = 4096


def tensor(*shape, dtype="float32", **kwargs):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype, **kwargs)


def matmul_call():
    a = tensor(N, N, dtype="float16")
    return Call("c", "examples/matmul.py", "matmul", (a, a))


@pytest.fixture(scope="module")
def compiled(compile_lane, request):
    from worker_jobs_lane import ROOT

    from tritonforge.domain.messages import Program

    program = Program(str(ROOT), "examples/matmul.py")
    return compile_lane.do(Compile(program, matmul_call(), "sm_90", artefacts=("ttir", "ttgir", "ptx", "sass")))


def test_the_matmul_compiles_for_an_h100_with_all_texts(compiled):
    (launch,) = compiled.launches
    assert launch.error is None
    assert "tt.dot" in launch.artefacts["ttir"]
    assert ".version" in launch.artefacts["ptx"]
    assert "REG:" in launch.artefacts["resources"]
    assert launch.metadata["num_warps"] == "4"
    assert int(launch.metadata["shared"]) > 0
    assert launch.compile_ms > 0


def test_sass_names_the_real_file_and_line(compiled):
    from worker_jobs_lane import ROOT

    assert f'File "{ROOT}/examples/matmul.py", line 33' in compiled.launches[0].artefacts["sass"]


def test_arguments_are_specialised_as_triton_would(compiled):
    ttir = compiled.launches[0].artefacts["ttir"]
    signature = ttir[ttir.index("tt.func") : ttir.index("attributes {noinline")]
    # Pointers and sizes are multiples of 16; strides of 1 are constants and no parameters at all.
    assert signature.count("tt.divisibility = 16") == 9
    assert "stride_ak" not in signature


def test_the_matmul_compiles_for_an_mi300(compile_lane, example):
    (launch,) = compile_lane.do(Compile(example("matmul"), matmul_call(), "gfx942")).launches
    assert launch.error is None
    assert launch.metadata["warp_size"] == "64"
    assert "vgpr" in launch.artefacts["resources"]


def test_a_candidate_in_an_overlay_compiles_from_its_own_text(compile_lane, example):
    candidate = example(
        "matmul",
        ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 64), triton.cdiv(N, 64)"),
        ("BLOCK_M=32, BLOCK_N=32", "BLOCK_M=64, BLOCK_N=64"),
    )
    (launch,) = compile_lane.do(Compile(candidate, matmul_call(), "sm_90", artefacts=())).launches
    assert launch.launch.grid == (64, 64, 1)
    assert dict(launch.launch.constexprs)["BLOCK_M"] == Scalar(64)
    assert set(launch.artefacts) == {"resources"}


def test_a_kernel_that_does_not_compile_says_where(compile_lane, example):
    broken = example("matmul", ("tl.dot(a, b)", "tl.dot(a, offs_m)"))
    (launch,) = compile_lane.do(Compile(broken, matmul_call(), "sm_90")).launches
    assert launch.error is not None
    assert "line 33" in launch.error
    assert not launch.artefacts


def test_too_much_shared_memory_is_an_error_of_that_launch(compile_lane, example):
    huge = example(
        "matmul",
        ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 256), triton.cdiv(N, 256)"),
        ("BLOCK_M=32, BLOCK_N=32, BLOCK_K=32", "BLOCK_M=256, BLOCK_N=256, BLOCK_K=128"),
    )
    (launch,) = compile_lane.do(Compile(huge, matmul_call(), "sm_90", artefacts=())).launches
    assert launch.error is not None
    assert "232448" in launch.error


def test_only_the_kernels_asked_for_are_compiled(compile_lane, program):
    recorded = compile_lane.do(Record(program("kernels.py"), "function", "test_everything"))
    call = next(c for c in recorded.calls if c.function == "times_three")
    assert compile_lane.do(Compile(program("kernels.py"), call, "sm_90", kernels=("other_kernel",))).launches == ()
    (launch,) = compile_lane.do(Compile(program("kernels.py"), call, "sm_90", kernels=("scaled_kernel",))).launches
    assert launch.error is None


def test_every_recorded_call_compiles(compile_lane, program):
    recorded = compile_lane.do(Record(program("kernels.py"), "function", "test_everything"))
    for call in recorded.calls:
        for launch in compile_lane.do(Compile(program("kernels.py"), call, "sm_90", artefacts=())).launches:
            assert launch.error is None, launch.error
            assert launch.launch.constexprs == next(
                r.constexprs for r in call.launches if r.kernel == launch.launch.kernel
            )


def test_liger_rms_norm_compiles_forward_and_backward(compile_lane, program):
    pytest.importorskip("liger_kernel")
    call = Call("c", "liger.py", "test_rms_norm", ())
    launches = compile_lane.do(Compile(program("liger.py"), call, "sm_90", artefacts=())).launches
    assert [launch.error for launch in launches] == [None, None]


def test_a_kernel_without_a_host_function_is_launched_over_its_grid(compile_lane, example):
    call = Call(
        "c",
        "examples/scale_shift.py",
        "scale_shift_kernel",
        (),
        (
            ("x_ptr", tensor(1000)),
            ("y_ptr", tensor(1000)),
            ("out_ptr", tensor(1000)),
            ("scale", Scalar(0.5)),
            ("n_elements", Scalar(1000)),
            ("BLOCK_SIZE", Scalar(128)),
        ),
        kernel_launch=KernelLaunch(("cdiv(n_elements, BLOCK_SIZE)",), (("num_warps", Scalar(2)),)),
    )
    (launch,) = compile_lane.do(Compile(example("scale_shift"), call, "sm_80", artefacts=())).launches
    assert launch.error is None
    assert launch.launch.grid == (8, 1, 1)
    assert launch.metadata["num_warps"] == "2"
    unsafe = dataclasses.replace(call, kernel_launch=KernelLaunch(("__import__('os')",)))
    with pytest.raises(JobFailed, match="not allowed"):
        compile_lane.do(Compile(example("scale_shift"), unsafe, "sm_80", artefacts=()))


def test_an_unknown_architecture_is_refused(compile_lane, example):
    with pytest.raises(JobFailed, match="no architecture"):
        compile_lane.do(Compile(example("matmul"), matmul_call(), "h100"))


def test_a_result_names_the_files_behind_it_but_not_those_whose_text_came_with_it(compile_lane, tmp_path):
    from tritonforge.domain.file_state import file_state
    from tritonforge.domain.messages import Program

    (tmp_path / "sizes.py").write_text("SIZE = 64\n")
    text = (
        "import torch, triton\nimport triton.language as tl\nfrom sizes import SIZE\n\n"
        "@triton.jit\ndef fill(o, B: tl.constexpr):\n    tl.store(o + tl.arange(0, B), 1.0)\n\n"
        "def run(o):\n    fill[(1,)](o, SIZE)\n"
    )
    (tmp_path / "fill.py").write_text(text)
    program = Program(str(tmp_path), "fill.py", (("fill.py", text),))
    result = compile_lane.do(Compile(program, Call("c", "fill.py", "run", (tensor(64),)), "sm_90", artefacts=()))
    sources = dict(result.sources)
    own = {path: state for path, state in sources.items() if path.startswith(str(tmp_path.resolve()))}
    sizes = str((tmp_path / "sizes.py").resolve())
    assert own == {sizes: file_state(sizes)}
    assert any(path.endswith("libtriton.so") or "libtriton." in path for path in sources)


def test_large_tensors_take_no_memory_where_no_host_function_reads_their_values():
    from tritonforge.domain.launch import Distribution
    from tritonforge.worker.compiling import cheap

    arguments = (tensor(1 << 20), tensor(1 << 20, dtype="int32"), tensor(16))
    host = Call("c", "f.py", "run", arguments)
    kinds = [value.values.kind for value in cheap(host).arguments]
    assert kinds == ["uninitialised", Distribution().kind, Distribution().kind]
    direct = dataclasses.replace(host, kernel_launch=KernelLaunch(("1",)))
    assert [value.values.kind for value in cheap(direct).arguments] == ["uninitialised"] * 2 + [Distribution().kind]
