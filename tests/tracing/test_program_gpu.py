"""`profile -- COMMAND` on a GPU: what CUPTI counts, what happens to programs that profile themselves, die or fork."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("triton", reason="needs triton")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)
pytestmark = pytest.mark.gpu

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "json" / "program.schema.json").read_text())

KERNELS = """\
import triton, triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def tiny(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""

BEGIN = """\
import os, signal, sys
import torch
from kernels import scale, tiny
n = 1 << 24
x = torch.randn(n, device="cuda"); y = torch.empty_like(x)
def go(times):
    for _ in range(times):
        scale[(n // 1024,)](x, y, n, BLOCK=1024)
        tiny[(16,)](x, 1 << 14, BLOCK=1024)
        torch.softmax(x.view(4096, 4096), 1)
    torch.cuda.synchronize()
"""


def run(tmp_path, text: str, code: int = 0, begin: str = BEGIN) -> dict:
    """Profile a program, and return its report."""
    (tmp_path / "tritonforge.toml").write_text("")
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "train.py").write_text(begin + text)
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "profile", "-o", "report.json", "--", sys.executable, "train.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    return {**report["program"], "missing": report["missing"], "stdout": done.stdout}


def test_every_kernel_is_counted_and_ranked_with_class_and_headroom(tmp_path):
    report = run(tmp_path, "go(50)\nprint('done')\n")
    assert report["stdout"] == "done\n"
    assert report["clock"] == "cupti"
    first, second = report["kernels"]
    assert (first["name"], first["count"], second["name"], second["count"]) == ("scale", 50, "tiny", 50)
    assert report["triton_share"] + report["other_share"] == pytest.approx(1.0)
    assert 0.2 < first["share"] < 0.8
    assert 1.0 <= first["headroom"] < 2.0  # a copy kernel runs near its roofline
    assert first["bottleneck"]["class"] in {"at-roofline", "dram-bandwidth"}
    assert any("oft" in row["name"] and row["count"] == 50 for row in report["other"])


def test_a_program_that_leaves_with_os_exit_is_counted_whole(tmp_path):
    report = run(tmp_path, "go(20)\nos._exit(7)\n", code=7)
    assert (report["clock"], report["kernels"][0]["count"]) == ("cupti", 20)


def test_a_killed_program_is_ranked_by_its_samples(tmp_path):
    report = run(tmp_path, "go(60)\nos.kill(os.getpid(), signal.SIGKILL)\n", code=137)
    assert report["clock"] == "sampled"
    assert report["triton_share"] is None
    assert [row["name"] for row in report["kernels"]] == ["scale", "tiny"]
    assert any("killed" in sentence for sentence in report["missing"])


def test_a_program_under_torch_s_profiler_sees_its_own_kernels(tmp_path):
    own = """
go(30)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
    go(5)
print({row.key: row.count for row in p.key_averages()}.get("scale"))
"""
    report = run(tmp_path, own)
    assert report["stdout"] == "5\n"
    assert report["clock"] == "sampled"
    assert any("torch.profiler" in sentence for sentence in report["missing"])


def test_a_program_that_starts_proton_gets_its_own_file(tmp_path):
    own = """
import triton.profiler as proton
go(30)
proton.start("mine", backend="cupti"); go(5); proton.finalize()
print("scale" in open("mine.hatchet").read())
"""
    report = run(tmp_path, own)
    assert report["stdout"] == "True\n"
    assert report["clock"] == "sampled"
    assert any("Proton" in sentence for sentence in report["missing"])


def test_replays_of_a_graph_are_counted(tmp_path):
    graph = """
go(3)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    scale[(n // 1024,)](x, y, n, BLOCK=1024)
for _ in range(40):
    graph.replay()
torch.cuda.synchronize()
"""
    report = run(tmp_path, graph)
    rows = {row["name"]: row for row in report["kernels"]}
    assert rows["scale"]["count"] == 43
    assert rows["tiny"]["count"] == 3


def test_processes_are_added_up_and_a_fork_after_cuda_does_no_harm(tmp_path):
    spawned = """
import torch.multiprocessing as mp
def child(rank):
    go(10)
if __name__ == "__main__":
    go(10)
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    mp.spawn(child, nprocs=2)
"""
    report = run(tmp_path, spawned)
    assert report["processes"] == 3
    assert report["kernels"][0]["count"] == 30
    assert report["clock"] == "cupti"


def test_a_process_that_touches_no_gpu_does_not_initialise_it(tmp_path):
    report = run(tmp_path, "import torch, triton\nprint(torch.cuda.is_initialized())\n", begin="")
    assert report["stdout"] == "False\n"
    assert report["processes"] == 0


def test_an_error_on_the_device_keeps_the_program_s_own_end(tmp_path):
    wrong = "go(5)\ntorch.zeros(4, device='cuda')[torch.tensor([99], device='cuda')]\ntorch.cuda.synchronize()\n"
    report = run(tmp_path, wrong, code=1)
    assert [row["name"] for row in report["kernels"]][:1] == ["scale"]
