"""Every way to launch on a GPU is counted once, and nothing that the program does is changed by it."""

from __future__ import annotations

import inspect
import traceback

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from triton.runtime.jit import JITFunction  # noqa: E402

from tritonforge.domain.launch import Scalar  # noqa: E402
from tritonforge.domain.trace import read_spool  # noqa: E402

pytestmark = pytest.mark.triton
OFTEN = 60
RUN = JITFunction.run


def recorded(recorder, tmp_path):
    assert recorder.on
    return read_spool(tmp_path, recorder.spool.name)


def counts(recorder, tmp_path):
    spool = recorded(recorder, tmp_path)
    return [(one.launch.grid, spool.kept[one.slot].count) for one in spool.launches if one.slot in spool.kept]


def test_triton_s_own_way_to_a_launch_is_left_as_it_is(gpu_recorder):
    assert JITFunction.run is RUN


def test_all_ways_are_counted(gpu_recorder, fresh_kernels, tmp_path, launched):
    for _ in range(OFTEN):
        fresh_kernels.oddly(torch.ones(40))
    found = counts(gpu_recorder, tmp_path)
    assert found == [((n, 1, 1), OFTEN) for n in (1, 2, 3, 4, 5)]
    assert len(launched.given) == 5 * OFTEN


def test_a_launch_is_described_by_what_the_program_gave(gpu_recorder, fresh_kernels, tmp_path):
    kernel, x = fresh_kernels.add_kernel, torch.arange(20.0)
    kernel[lambda meta: (meta["n"] // 10,)](x, x[4:], x, n=20, seed=3, scale=0.5, BLOCK=16, num_warps=2)
    line = inspect.currentframe().f_lineno - 1
    ((one,), spool) = recorded(gpu_recorder, tmp_path).launches, recorded(gpu_recorder, tmp_path)
    launch = one.launch
    assert (launch.kernel, launch.grid, launch.autotuned) == ("add_kernel", (2, 1, 1), False)
    assert dict(launch.options) == {
        name: Scalar(n) for name, n in (("num_ctas", 1), ("num_stages", 3), ("num_warps", 2))
    }
    assert [name for name, _ in launch.arguments] == ["x_ptr", "y_ptr", "out_ptr", "n", "seed", "scale"]
    assert dict(launch.constexprs) == {"BLOCK": Scalar(16)}
    assert (launch.call_site.line, launch.call_site.function) == (
        line, "test_a_launch_is_described_by_what_the_program_gave",
    )  # fmt: skip
    assert spool.kept[one.slot].count == 1


def test_a_compiled_kernel_is_counted_with_launches_of_its_source(gpu_recorder, fresh_kernels, tmp_path):
    kernel, x = fresh_kernels.add_kernel, torch.ones(32)
    compiled = kernel.warmup(x, x, x, 32, 0, 1.0, BLOCK=16, grid=(1,))
    assert not gpu_recorder.spool.name
    for _ in range(OFTEN):
        compiled[2, 1, 1](x, x, x, 32, 0, 1.0, 16)
        kernel[3, 1, 1](x, x, x, 32, 0, 1.0, BLOCK=16)
    assert counts(gpu_recorder, tmp_path) == [((2, 1, 1), OFTEN), ((3, 1, 1), OFTEN)]


@pytest.mark.parametrize("before", [0, OFTEN], ids=["first", "often"])
def test_a_launch_that_raises_is_not_counted_and_its_error_is_its_own(
    gpu_recorder, fresh_kernels, tmp_path, launched, before
):
    kernel, x = fresh_kernels.add_kernel, torch.ones(32)
    for _ in range(before):
        kernel[(1,)](x, x, x, 32, 0, 1.0, BLOCK=16)
    launched.fails = RuntimeError("too many resources")
    for _ in range(20):
        with pytest.raises(RuntimeError, match="too many") as caught:
            kernel[(1,)](x, x, x, 32, 0, 1.0, BLOCK=16)
        assert caught.value.__context__ is None
        assert "KeyError" not in "".join(traceback.format_exception(caught.value))
    assert counts(gpu_recorder, tmp_path) == ([((1, 1, 1), before)] if before else [])


def test_what_an_autotuner_measures_is_not_counted(gpu_recorder, fresh_kernels, tmp_path, launched):
    for _ in range(OFTEN):
        fresh_kernels.tuned(torch.ones(256))
    (found,) = counts(gpu_recorder, tmp_path)
    assert found[1] == OFTEN
    assert len(launched.given) > OFTEN
    (one,) = recorded(gpu_recorder, tmp_path).launches
    assert one.launch.autotuned
    assert dict(one.launch.constexprs)["EVEN"] == Scalar(value=True)


def test_host_functions_are_told_of_launches(gpu_recorder, fresh_kernels, tmp_path):
    gpu_recorder.hosts.start()
    for n in (10, 10, 50):
        fresh_kernels.add(torch.ones(n))
    gpu_recorder.hosts.stop()
    calls = recorded(gpu_recorder, tmp_path).calls
    assert [(call.function, [one.grid[0] for one in call.launches]) for call in calls] == [("add", [1]), ("add", [2])]


def test_a_program_may_put_something_around_triton_s_run(gpu_recorder, fresh_kernels, tmp_path, monkeypatch):
    x, seen = torch.ones(32), []
    for _ in range(OFTEN):
        fresh_kernels.add_kernel[(1,)](x, x, x, 32, 0, 1.0, BLOCK=16)
    monkeypatch.setattr(JITFunction, "run", lambda self, *args, **kwargs: seen.append(RUN(self, *args, **kwargs)))
    for _ in range(OFTEN):
        fresh_kernels.add_kernel[(1,)](x, x, x, 32, 0, 1.0, BLOCK=16)
    assert len(seen) == OFTEN
    assert counts(gpu_recorder, tmp_path) == [((1, 1, 1), 2 * OFTEN)]


def test_times_are_taken_of_the_first_launches_and_then_seldom(gpu_recorder, fresh_kernels, tmp_path):
    x = torch.ones(32)
    for _ in range(10 * OFTEN):
        fresh_kernels.add_kernel[(1,)](x, x, x, 32, 0, 1.0, BLOCK=16)
    spool = recorded(gpu_recorder, tmp_path)
    (kept,) = spool.kept.values()
    assert 8 <= len(kept.samples) <= 40
    assert set(kept.samples) == {250.0}


def test_where_triton_launches_in_another_way_launches_are_counted_before_it(
    monkeypatch, request, fresh_kernels, tmp_path
):
    monkeypatch.setattr(JITFunction, "run", lambda self, *args, grid, warmup, **kwargs: None)
    recorder = request.getfixturevalue("gpu_recorder")
    for _ in range(OFTEN):
        fresh_kernels.oddly(torch.ones(40))
    assert counts(recorder, tmp_path) == [((n, 1, 1), OFTEN) for n in (1, 2, 3, 4, 5)]


def test_kernels_that_are_loaded_for_torch_s_compiler_keep_their_launchers(gpu_recorder, fresh_kernels, tmp_path):
    x = torch.ones(32)
    compiled = fresh_kernels.add_kernel.warmup(x, x, x, 32, 0, 1.0, BLOCK=16, grid=(1,))
    scope = {"compiled": compiled}
    exec(compile("run = compiled.run", "/site-packages/torch/_inductor/runtime/triton_heuristics.py", "exec"), scope)
    assert type(scope["run"]).__name__ == "_Launcher"
