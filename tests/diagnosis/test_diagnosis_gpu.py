"""On a GPU: a profile with whatever counters the machine allows, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
ROOT = Path(__file__).parents[2]


def profiled(kernel: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "profile", kernel, "--target", "local", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "server"), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_stall_samples_reach_the_lines_and_add_up():
    (profile,) = json.loads(profiled("examples/row_softmax.py", "--format", "json"))["profiles"]
    assert profile["time_us"]["median"] > 0
    if profile["counters_source"] == "none":
        assert profile["lines"] == {}
        assert any("counters" in reason or "stall" in reason for reason in profile["missing"])
        pytest.skip(f"this machine gives no counters: {profile['missing']}")
    assert sum(line["share"] for line in profile["lines"].values()) == pytest.approx(1.0, abs=0.01)
    inside = range(profile["kernel"]["line"], profile["kernel"]["end_line"] + 1)
    assert {int(n) for n in profile["lines"]} <= set(inside)
    assert sum(profile["stalls"].values()) == pytest.approx(1.0, abs=0.01)


def test_the_small_tile_is_named_on_one_screen():
    text = profiled("examples/matmul.py::matmul_kernel")
    assert "tile-too-small" in text
    assert "Where the time goes" in text
    assert len(text.splitlines()) <= 50
    assert max(map(len, text.splitlines())) <= 100
