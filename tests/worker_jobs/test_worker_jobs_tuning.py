"""Which of its configurations an autotuner uses: all where that is asked for, few while much is timed, else in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from triton import Config
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import Compile
from tritonforge.worker.interpreter.poison import CANDIDATE, ORIGINAL
from tritonforge.worker.launching import first_configs

pytestmark = pytest.mark.triton

CONFIGS = [Config({"block": block}, num_warps=warps) for block in (32, 64, 128) for warps in (1, 2, 4)]


def body(x, block):
    """Stand for a kernel's function."""


class Kernel:
    """Stands for a jitted kernel: notes what it is launched with, and has no room for some blocks."""

    fn = staticmethod(body)

    def __init__(self, too_large: int = 1 << 20) -> None:
        self.ran: list[tuple[int, int]] = []
        self.too_large = too_large

    def run(self, *_args, block, num_warps, **_options):
        if block >= self.too_large:
            raise OutOfResources(1, 0, "shared memory")
        self.ran.append((block, num_warps))


def tuner(configs=CONFIGS, fastest=(64, 2), kernel=None):
    """Return an autotuner, its kernel, and what it has measured; `fastest` is faster than what is far from it."""
    kernel, measured = kernel or Kernel(), []

    def do_bench(call, quantiles):
        del quantiles
        call()
        block, warps = kernel.ran.pop()
        measured.append((block, warps))
        return [1.0 + abs(block - fastest[0]) + abs(warps - fastest[1])] * 3

    return Autotuner(kernel, ["x", "block"], list(configs), ["x"], None, None, do_bench=do_bench), kernel, measured


@pytest.mark.parametrize(
    ("turn", "wanted"),
    [(0, (32, 1)), (1, (64, 1)), (2, (128, 1)), (3, (32, 2)), (4, (32, 4)), (8, (128, 4)), (9, (32, 1))],
)
def test_configurations_take_turns_and_each_block_size_comes_first(turn, wanted):
    tuned, kernel, measured = tuner()
    with first_configs(turn):
        tuned.run(5, grid=(1,), warmup=False)
    assert kernel.ran == [wanted]
    assert not measured
    assert not tuned.cache, "what the user's program would choose is not known by that"


def test_a_configuration_that_the_device_has_no_room_for_is_passed_over_and_the_last_one_says_why():
    tuned, kernel, _ = tuner(kernel=Kernel(too_large=64))
    with first_configs(1):
        tuned.run(5, grid=(1,), warmup=False)
    assert kernel.ran == [(32, 2)]
    tuned, kernel, _ = tuner(kernel=Kernel(too_large=1))
    with first_configs(1), pytest.raises(OutOfResources):
        tuned.run(5, grid=(1,), warmup=False)


def test_on_a_gpu_the_original_keeps_its_first_configuration_and_a_candidate_may_be_left_to_choose():
    from tritonforge.domain.messages import TUNED
    from tritonforge.worker.on_device import _around, _Turn

    found = {}
    for poison, turn in ((ORIGINAL, 4), (CANDIDATE, 4), (CANDIDATE, TUNED)):
        tuned, kernel, measured = tuner()
        with _around(_Turn(turn), poison):
            tuned.run(5, grid=(1,), warmup=False)
        found[poison is ORIGINAL, turn] = kernel.ran[-1], len(measured)
    assert found == {(True, 4): ((32, 1), 0), (False, 4): ((32, 4), 0), (False, TUNED): ((64, 2), len(CONFIGS))}


def test_while_much_is_timed_a_candidate_chooses_among_its_own_or_else_the_originals_fastest():
    from tritonforge.worker.timing.narrowing import Narrowing

    narrowing = Narrowing()
    original, _, measured = tuner()
    with narrowing.noting():
        original.run(5, grid=(1,), warmup=False)
    assert len(measured) == len(CONFIGS)
    added = [Config({"block": 16}, num_warps=1), Config({"block": 256}, num_warps=8), *CONFIGS]
    for listed, wanted, best in (
        (CONFIGS, [(64, 1), (64, 2), (64, 4)], (64, 4)),
        (added, [(16, 1), (256, 8)], (256, 8)),
    ):
        candidate, kernel, measured = tuner(listed, fastest=(128, 4) if listed is CONFIGS else (256, 8))
        with narrowing.narrowed():
            candidate.run(5, grid=(1,), warmup=False)
            candidate.run(5, grid=(1,), warmup=False)
        assert sorted(measured) == wanted, "and once only"
        assert kernel.ran == [best, best]
        measured.clear()
        candidate.run(5, grid=(1,), warmup=False)
        assert len(measured) == len(listed), "what was chosen among few is not what is chosen in the end"
    measured.clear()
    with narrowing.narrowed():  # what has chosen among all already has no reason to choose among fewer
        original.run(5, grid=(1,), warmup=False)
    assert original.best_config.all_kwargs()["block"] == 64


def test_a_configuration_is_compiled_in_its_turn(compile_lane, program):
    call = Call("t", "kernels.py", "add_one_tuned", (Tensor((4096,), (1,), "float32"),))
    request = Compile(program("kernels.py"), call, "sm_90", artefacts=())
    first, second, again = (compile_lane.do(replace(request, turn=turn)).launches[0] for turn in range(3))
    assert [dict(one.launch.constexprs)["BLOCK"] for one in (first, second)] == [Scalar(256), Scalar(512)]
    assert [one.metadata["num_warps"] for one in (first, second)] == ["2", "8"]
    assert again.launch == first.launch
