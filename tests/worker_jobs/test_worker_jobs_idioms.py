"""Every way to launch is seen: the idioms of `benchmarks/corpora/idioms`, and programs that are hard to follow."""

import re

import pytest
from worker_jobs_lane import ROOT

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, Compile, Program, Record

pytestmark = pytest.mark.triton

IDIOMS = ROOT / "benchmarks" / "corpora" / "idioms"
FAST = (
    "autocast_matmul", "autograd_function", "bare_comma_grid", "cache_decorator", "cuda_graph", "custom_op",
    "dataloader_pinned", "device_scope_and_streams", "entry_wrapper_with_lock", "factory_kernels", "fn_of_autotuner",
    "function_as_constexpr", "generated_source", "host_tensor_descriptor", "kernels_in_dict", "library_impl",
    "list_grid", "method_hosts", "none_arguments", "run_method", "stored_launcher", "threads", "torch_compiled_host",
    "triton_op", "tuple_arguments", "two_kernels_of_one_name", "warmup_first",
)  # fmt: skip


@pytest.mark.parametrize("name", FAST)
def test_the_idiom_is_recorded_with_all_its_kernels(compile_lane, name):
    file = IDIOMS / f"{name}.py"
    expected = int(re.match(r"# kernels: (\d+)", file.read_text())[1])
    result = compile_lane.do(Record(Program(str(IDIOMS), file.name), "main"))
    kernels = {(launch.kernel, launch.kernel_line) for call in result.calls for launch in call.launches}
    assert len(kernels) == expected
    assert not result.failures


@pytest.mark.parametrize(
    "name", ["factory_kernels", "library_impl", "warmup_first", "float_helpers", "persistent_loop"]
)
def test_the_calls_of_the_idiom_compile_and_run_in_the_interpreter(compile_lane, interpret_lane, name):
    program = Program(str(IDIOMS), f"{name}.py")
    for call in compile_lane.do(Record(program, "main")).calls:
        compiled = compile_lane.do(Compile(program, call, "sm_90", artefacts=())).launches
        assert compiled
        assert not [launch.error for launch in compiled if launch.error]
        assert interpret_lane.do(Compare(program, program, (call,))).outcomes[0].status == "equal"


def test_launches_that_depend_on_what_kernels_compute_are_found_and_compiled(compile_lane):
    program = Program(str(IDIOMS), "moe_sorted_by_kernel.py")
    (call,) = compile_lane.do(Record(program, "main")).calls
    assert [launch.kernel for launch in call.launches] == ["count_kernel", "place_kernel", "tile_kernel"]
    compiled = compile_lane.do(Compile(program, call, "sm_90", artefacts=())).launches
    assert {launch.launch.kernel for launch in compiled if not launch.error} == {
        "count_kernel", "place_kernel", "tile_kernel",
    }  # fmt: skip


def test_a_backward_belongs_to_the_function_that_can_repeat_it(compile_lane, written):
    program = written(
        """
        def finish(loss):
            loss.backward()

        def step(x):
            finish(Twice.apply(x).sum())

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return run(x)
            @staticmethod
            def backward(ctx, g):
                y = torch.empty_like(g)
                double[(1,)](g.contiguous(), y, g.numel(), B=64)
                return y

        step(torch.randn(64, device="cuda", requires_grad=True))
        """
    )
    calls = compile_lane.do(Record(program, "main")).calls
    assert {call.function for call in calls} == {"run", "step"}


def test_tensors_larger_than_the_machine_are_recorded_and_compiled(compile_lane, written):
    program = written(
        """
        def scale(x):
            assert x.is_cuda and x.device.type == "cuda"
            return run(x)

        y = scale(torch.randn(100 * 1024, 1024 * 1024, device="cuda", dtype=torch.float16))
        z = scale((y * 2).float()[:, ::2].contiguous())
        print(z.max().item())
        """
    )
    result = compile_lane.do(Record(program, "main"))
    assert not result.failures
    shapes = [call.arguments[0].shape for call in result.calls]
    assert shapes == [(102400, 1048576), (102400, 524288)]
    assert [call.arguments[0].device for call in result.calls] == ["cuda", "cuda"]
    compiled = compile_lane.do(Compile(program, result.calls[0], "sm_90", artefacts=())).launches
    assert [launch.error for launch in compiled] == [None]


def test_reading_all_of_a_tensor_that_holds_nothing_says_so(compile_lane, written):
    program = written("x = torch.ones(1 << 35, device='cuda')\nrun(x)\nx.tolist()")
    result = compile_lane.do(Record(program, "main"))
    assert len(result.calls) == 1
    assert any("does not fit the memory" in why for _, why in result.failures)


def test_an_operator_registered_by_two_versions_of_a_program_is_each_ones_own(interpret_lane, written):
    text = """
        @torch.library.custom_op("worker_jobs_idioms::scaled", mutates_args=(), device_types="cuda")
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return run(x) * 2

        def outer(x):
            return torch.ops.worker_jobs_idioms.scaled(x)
        """
    original, candidate = written(text), written(text.replace("* 2", "* 3"))
    from tritonforge.domain.launch import Tensor

    for seed in (0, 1):
        call = Call("c", original.file, "outer", (Tensor((64,), (1,), "float32"),), seed=seed)
        same = interpret_lane.do(Compare(original, original, (call,))).outcomes[0]
        other = interpret_lane.do(Compare(original, candidate, (call,))).outcomes[0]
        assert (same.status, other.status) == ("equal", "different")


def test_a_masked_row_past_the_end_is_not_taken_for_an_access_outside(interpret_lane, written):
    program = written(
        """
        @triton.jit
        def rows(x, y, T, D: tl.constexpr, BT: tl.constexpr):
            o = tl.arange(0, D)
            for i in range(0, BT):
                m = (o < D) & ((tl.program_id(0) * BT + i.to(tl.int64)) < T)
                tl.store(y + i * D + o, tl.load(x + i * D + o, mask=m, other=0.0), mask=m)

        def copy(x):
            y = torch.empty_like(x)
            rows[(1,)](x, y, x.shape[0], D=32, BT=16)
            return y
        """
    )
    from tritonforge.domain.launch import Tensor

    call = Call("c", program.file, "copy", (Tensor((10, 32), (32, 1), "float32"),))
    assert interpret_lane.do(Compare(program, program, (call,))).outcomes[0].status == "equal"


def test_inline_assembly_is_interpreted(interpret_lane, written):
    program = written(
        """
        @triton.jit
        def asm(x, y, B: tl.constexpr):
            i = tl.arange(0, B)
            text: tl.constexpr = (
                "{ .reg .pred p; setp.gt.f32 p, $1, 0.5; @p mov.f32 $0, $1; @!p mul.f32 $0, $1, 0f40000000; }"
            )
            v = tl.inline_asm_elementwise(text, "=r,r", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1)
            tl.store(y + i, v)

        def selected(x):
            y = torch.empty_like(x)
            asm[(1,)](x, y, B=64)
            return y

        def plain(x):
            run(x)
            return torch.where(x > 0.5, x, x * 2)
        """
    )
    from tritonforge.domain.launch import Tensor
    from tritonforge.domain.messages import Tolerance

    call = Call("c", program.file, "both", (Tensor((64,), (1,), "float32"),))
    text = program.overlays[0][1]
    first = Program(program.root, program.file, ((program.file, text + "\nboth = selected\n"),))
    second = Program(program.root, program.file, ((program.file, text + "\nboth = plain\n"),))
    outcome = interpret_lane.do(Compare(second, first, (call,), Tolerance())).outcomes[0]
    assert outcome.status == "equal", outcome.detail


def test_a_changed_program_compiles_its_own_launches_and_none_of_the_recorded_ones(compile_lane, example):
    program = example("matmul")
    (call,) = compile_lane.do(Record(program, "main")).calls
    changed = example("matmul", ("triton.cdiv(M, 32)", "triton.cdiv(M, 64)"), ("32, BLOCK_K=32", "32, BLOCK_K=64"))
    compiled = compile_lane.do(Compile(changed, call, "sm_90", artefacts=())).launches
    assert len(compiled) == 1
    assert compiled[0].launch.grid != call.launches[0].grid
