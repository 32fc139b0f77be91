"""Ways to have right results by luck that only a real GPU shows."""

import textwrap

import pytest
from worker_jobs_lane import PROGRAMS

from tritonforge.domain.launch import Call, Distribution, Tensor
from tritonforge.domain.messages import CompareOnDevice, Program, Sanitize
from tritonforge.worker.sanitizing import NOT_INSTALLED, find_sanitizer

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
X = Tensor((100_000,), (1,), "float32")
SUM = """
    @triton.jit
    def total(x, y, n, B: tl.constexpr, ATOMIC: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
        if ATOMIC:
            tl.atomic_add(y, part)
        else:
            tl.store(y, tl.load(y) + part)

    def host(x):
        y = torch.zeros(1, device=x.device)
        {body}
        return y
"""
ATOMIC = "total[(triton.cdiv(x.numel(), {block}),)](x, y, x.numel(), B={block}, ATOMIC=True)"
WINDOW = """
    @triton.jit
    def window(x, y, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        here, there = tl.load(x + i, mask=i < n), tl.load(x + i + 1, mask={mask}, other=0.0)
        tl.store(y + i, here + there, mask=i < n)

    def host(x):
        y = torch.empty_like(x)
        window[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
        return y
"""


@pytest.fixture
def compare(compile_lane, written):
    def run(original, candidate, *arguments):
        call = Call("c", "written.py", "host", arguments)
        return compile_lane.do(CompareOnDevice(written(original), written(candidate), (call,)))

    return run


def summed(body):
    return SUM.replace("{body}", body)


def test_sums_by_atomics_pass_beside_an_original_that_has_them(compare):
    result = compare(summed(ATOMIC.replace("{block}", "64")), summed(ATOMIC.replace("{block}", "128")), X)
    assert result.outcomes[0].status == "equal", result.outcomes[0].detail
    assert dict(result.checks)["races"] == "passed"


def test_programs_that_add_to_one_element_without_atomics_are_refused(compare):
    racing = "total[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64, ATOMIC=False)"
    result = compare(summed(ATOMIC.replace("{block}", "64")), summed(racing), X)
    assert result.outcomes[0].status == "different"


def test_a_candidate_whose_results_vary_is_refused_where_the_originals_do_not(compare):
    # Sums of like numbers: in whichever order, they are within the tolerance, and only their last bits tell.
    alike = Tensor((50_000,), (1,), "float32", values=Distribution("uniform", low=1.0, high=2.0))
    one = "total[(1,)](x, y, x.numel(), B=65536, ATOMIC=True, num_warps=16)"
    result = compare(summed(one), summed(ATOMIC.replace("{block}", "1024")), alike)
    assert result.outcomes[0].check == "races", result
    assert "varies from run to run" in result.outcomes[0].detail


def test_a_result_that_depends_on_what_lies_beside_a_buffer_is_refused(compare):
    inside, beyond = WINDOW.replace("{mask}", "i + 1 < n"), WINDOW.replace("{mask}", "i < n")
    result = compare(inside, beyond, X)
    # Beside buffers there are usually bytes that are tiny numbers: added, they change nothing.
    assert result.outcomes[0].check == "memory beside buffers", result


def test_a_library_that_computes_while_a_kernel_is_launched_is_refused(compare):
    result = compare(
        summed(ATOMIC.replace("{block}", "64")),
        summed("y = x.sum().view(1); total[(0 + 1,)](x, torch.zeros_like(y), 64, B=64, ATOMIC=True)"),
        X,
    )
    assert result.outcomes[0].check == "host computation", result
    assert "torch's sum" in result.outcomes[0].detail


def test_tuning_is_no_computation_of_the_host(compile_lane, program):
    plain = program("kernels.py", ('    configs=[triton.Config({"BLOCK": 256}, num_warps=2), ', "    configs=["))
    result = compile_lane.do(
        CompareOnDevice(plain, program("kernels.py"), (Call("t", "kernels.py", "add_one_tuned", (X,)),))
    )
    assert result.outcomes[0].status == "equal", result.outcomes[0].detail
    assert dict(result.checks)["host computation"] == "passed"


def test_the_sanitizer_finds_an_access_beside_a_tensor(compile_lane, written):
    call = Call("c", "written.py", "host", (Tensor((100_000,), (1,), "float32"),))
    clean = compile_lane.do(Sanitize(written(WINDOW.replace("{mask}", "i + 1 < n")), call))
    if find_sanitizer() is None:
        assert clean.skipped == NOT_INSTALLED
        pytest.skip(NOT_INSTALLED)
    assert clean.errors == (), clean
    assert clean.checked == ("memcheck", "racecheck"), clean
    found = compile_lane.do(Sanitize(written(WINDOW.replace("{mask}", "i < n")), call, ("memcheck",)))
    assert any("Invalid __global__ read" in error and "window" in error for error in found.errors), found


def test_the_sanitizer_says_what_a_program_raises(compile_lane):
    from tritonforge.worker.failures import JobFailed

    if find_sanitizer() is None:
        pytest.skip(NOT_INSTALLED)
    broken = textwrap.dedent("def host(x):\n    raise ValueError('no')\n")
    program = Program(str(PROGRAMS), "kernels.py", (("kernels.py", broken),))
    with pytest.raises(JobFailed, match="ValueError"):
        compile_lane.do(Sanitize(program, Call("c", "kernels.py", "host", (X,)), ("memcheck",)))
