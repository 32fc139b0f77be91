"""Launches that were seen very often are counted by a brief key: what it may miss, and for how long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import importlib.util  # noqa: E402

from triton.runtime.jit import JITFunction  # noqa: E402

from tritonforge.domain.trace import TracedProcess, read_spool  # noqa: E402
from tritonforge.worker.fakecuda.patches import Patches  # noqa: E402
from tritonforge.worker.tracing import running  # noqa: E402
from tritonforge.worker.tracing.clock import Clock  # noqa: E402
from tritonforge.worker.tracing.graphs import Graphs  # noqa: E402
from tritonforge.worker.tracing.hosts import Hosts  # noqa: E402
from tritonforge.worker.tracing.sightings import Sightings  # noqa: E402
from tritonforge.worker.tracing.spool import Spooled  # noqa: E402
from tritonforge.worker.values import Describing  # noqa: E402

pytestmark = pytest.mark.triton
PROGRAMS = Path(__file__).parent / "programs"
OFTEN = 200


@pytest.fixture(scope="module")
def kernel():
    spec = importlib.util.spec_from_file_location("briefly_traced_kernels", PROGRAMS / "traced_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add_kernel


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """Record as on a GPU, which launches reach and do nothing on."""
    monkeypatch.setattr(JITFunction, "run", lambda self, *args, grid, warmup, **kwargs: None)
    spool = Spooled(str(tmp_path), lambda parent: TracedProcess(os.getpid(), (), "gpu", parent=parent))
    hosts = Hosts(spool, str(PROGRAMS), Describing())
    recorder = running.Recorder(spool, Sightings(spool, str(PROGRAMS), hosts, Describing()), hosts)
    patches = Patches()
    running.on_gpu(recorder, Clock(spool), Graphs(spool), patches)
    yield recorder
    patches.restore()
    hosts.stop()


def launch(kernel, x, times=1, alpha=1.0, grid=(1,), **options):
    for _ in range(times):
        kernel[grid](x, x, x, x.numel(), 0, alpha, **{"BLOCK": 16, **options})


def counts(recorder, tmp_path):
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
def test_what_the_gpu_is_told_is_never_missed(recorder, kernel, tmp_path, tensor, options):
    launch(kernel, torch.ones(32), OFTEN)
    launch(kernel, tensor, **options)
    launch(kernel, torch.ones(32), OFTEN)
    assert sorted(counts(recorder, tmp_path)) == [1, 2 * OFTEN]


def test_what_only_tensors_tell_is_noticed_within_sixteen_launches_and_from_then_on_at_once(recorder, kernel, tmp_path):
    flat, wide = torch.ones(32), torch.ones(4, 8)
    launch(kernel, flat, OFTEN)
    for _ in range(32):
        launch(kernel, wide)
    first, other = counts(recorder, tmp_path)
    assert first + other == OFTEN + 32
    assert 32 - 15 <= other <= 32
    for _ in range(OFTEN):
        launch(kernel, flat)
        launch(kernel, wide)
    assert counts(recorder, tmp_path) == [first + OFTEN, other + OFTEN]


def test_seldom_launches_are_told_apart_by_all_that_tensors_tell(recorder, kernel, tmp_path):
    for _ in range(20):
        launch(kernel, torch.ones(32))
        launch(kernel, torch.ones(4, 8))
    assert counts(recorder, tmp_path) == [20, 20]


def test_a_fork_s_child_counts_in_its_own_files(recorder, kernel, tmp_path):
    launch(kernel, torch.ones(32), OFTEN)
    parent = recorder.spool.name
    recorder.sightings.forked()
    launch(kernel, torch.ones(32), OFTEN)
    assert recorder.spool.name != parent
    kept = read_spool(tmp_path, recorder.spool.name).kept
    assert [one.count for one in kept.values()] == [OFTEN]
