"""What a fork's child must never destroy: objects of CUDA, which its parent initialised."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch in this environment")

pytestmark = pytest.mark.triton

PROGRAM = """
import os, sys
from collections import deque
from tritonforge.worker.tracing.clock import Clock
from tritonforge.worker.tracing.hosts import Hosts
from tritonforge.worker.values import Describing

parent = os.getpid()

class Event:
    def __del__(self):
        if os.getpid() != parent:
            os.write(1, b"destroyed in the child\\n")

clock = Clock(None)
clock._pending.append((0, 0, Event(), Event()))
clock._free[0] = [(Event(), Event())]
hosts = Hosts(None, "/", Describing())
hosts.watched[1] = Event()
os.register_at_fork(after_in_child=lambda: (clock.forked(), hosts.forked()))
pid = os.fork()
if pid == 0:
    assert not clock._pending and not clock._free and not hosts.watched
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_s_child_destroys_nothing_of_its_parent_s_on_the_gpu():
    server = str(Path(__file__).parents[2] / "server")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": server}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
