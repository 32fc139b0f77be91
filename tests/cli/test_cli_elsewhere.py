"""A kernel that only a test of another file launches: offered, recorded when its file is named, kept, and ranked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tritonforge.cli.running import Progress, open_workspace
from tritonforge.cli.selecting import select
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import CallSite, RecordedLaunch
from tritonforge.workload.launches import to_launch

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

FILES = {
    "pyproject.toml": "",
    "src/pkg/__init__.py": "from .ops import scale\n",
    "src/pkg/kernels.py": """\
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)
""",
    "src/pkg/ops.py": """\
import torch
import triton

from .kernels import scale_kernel


def scale(x):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out
""",
    "tests/test_ops.py": """\
import pytest
import torch

from pkg import scale


@pytest.mark.parametrize("n", [1000])
def test_scale(n):
    scale(torch.randn(n, device="cuda"))
    for _ in range(3):
        scale(torch.randn(256 * n, device="cuda"))
""",
}
KERNEL = "src/pkg/kernels.py::scale_kernel"


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def tritonforge(project, *arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", *arguments], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


def launches(done):
    return {one["launch"]["id"]: one["launch"] for one in json.loads(done.stdout)["profiles"]}


def test_a_kernel_that_a_test_elsewhere_launches_is_offered_recorded_kept_and_pinned(project):
    offline = ("--target", "offline")
    asked = tritonforge(project, "profile", KERNEL, *offline, code=4)
    assert asked.stderr.count("\n") == 1
    assert asked.stderr.startswith(
        "tritonforge: Nothing in this file runs scale_kernel; test_scale of tests/test_ops.py does (it calls scale, which"
        " launches the kernel): record it with tritonforge trace -- python -m pytest tests/test_ops.py::test_scale, or "
    )
    assert not list(project.rglob("*.pyc")), "nothing was run"

    # A test file that is named may be run; what it showed is remembered, and ranked by how often it happens.
    seen = tritonforge(project, "analyze", KERNEL, "tests/test_ops.py", *offline, "--format", "json")
    large, small = sorted(json.loads(seen.stdout)["kernels"][0]["launches"], key=lambda one: one["rank"])
    assert (large["count"], small["count"]) == (3, 1)
    assert large["call_site"] == {"file": "src/pkg/ops.py", "line": 9, "function": "scale"}

    # A comment changes nothing; another launch can be pinned, and stays so.
    ops = project / "src" / "pkg" / "ops.py"
    ops.write_text(ops.read_text().replace("    out =", "    # one buffer\n    out ="))
    profile = ("profile", KERNEL, "--no-run", *offline, "--format", "json")
    pinned = tritonforge(project, *profile, "--launch", small["id"])
    assert pinned.stderr == ""
    assert launches(pinned)[small["id"]]["rank"] == 1
    assert launches(tritonforge(project, *profile))[small["id"]]["rank"] == 1

    # A candidate of the kernel's file is judged through the wrapper, which is edited: old calls are used with a word.
    ops.write_text(ops.read_text().replace("empty_like", "zeros_like"))
    wrong = project / "src" / "pkg" / "wrong.py"
    wrong.write_text((project / "src" / "pkg" / "kernels.py").read_text().replace("2 * tl", "3 * tl"))
    judged = tritonforge(project, "verify", KERNEL, "--candidate", "src/pkg/wrong.py", "--no-run", *offline, code=1)
    assert "scale(fp32[" in judged.stdout
    assert "were recorded earlier, and scale of src/pkg/ops.py changed since" in judged.stderr


def test_a_launch_is_pinned_of_one_kernel_only(project):
    text = FILES["src/pkg/kernels.py"]
    second = text.partition("\n\n\n")[2].replace("scale_kernel", "other_kernel")
    (project / "src/pkg/kernels.py").write_text(f"{text}\n\n{second}")
    done = tritonforge(project, "optimize", "src/pkg/kernels.py", "--launch", "abc", code=2)
    assert "--launch is about one kernel. Name it as PATH::KERNEL." in done.stderr


def test_a_pin_that_names_no_launch_is_refused_and_auto_takes_it_back(project):
    (selected,) = select([str(project / "src/pkg/kernels.py")])
    (kernel,) = selected.kernels
    recorded = RecordedLaunch("src/pkg/kernels.py", kernel.name, 6, (), (), (), (4, 1, 1), CallSite("a.py", 1, "f"))
    known = to_launch(kernel, recorded)
    workspace = open_workspace(project)
    with workspace.store:
        with pytest.raises(UsageError, match=f"scale_kernel has no launch beef. Known: {known.id}."):
            workspace.remember_pin(kernel, "beef", [known])
        workspace.remember_pin(kernel, known.id, [known])
        with Progress() as progress:
            assert known.id in workspace.workload(selected, allow_run=False, progress=progress).pinned(kernel)
            assert not workspace.workload(selected, allow_run=False, progress=progress, pin="auto").pinned(kernel)
            assert not workspace.workload(selected, allow_run=False, progress=progress).pinned(kernel)
