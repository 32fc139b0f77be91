"""Counting launches in process: what makes two the same, and that very many take bounded room. Nothing runs on a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import importlib.util  # noqa: E402

from tritonforge.domain.trace import TracedProcess, read_spool  # noqa: E402
from tritonforge.worker.tracing.hosts import Hosts  # noqa: E402
from tritonforge.worker.tracing.running import Recorder  # noqa: E402
from tritonforge.worker.tracing.sightings import MAX_OF_A_KERNEL, Sightings  # noqa: E402
from tritonforge.worker.tracing.spool import Spooled  # noqa: E402
from tritonforge.worker.values import Describing, exact_values  # noqa: E402

pytestmark = pytest.mark.triton
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("traced_kernels", PROGRAMS / "traced_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recorder(tmp_path):
    spool = Spooled(str(tmp_path), lambda parent: TracedProcess(os.getpid(), (), "gpu", parent=parent))
    hosts = Hosts(spool, str(PROGRAMS), Describing())
    yield Recorder(spool, Sightings(spool, str(PROGRAMS), hosts, Describing()), hosts)
    hosts.stop()


def launch(recorder, kernel, x, *rest, grid=(1,), **options):
    recorder.record(kernel, (x, x, x, x.numel(), *rest), {"BLOCK": 16, **options}, grid)


def left(recorder, tmp_path):
    return read_spool(tmp_path, recorder.spool.name)


def test_very_many_launches_take_bounded_room(recorder, kernels, tmp_path):
    kernel = kernels.add_kernel
    sizes = [torch.ones(n) for n in range(1, 401)]
    for i in range(60_000):
        launch(recorder, kernel, sizes[i % 400], i, i / 3)
    assert recorder.on
    spool = left(recorder, tmp_path)
    assert len(spool.launches) == MAX_OF_A_KERNEL
    assert sum(kept.count for kept in spool.kept.values() if kept.count < 50_000) + spool.beyond >= 60_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 << 20
    assert any("only the first" in failure.reason for failure in spool.failures)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: (x[:, ::2], {}),
        lambda x: (x.double(), {}),
        lambda x: (x.reshape(-1)[1:1025].view(32, 32), {}),
        lambda x: (x, {"grid": (2,)}),
        lambda x: (x, {"num_warps": 8}),
        lambda x: (x, {"BLOCK": 32}),
    ],
    ids=["strides", "dtype", "alignment", "grid", "options", "constexprs"],
)
def test_launches_that_differ_are_told_apart(recorder, kernels, tmp_path, other):
    x = torch.ones(33, 32)[:32]
    changed, options = other(torch.ones(33, 32))
    launch(recorder, kernels.add_kernel, x, 0, 1.0)
    launch(recorder, kernels.add_kernel, changed, 0, 1.0, **options)
    launch(recorder, kernels.add_kernel, x, 0, 1.0)
    assert [kept.count for kept in left(recorder, tmp_path).kept.values()] == [2, 1]


def test_arguments_of_any_kind_are_counted_and_none_is_kept_alive(recorder, kernels, tmp_path):
    import weakref

    x = torch.ones(16)
    gone = torch.ones(16)
    watch = weakref.ref(gone)
    for pair in ((x, 3), (gone, 3), (x, 4), None, [1, 2]):
        for _ in range(2):
            recorder.record(kernels.gather_kernel, (x, x, x, pair, None), {"BLOCK": 1}, (1,))
    del pair, gone
    assert recorder.on
    assert watch() is None
    assert [kept.count for kept in left(recorder, tmp_path).kept.values()] == [4, 2, 2, 2]


def test_a_grid_function_counts_with_what_it_closes_over(recorder, kernels, tmp_path):
    x = torch.ones(16)
    for n in (1, 2, 2):
        launch(recorder, kernels.add_kernel, x, 0, 1.0, grid=lambda meta, n=n: (n,))
        launch(recorder, kernels.add_kernel, x, 0, 1.0, grid=_over(n))
    spool = left(recorder, tmp_path)
    counted = [(one.launch.grid[0], spool.kept[one.slot].count) for one in spool.launches]
    assert sorted(counted) == [(1, 1), (1, 1), (2, 2), (2, 2)]


def _over(n):
    return lambda meta: (n,)


def test_values_that_steer_are_read_in_inference_mode_and_under_modes(recorder, kernels, tmp_path):
    with torch.inference_mode(), torch.device("cpu"):
        index = torch.tensor([5, 3, 9], dtype=torch.int32)
        recorder.record(kernels.gather_kernel, (torch.ones(16), index, torch.ones(3), 1, None), {"BLOCK": 1}, (3,))
    spool = left(recorder, tmp_path)
    assert dict(spool.launches[0].launch.arguments)["index_ptr"].values == exact_values(index)
    assert not spool.failures


def test_a_torn_last_record_is_left_out(recorder, kernels, tmp_path):
    launch(recorder, kernels.add_kernel, torch.ones(4), 0, 1.0)
    launch(recorder, kernels.add_kernel, torch.ones(5), 0, 1.0)
    records = tmp_path / f"{recorder.spool.name}.records"
    records.write_bytes(records.read_bytes()[:-20])
    assert len(left(recorder, tmp_path).launches) == 1


def test_records_that_cannot_be_written_end_the_recording_and_nothing_else(recorder, kernels, tmp_path):
    launch(recorder, kernels.add_kernel, torch.ones(4), 0, 1.0)
    recorder.spool._folder = str(tmp_path / "gone")
    launch(recorder, kernels.add_kernel, torch.ones(5), 0, 1.0)
    assert not recorder.on
