"""Ceilings are measured once per target and kept; those of a version that measured less are measured again."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tritonforge.domain.messages import MeasureCeilings
from tritonforge.domain.profile import Ceilings
from tritonforge.domain.target import GpuInfo, Target, WorkerInfo
from tritonforge.jobs.session import Session
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.store import open_store

FOUND = Ceilings("NVIDIA H200", 4300.0, {"fp16": 718.0}, 2.0, l2_gbps=6000.0, read_gbps=4400.0)
GPU = GpuInfo("NVIDIA H200", "sm_90", 132, 1 << 37, "580.0")


class Counting:
    """A worker that measures, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    async def run(self, request, **_):
        assert isinstance(request, MeasureCeilings)
        self.asked += 1
        return FOUND


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def session(worker, *, measures=True):
    described = WorkerInfo(1, "3.12", "", "", "2.11", "3.6", 1, 1, gpus=(GPU,))
    return Session(Target("t"), worker, described, "sm_90", measures)


def test_they_are_measured_once_and_then_read(store):
    worker = Counting()
    first = asyncio.run(ceilings_of(session(worker), store))
    second = asyncio.run(ceilings_of(session(worker), store))
    assert first == second == FOUND
    assert worker.asked == 1


def test_those_of_an_older_version_are_measured_again(store):
    worker = Counting()
    store.put_ceilings("580.0", {"torch": "2.11", "triton": "3.6"}, dataclasses.replace(FOUND, read_gbps=None))
    assert asyncio.run(ceilings_of(session(worker), store)) == FOUND
    assert worker.asked == 1


def test_a_target_without_a_gpu_has_none(store):
    worker = Counting()
    assert asyncio.run(ceilings_of(session(worker, measures=False), store)) is None
    assert worker.asked == 0
