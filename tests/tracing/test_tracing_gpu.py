"""A program traced on a real GPU: it computes what it computes, and times, streams, graphs and tuning are seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
HERE = Path(__file__).parent

PROGRAM = """
import os, sys
import torch
import traced_kernels as k

def ones(n):
    return torch.ones(n, device="cuda")

x = torch.arange(1000., device="cuda")
for _ in range(50):
    assert torch.equal(k.add(x), 2 * x)
assert torch.equal(k.tuned(ones(256)), ones(256))
k.tuned(ones(256))
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(5):
        k.add(ones(31))
side.synchronize()
k.Doubled.apply(ones(25).requires_grad_()).sum().backward()

fixed = ones(333)
k.add(fixed)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    k.add(fixed)
    k.add(fixed)
for _ in range(10):
    graph.replay()
torch.cuda.synchronize()
with torch.inference_mode():
    k.gather(ones(100), torch.tensor([5, 3, 9], device="cuda", dtype=torch.int32))
compiled = k.add_kernel.warmup(x, x, x, 1000, 0, 1.0, BLOCK=64, grid=(16,))
compiled[16, 1, 1](x, x, torch.empty_like(x), 1000, 0, 1.0, 64)
torch.cuda.synchronize()
try:
    k.add_kernel[(1,)](ones(77), ones(77), ones(77), 77, 0, 1.0, BLOCK=48)
except Exception as error:
    print(type(error).__name__, flush=True)
os._exit(9)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("traced")
    shutil.copy(HERE / "programs" / "traced_kernels.py", root)
    (root / "tritonforge.toml").touch()
    (root / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "trace", "-o", "out.json", "--", sys.executable, "program.py"],
        cwd=root, capture_output=True, text=True, timeout=200, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 9, done.stderr
    return json.loads((root / "out.json").read_text()), done


def launches(run, n, kernel="add_kernel"):
    return [o for o in run[0]["launches"] if o["kernel"]["name"] == kernel and o["args"]["x_ptr"]["shape"] == [n]]


def test_launches_are_counted_and_timed(run):
    (one,) = [o for o in launches(run, 1000) if o["config"]["BLOCK"] == 32]
    assert one["count"] == 50
    assert 0.5 < one["time_us"] < 1000


def test_a_side_stream_is_seen_and_timed(run):
    (one,) = launches(run, 31)
    assert (one["count"], one["time_us"] is not None) == (5, True)


def test_what_an_autotuner_measures_is_not_counted(run):
    (one,) = launches(run, 256, "tuned_kernel")
    assert one["count"] == 2


def test_a_backward_in_another_thread_is_seen(run):
    assert sum(one["count"] for one in launches(run, 25)) == 2


def test_replays_of_a_graph_count(run):
    assert sum(one["count"] for one in launches(run, 333)) == 1 + 2 + 20


def test_a_compiled_kernel_that_is_launched_itself_is_seen(run):
    assert sum(one["count"] for one in launches(run, 1000) if one["config"]["BLOCK"] == 64) == 1


def test_values_are_read_in_inference_mode_too(run):
    assert launches(run, 100, "gather_kernel")
    assert not [failure for failure in run[0]["failures"] if "could not be read" in failure["reason"]], run[0][
        "failures"
    ]


def test_a_launch_that_raised_is_not_counted(run):
    assert run[1].stdout.strip()
    assert not launches(run, 77)


def test_host_calls_are_recorded(run):
    functions = {call["function"] for call in run[0]["calls"]}
    assert {"add", "tuned", "gather"} <= functions, run[0]["failures"]
