"""`tritonforge verify` from the terminal: a named reference, a recognised one, wrong usage, and a replay."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tritonforge.cli.commands.verify import _naming
from tritonforge.cli.selecting import module_names
from tritonforge.domain.candidate import Verdict

PROGRAM = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, N, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + c, 2.0 * tl.load(x + c, mask=c < N), mask=c < N)


# tritonforge: launch x=fp32[1000]
def double(x):
    o = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), B=64)
    return o


def double_ref(x):
    return x * 2
"""
WRONG = PROGRAM.replace("2.0 * tl.load", "2.001 * tl.load")


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "tritonforge.toml").write_text("")
    (tmp_path / "k.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "same.py").write_text(PROGRAM.replace("B=64", "B=128").replace("(), 64", "(), 128"))
    (tmp_path / "ref.py").write_text("def twice(x):\n    return x + x\n\n\ndef other(x, y):\n    return x\n")
    return tmp_path


def verify(workspace, candidate, *options, code):
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "verify", "k.py::kernel", "--candidate", candidate,
         "--target", "offline", *options],
        cwd=workspace, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replay", "nonsense"), "'nonsense' is no replay id"),
        (("--reference", "ref.py"), "'ref.py' names no function"),
        (("--reference", "gone.py::f"), "gone.py does not exist"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(workspace, options, said):
    assert said in verify(workspace, "same.py", *options, code=2).stderr


def test_a_candidate_that_is_no_python_is_told_with_its_line_before_anything_starts(workspace):
    (workspace / "broken.py").write_text(PROGRAM + "\n\ndef more(:\n")
    line = len(PROGRAM.splitlines()) + 3
    assert f"broken.py:{line}: " in verify(workspace, "broken.py", code=2).stderr


@pytest.mark.triton
def test_a_candidate_without_the_host_function_is_named_itself(workspace):
    (workspace / "bare.py").write_text(PROGRAM.partition("# tritonforge")[0])
    said = "bare.py does not define double, which launches the kernel in k.py. Give the candidate that function, too"
    assert said in verify(workspace, "bare.py", code=2).stderr


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "the candidate cannot be called: pkg/k.py has no double.",
            "the candidate cannot be called: c.py has no double.",
        ),
        ("failed: the candidate raises: pkg/k.py:3: x", "failed: the candidate raises: c.py:3: x"),
        ("the candidate imports other/pkg/k.py", "the candidate imports other/pkg/k.py"),
        ("the original fails: pkg/k.py:3: x", "the original fails: pkg/k.py:3: x"),
    ],
)
def test_what_is_said_of_a_candidate_names_its_own_file(text, named):
    verdict = Verdict(False, text, (), "", "", None, None, {"results": text})
    shown = _naming(verdict, "pkg/k.py", "c.py")
    assert (shown.reason, shown.checks["results"]) == (named, named)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): pass\nclass C:\n    pass\n", {"f", "C"}),
        ("import a.b\nfrom c import d as e\nif x:\n    g = 1\n", {"a", "e", "g"}),
        ("from c import *\n", None),
    ],
)
def test_the_names_that_a_module_binds(text, names):
    assert module_names(text) == (None if names is None else frozenset(names))


@pytest.mark.triton
def test_a_refusal_names_reference_and_element_and_its_command_repeats_it_first(workspace):
    pytest.importorskip("triton")
    done = verify(workspace, "wrong.py", "--reference", "ref.py::twice", "--format", "json", code=1)
    verdict = json.loads(done.stdout)["verdict"]
    assert "the PyTorch reference ref.py::twice" in verdict["oracle"]
    options = ("--reference", "ref.py::twice", "--replay", verdict["replay"])
    again = verify(workspace, "wrong.py", *options, code=1).stdout
    assert "1 input\n" in again
    assert "expected" in again
    assert "allowed" in again
    assert " ".join(f"verify k.py::kernel --candidate wrong.py {' '.join(options)}".split()) in again
    refused = verify(workspace, "same.py", "--reference", "ref.py::other", code=2).stderr
    assert "other cannot be called as double is: nothing is given for its parameter y." in refused
    accepted = verify(workspace, "same.py", "--format", "json", code=0)
    assert "the PyTorch reference k.py::double_ref" in json.loads(accepted.stdout)["verdict"]["oracle"]
