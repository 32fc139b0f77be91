"""The kernels of the sweeps compute what their names say: what is timed is the real work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton
PROGRAM = Path(__file__).with_name("sweeps_interpreted.py")
KERNELS = Path(__file__).parents[2] / "benchmarks" / "sweeps" / "kernels"


def test_every_sweep_kernel_agrees_with_pytorch_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(KERNELS)}
    run = subprocess.run(
        [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    seen = {}
    for line in run.stdout.splitlines():
        name, error, scale, tolerance = line.rsplit(" ", 3)
        seen[name] = float(error), float(scale), float(tolerance)
    assert len(seen) == 30
    wrong = {name: one for name, one in seen.items() if not one[0] <= one[2] * max(one[1], 1e-3)}
    assert not wrong
