"""The golden results are run: every element is still computed, on sizes that no tile divides."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

GOLDEN = Path(__file__).parent.parent / "golden" / "rewrite"

# The interpreter takes no list as grid, has no `run`, and an autotuner wants a GPU to time on.
_NOT_INTERPRETED = {"grid_list", "grid_run_keyword"}

_RUN = """
import importlib.util, json, sys, torch

def check(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    divisible = ("grid_floor/" in path, "followed_by_host_code" in path)  # these say that they need it
    n = 4096 if any(divisible) else 5001
    if hasattr(module, "add"):
        x, y = torch.randn(n), torch.randn(n)
        arguments = (1024,) if "value_caller" in path else ()
        torch.testing.assert_close(module.add(x, y, *arguments), x + y)
    if hasattr(module, "mm"):
        a, b = torch.randn(150, 70), torch.randn(70, 300)
        torch.testing.assert_close(module.mm(a, b), a @ b, rtol=1e-4, atol=1e-4)
    if hasattr(module, "softmax"):
        x = torch.randn(5, 300)
        torch.testing.assert_close(module.softmax(x), x.softmax(1))

failures = {}
for path in sys.argv[1:]:
    try:
        check(path)
    except Exception as error:
        failures[path] = repr(error)
print(json.dumps(failures))
"""


@pytest.mark.triton
def test_every_golden_result_still_computes_the_same():
    cases = [
        p
        for p in sorted(GOLDEN.glob("*/after.py"))
        if p.parent.name not in _NOT_INTERPRETED and not p.parent.name.startswith("autotune_")
    ]
    assert len(cases) > 40
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(str, cases)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
