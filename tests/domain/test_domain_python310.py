"""Domain and worker run in the user's Python, from 3.10 on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import importlib, json, pathlib, sys
root = pathlib.Path(sys.argv[1])
for room in ("domain", "worker"):
    for file in sorted((root / "tritonforge" / room).rglob("*.py")):
        compile(file.read_text(), str(file), "exec")
for file in sorted((root / "tritonforge" / "domain").glob("*.py")):
    importlib.import_module("tritonforge.domain." + file.stem)
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.launch import *
from tritonforge.domain.messages import Compile, Program
call = Call("i", "a.py", "f", (Tensor((2, 3), (3, 1), "float16", values=ExactValues(b"x")), Scalar(None)), (("n", Items("list", (Scalar(1.5),))),))
request = Compile(Program("/w", "a.py"), call, "sm_90")
assert decode(Compile, json.loads(json.dumps(encode(request)))) == request
assert not {"torch", "triton", "numpy", "click"} & set(sys.modules)
import tritonforge.worker.supervisor, tritonforge.worker.handlers
print(sys.version_info[:2])
"""


def _runs(python: str) -> bool:
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def test_domain_and_worker_load_on_python_3_10():
    # pyenv puts a python3.10 on PATH that only says that it is not selected, so each is asked.
    candidates = [shutil.which("python3.10"), *map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python"))]
    python = next((p for p in candidates if p and _runs(p)), None)
    if python is None:
        pytest.skip("there is no Python 3.10 on this machine")
    done = subprocess.run(
        [python, "-c", SCRIPT, str(ROOT / "server")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "server")}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(3, 10)"
