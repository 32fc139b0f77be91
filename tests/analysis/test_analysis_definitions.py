"""What a script defines, without what it does."""

from __future__ import annotations

import ast

import pytest

from tritonforge.analysis.definitions import definitions_only

SCRIPT = '''"""A script."""
import sys; print("loud")
import triton
try:
    import extra
except ImportError:
    extra = None
BLOCK = 64
TWICE = BLOCK * 2
model = train()
x = load_data()


@triton.jit
def kernel(x, n: triton.constexpr = TWICE):
    y = x + BLOCK
    return y


class Module:
    size = TWICE


for step in range(10):
    kernel[(1,)](x)
if __name__ == "__main__":
    model.run()
sys.exit(3)
'''


def test_definitions_stay_where_they_are_and_what_runs_is_blank():
    quiet = definitions_only(SCRIPT)
    assert quiet is not None
    before, after = SCRIPT.splitlines(), quiet.splitlines()
    assert len(after) == len(before)
    for line in ("BLOCK = 64", "TWICE = BLOCK * 2", "    y = x + BLOCK", "    size = TWICE", "    extra = None"):
        assert after[before.index(line)] == line
    assert after[1] == "import sys"
    for gone in ("loud", "train()", "load_data()", "model.run()", "sys.exit", "for step"):
        assert gone not in quiet


def test_what_stays_can_be_run():
    quiet = definitions_only(SCRIPT.replace("import triton\n", "").replace("@triton.jit\n", "").replace("triton.", ""))
    assert quiet is not None
    ast.parse(quiet)


@pytest.mark.parametrize(
    "text", ["", "import triton\n\ndef f(): pass\n", '"""Only words."""', "def broken(:\n", "\x00"]
)
def test_a_file_that_does_nothing_stays_as_it_is(text):
    assert definitions_only(text) is None


def test_assignments_that_no_kernel_needs_go():
    quiet = definitions_only("a = expensive()\nb = 1\n@deco\ndef f(a):\n    return a + b\n")
    assert quiet == "\nb = 1\n@deco\ndef f(a):\n    return a + b\n"
