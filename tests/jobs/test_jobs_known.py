"""A worker that has said what it is need not be started to say it again, until something has changed."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs.known import KnownTargets
from tritonforge.jobs.lazy import LazyWorker
from tritonforge.store import open_store

INFO = WorkerInfo(PROTOCOL_VERSION, "3.11.7", sys.executable, "linux", "2.13.0", "3.7.1", 2, 1)
HERE = Target("offline", arch="sm_90")


def recalled(known, target=HERE):
    return asyncio.run(known.recall(target))


def test_what_a_worker_said_is_recalled_until_its_devices_or_packages_may_be_others(tmp_path, monkeypatch):
    package = tmp_path / "path" / "triton"
    (package / "_C").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    with open_store(tmp_path) as store:
        known = KnownTargets(store)
        assert recalled(known) is None
        asyncio.run(known.keep(HERE, INFO))
        assert recalled(known) == INFO
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert recalled(known) is None
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        assert recalled(known) == INFO
        (package / "_C" / "libtriton.so").write_text("built anew")
        assert recalled(known) is None


@pytest.mark.parametrize(
    "target", [Target("lab", command=("ssh", "gpu1")), Target("gone", python="/no/such/python", arch="sm_90")]
)
def test_a_target_that_cannot_be_looked_at_is_asked_each_time(tmp_path, target):
    with open_store(tmp_path) as store:
        known = KnownTargets(store)
        asyncio.run(known.keep(target, INFO))
        assert recalled(known, target) is None


def test_a_lazy_worker_starts_once_for_many_jobs_and_not_for_none():
    starts = []

    async def jobs(count):
        async def start():
            starts.append(None)
            await asyncio.sleep(0)

            async def run(request, **_):
                return request

            return SimpleNamespace(run=run)

        worker = LazyWorker(INFO, start)
        assert worker.hello == INFO
        return await asyncio.gather(*(worker.run(number) for number in range(count)))

    asyncio.run(jobs(0))
    assert not starts
    assert asyncio.run(jobs(3)) == [0, 1, 2]
    assert len(starts) == 1


def test_a_lazy_worker_that_does_not_start_says_so_to_whoever_needs_it():
    async def start():
        raise TargetUnreachable("no worker")

    async def job():
        await LazyWorker(INFO, start).run("job")

    with pytest.raises(TargetUnreachable):
        asyncio.run(job())
