"""The pytest plugin as a team's test-suite uses it: a real run of pytest, offline, with kernels that are right, wrong and worse."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = "tritonforge.pytest_plugin.plugin"
KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def scale(x, block=1024):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


if __name__ == "__main__":
    scale(torch.ones(1000003, device="cuda"))
"""
TESTS = """
import pytest
import torch
import kernels

pytestmark = pytest.mark.tritonforge


def reference(x):
    assert x.is_contiguous()  # the kernel takes no other
    return x + x


def wrong_reference(x):
    assert x.is_contiguous()
    return x + x + 0.01


X = torch.randn(300)


def test_named(kernel_benchmark):
    found = kernel_benchmark("kernels.py::scale_kernel")
    assert not found.measured
    assert found.time_us > 0
    assert found.compiled[0]["registers"] > 0


@pytest.mark.tritonforge(min_effect=0.05)
def test_called(kernel_benchmark):
    kernel_benchmark(kernels.scale, torch.randn(2000003))


def test_right(kernel_verify):
    assert kernel_verify(kernels.scale, reference, X)


def test_wrong(kernel_verify):
    assert kernel_verify(kernels.scale, wrong_reference, X)


def test_nonsense(kernel_verify, kernel_benchmark):
    with pytest.raises(pytest.fail.Exception, match="takes two functions"):
        kernel_verify("kernels.py::k", reference)
    with pytest.raises(pytest.fail.Exception, match="has no single kernel nothing. It defines: scale_kernel"):
        kernel_benchmark("kernels.py::nothing")
    with pytest.raises(pytest.fail.Exception, match="cannot be described"):
        kernel_benchmark(kernels.scale, object())
    with pytest.raises(pytest.fail.Exception, match="is not a function of a file"):
        kernel_benchmark(torch.neg, X)


@pytest.mark.tritonforge(min_effect=3)
def test_effect(kernel_benchmark):
    pass
"""

MARKED = """
import pytest


@pytest.mark.tritonforge
def test_marked(kernel_benchmark):
    raise AssertionError


def test_other():
    pass
"""


def installed():
    return any(point.value == MODULE for point in importlib.metadata.entry_points(group="pytest11"))


def run_pytest(folder, *arguments):
    plugin = [] if installed() else ["-p", MODULE]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *plugin, *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "tritonforge.toml").write_text('default-target = "offline"\n')
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "test_kernels.py").write_text(TESTS)
    return folder


def test_without_the_option_marked_tests_are_skipped_and_nothing_is_started(workspace):
    (workspace / "test_marked.py").write_text(MARKED)
    done = run_pytest(workspace, "test_marked.py")
    (workspace / "test_marked.py").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 skipped, 1 passed" in done.stdout or "1 passed, 1 skipped" in done.stdout
    assert "needs --tritonforge" in done.stdout
    assert not (workspace / ".tritonforge").exists()


@pytest.mark.triton
def test_a_baseline_is_made_and_kernels_are_compared_with_it_and_verified(workspace):
    chosen = ["--tritonforge", "-k", "named or called"]
    made = run_pytest(workspace, *chosen, "--tritonforge-update")
    assert made.returncode == 0, made.stdout + made.stderr
    baseline = json.loads((workspace / ".tritonforge" / "baseline.json").read_text())
    described = [entry["describes"] for entry in baseline["kernels"][0]["entries"]]
    assert sum("[2000003]" in one for one in described) == 1
    assert sum("[1000003]" in one for one in described) == 1

    kernels = workspace / "kernels.py"
    text = kernels.read_text()
    try:
        kernels.write_text(text.replace("block=1024", "block=16"))
        done = run_pytest(workspace, "--tritonforge")
    finally:
        kernels.write_text(text)
    shown = done.stdout
    assert done.returncode == 1, shown + done.stderr
    for name, outcome in {
        "test_named": "FAILED", "test_called": "FAILED", "test_right": "PASSED", "test_wrong": "FAILED", "test_nonsense": "PASSED",
        "test_effect": "ERROR",
    }.items():  # fmt: skip
        assert f"{outcome} test_kernels.py::{name}" in shown, shown
    assert "config.BLOCK 1024 → 16" in shown
    assert "<refused: returned differs at" in shown
    assert "min_effect of the mark tritonforge is a share such as 0.03, not 3." in shown
    assert "Nothing was measured" in " ".join(shown.split())


def test_the_entry_point_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tritonforge": MODULE}


def test_the_plugin_imports_nothing_but_pytest():
    code = f"import pytest, sys; before = set(sys.modules); import {MODULE}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {one for one in done.stdout.split() if one.startswith("tritonforge.")} <= {
        "tritonforge.pytest_plugin",
        MODULE,
    }
