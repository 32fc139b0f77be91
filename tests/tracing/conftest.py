"""Recording as on a GPU, in process."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def fresh_kernels(launched):
    """Made anew for each test: a kernel that was compiled before keeps the launcher that it had then."""
    spec = importlib.util.spec_from_file_location("freshly_traced_kernels", PROGRAMS / "traced_kernels.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def launched(monkeypatch):
    """What reaches a GPU on which nothing runs."""
    from idle_gpu import idle_gpu

    with idle_gpu(monkeypatch) as launched:
        yield launched


@pytest.fixture
def gpu_recorder(tmp_path, launched):
    """Record launches on their way to that GPU, into `tmp_path`."""
    from tritonforge.domain.trace import TracedProcess
    from tritonforge.worker.fakecuda.patches import Patches
    from tritonforge.worker.tracing import running
    from tritonforge.worker.tracing.clock import Clock
    from tritonforge.worker.tracing.graphs import Graphs
    from tritonforge.worker.tracing.hosts import Hosts
    from tritonforge.worker.tracing.sightings import Sightings
    from tritonforge.worker.tracing.spool import Spooled
    from tritonforge.worker.values import Describing

    spool = Spooled(str(tmp_path), lambda parent: TracedProcess(os.getpid(), (), "gpu", parent=parent))
    hosts = Hosts(spool, str(PROGRAMS), Describing())
    recorder = running.Recorder(spool, Sightings(spool, str(PROGRAMS), hosts, Describing()), hosts)
    patches = Patches()
    running.on_gpu(recorder, Clock(spool), Graphs(spool), patches)
    yield recorder
    patches.restore()
    hosts.stop()
