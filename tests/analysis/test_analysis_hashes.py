"""Hashes change with the code that runs, with nothing else, and not with the Python that computes them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from analysis_snippets import IMPORTS

from tritonforge.analysis import analyze

ROOT = Path(__file__).parents[2]

SOURCE = (
    IMPORTS
    + '''
SCALE = 2
DERIVED = SCALE * 3
UNUSED = 5

@triton.jit
def helper(v):
    """Say something."""
    return v * SCALE

@triton.jit
def lonely(v):
    return v

@triton.jit
def kernel(x, B: tl.constexpr):
    # a comment
    i = tl.arange(0, B)
    tl.store(x + i, helper(tl.load(x + i)) + DERIVED)

def host(x):
    """Launch it."""
    assert x.ndim == 1, f"{x.shape!r} is {'not' if x else 'really'} flat: {x.ndim:>{4}}"
    kernel[(1,)](x, B=64)
'''
)


def hashes(source):
    (kernel,) = (k for k in analyze(source, "f.py").kernels if k.name == "kernel")
    return kernel.code_hash, kernel.launch_sites[0].site_hash


def test_hashes_are_sixteen_hex_digits():
    assert all(re.fullmatch(r"[0-9a-f]{16}", h) for h in hashes(SOURCE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    # a comment\n", ""),
        ('"""Say something."""', '"""Say something else."""'),
        ('"""Launch it."""', '"""Launch it twice."""'),
        ("tl.arange(0, B)", "tl.arange(0,   B)  # again"),
        ("UNUSED = 5", "UNUSED = 6"),
        ("import torch\n", "import torch\n\n\n# moved down\n"),
        ("def lonely(v):\n    return v", "def lonely(v):\n    return v + 1"),
        ("\n", "\r\n"),
    ],
)
def test_comments_docstrings_layout_and_unrelated_code_do_not_matter(old, new):
    assert old in SOURCE
    assert hashes(SOURCE.replace(old, new)) == hashes(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.load(x + i)) + DERIVED", "tl.load(x + i)) - DERIVED"),
        ("return v * SCALE", "return v + SCALE"),
        ("SCALE = 2", "SCALE = 4"),
        ("DERIVED = SCALE * 3", "DERIVED = SCALE * 5"),
        ("@triton.jit\ndef kernel", "@triton.jit(noinline=True)\ndef kernel"),
        ("B: tl.constexpr", "B: tl.constexpr = 4"),
    ],
)
def test_what_the_kernel_runs_changes_its_code_hash_alone(old, new):
    assert SOURCE.count(old) == 1
    code, site = hashes(SOURCE.replace(old, new))
    assert code != hashes(SOURCE)[0]
    assert site == hashes(SOURCE)[1]


@pytest.mark.parametrize(
    ("old", "new"), [("B=64", "B=32"), ("is {'not'", "was {'not'"), ("{x.shape!r}", "{x.shape!s}")]
)
def test_what_the_host_does_changes_the_site_hash_alone(old, new):
    code, site = hashes(SOURCE.replace(old, new))
    assert code == hashes(SOURCE)[0]
    assert site != hashes(SOURCE)[1]


def test_a_wrapper_in_call_form_is_part_of_the_code():
    call_form = IMPORTS + "def fn(x):\n    tl.store(x, 1)\nk = triton.jit(fn)\n"
    (plain,) = analyze(call_form, "f.py").kernels
    (with_option,) = analyze(call_form.replace("jit(fn)", "jit(debug=True)(fn)"), "f.py").kernels
    assert plain.code_hash != with_option.code_hash


SCRIPT = textwrap.dedent("""
    import json, sys
    from tritonforge.analysis import analyze
    out = []
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            found = analyze(file.read(), "f.py")
        out.append([[k.code_hash, [s.site_hash for s in k.launch_sites]] for k in found.kernels])
    print(json.dumps(out))
""")


@pytest.mark.parametrize("version", ["3.12.1", "3.13.0"])
def test_hashes_are_the_same_on_other_pythons(version, tmp_path):
    python = Path.home() / ".pyenv" / "versions" / version / "bin" / "python"
    if not python.exists():
        pytest.skip(f"Python {version} is not installed here")
    plain = tmp_path / "plain.py"
    plain.write_text(SOURCE, encoding="utf-8")
    paths = [str(plain), *sorted(map(str, (ROOT / "examples").glob("*.py")))]
    command = ["-c", SCRIPT, *paths]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
    there = subprocess.run([str(python), *command], env=environment, capture_output=True, text=True, check=True)
    here = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert all(json.loads(here.stdout))
