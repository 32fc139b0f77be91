"""Structural golden results are run in Triton's interpreter: each computes what the text before it computes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

GOLDEN = Path(__file__).parent.parent / "golden" / "structural"

_RUN = """
import importlib.util, json, sys, torch
from tritonforge.worker.interpreter import bfloat16

bfloat16.install()  # Triton's interpreter multiplies the bits of bfloat16

def results(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    made = module.run()
    return made if isinstance(made, tuple) else (made,)

failures = {}
for folder in sys.argv[1:]:
    try:
        for before, after in zip(results(folder + "/before.py"), results(folder + "/after.py"), strict=True):
            assert before.numel() > 0
            torch.testing.assert_close(after, before, rtol=2e-5, atol=2e-5)
    except Exception as error:
        failures[folder] = repr(error)
print(json.dumps(failures))
"""


@pytest.mark.triton
def test_every_structural_result_computes_the_same():
    cases = sorted(p.parent for p in GOLDEN.glob("*/after.py"))
    assert len(cases) >= 6
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(str, cases)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
