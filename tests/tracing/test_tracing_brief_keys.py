"""Launches that were seen very often are counted by a brief key: what it may miss, and for how long."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tritonforge.domain.trace import read_spool  # noqa: E402

pytestmark = pytest.mark.triton
OFTEN = 200


@pytest.fixture
def kernel(gpu_recorder, fresh_kernels):
    gpu_recorder.hosts.stop()  # a launch of a function that is watched is looked at closely anyway
    return fresh_kernels.add_kernel


def launch(kernel, x, times=1, alpha=1.0, grid=(1,), **options):
    for _ in range(times):
        kernel[grid](x, x, x, x.numel(), 0, alpha, **{"BLOCK": 16, **options})


def counts(recorder, tmp_path):
    assert recorder.on
    spool = read_spool(tmp_path, recorder.spool.name)
    return [spool.kept[one.slot].count for one in spool.launches]


@pytest.mark.parametrize(
    ("tensor", "options"),
    [
        (torch.ones(32, dtype=torch.float64), {}),
        (torch.ones(33), {}),
        (torch.ones(32), {"grid": (2,)}),
        (torch.ones(32), {"BLOCK": 32}),
        (torch.ones(32), {"num_warps": 8}),
    ],
    ids=["dtype", "scalar", "grid", "constexpr", "option"],
)
def test_what_the_gpu_is_told_is_never_missed(gpu_recorder, kernel, tmp_path, tensor, options):
    launch(kernel, torch.ones(32), OFTEN)
    launch(kernel, tensor, **options)
    launch(kernel, torch.ones(32), OFTEN)
    assert sorted(counts(gpu_recorder, tmp_path)) == [1, 2 * OFTEN]


def test_what_only_tensors_tell_is_noticed_within_sixteen_launches_and_from_then_on_at_once(
    gpu_recorder, kernel, tmp_path
):
    flat, wide = torch.ones(32), torch.ones(4, 8)
    launch(kernel, flat, OFTEN)
    for _ in range(32):
        launch(kernel, wide)
    first, other = counts(gpu_recorder, tmp_path)
    assert first + other == OFTEN + 32
    assert 32 - 15 <= other <= 32
    for _ in range(OFTEN):
        launch(kernel, flat)
        launch(kernel, wide)
    assert counts(gpu_recorder, tmp_path) == [first + OFTEN, other + OFTEN]


def test_seldom_launches_are_told_apart_by_all_that_tensors_tell(gpu_recorder, kernel, tmp_path):
    for _ in range(20):
        launch(kernel, torch.ones(32))
        launch(kernel, torch.ones(4, 8))
    assert counts(gpu_recorder, tmp_path) == [20, 20]


def test_a_fork_s_child_counts_in_its_own_files(gpu_recorder, kernel, tmp_path):
    launch(kernel, torch.ones(32), OFTEN)
    parent = gpu_recorder.spool.name
    gpu_recorder.sightings.forked()
    launch(kernel, torch.ones(32), OFTEN)
    assert gpu_recorder.spool.name != parent
    kept = read_spool(tmp_path, gpu_recorder.spool.name).kept
    assert [one.count for one in kept.values()] == [OFTEN]


def test_arguments_that_become_the_same_are_noticed_within_sixteen_launches(gpu_recorder, kernel, tmp_path):
    x, y = torch.ones(32), torch.ones(32)
    for other in (x, y):
        for _ in range(OFTEN):
            kernel[(1,)](x, other, x, 32, 0, 1.0, BLOCK=16)
    first, second = counts(gpu_recorder, tmp_path)
    assert first + second == 2 * OFTEN
    assert OFTEN - 15 <= second <= OFTEN


def test_a_number_that_is_always_new_is_left_out_of_the_keys(gpu_recorder, kernel, tmp_path, launched):
    x = torch.ones(32)
    for seed in range(3 * OFTEN):
        kernel[(1,)](x, x, x, 32, 16 * seed + 16, 1.0, BLOCK=16)
    found = counts(gpu_recorder, tmp_path)
    assert len(found) < 20
    assert sum(found) == 3 * OFTEN == len(launched.given)
    assert max(found) > 2 * OFTEN
