"""A table of values by size in the host code: golden files, what is refused, and that every row computes the same.

A case is a folder with `before.py`, `after.py` and `task.json`: what the launch runs with, and for every recorded
launch its sizes and its fastest values. `python tests/rewrite/test_rewrite_shape_table.py CASE…` writes `after.py` anew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.shape_table import shape_table

GOLDEN = Path(__file__).parent.parent / "golden" / "tables"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/task.json"))


def launch_of(kernel, number, sizes, runs, *, tensors=(), line=None):
    """A launch with scalars `sizes`, tensors whose shapes are named by them, and what it runs with."""
    named = {name: Tensor(tuple(sizes[axis] for axis in shape), (1,) * len(shape), "float32", 16)
             for name, shape in dict(tensors).items()}  # fmt: skip
    scalars = {name: Scalar(value) for name, value in sizes.items()}
    options = tuple((n, Scalar(v)) for n, v in runs.items() if n.startswith("num_"))
    tiles = tuple((n, Scalar(v)) for n, v in runs.items() if not n.startswith("num_"))
    site = kernel.launch_sites[0]
    at = CallSite(kernel.file, line or site.range.start.line, site.host or "")
    arguments = tuple({**named, **scalars}.items())
    return Launch(str(number), kernel.file, kernel.name, Problem(arguments), Config(tiles, options, (1, 1, 1)), at)


def table_of(text, wanted):
    kernel = next(k for k in analyze(text, "before.py").kernels if k.name == wanted["kernel"])
    found = [
        (launch_of(kernel, number, sizes, wanted["runs"], tensors=wanted.get("tensors", ())), values)
        for number, (sizes, values) in enumerate(wanted["found"])
    ]
    return shape_table(kernel, {"before.py": text}, found)


def case_of(name):
    return (GOLDEN / name / "before.py").read_bytes().decode(), json.loads((GOLDEN / name / "task.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    text, wanted = case_of(case)
    made = table_of(text, wanted)
    assert isinstance(made, Candidate), made
    after = apply_edits(text, made.edits)
    assert after == (GOLDEN / case / "after.py").read_bytes().decode()
    again = table_of(after, wanted)
    assert isinstance(again, Refusal), "made once, the values stand in several places"


def test_line_ends_stay():
    text, wanted = case_of("local")
    made = table_of(text.replace("\n", "\r\n"), wanted)
    after = apply_edits(text.replace("\n", "\r\n"), made.edits)
    assert after == (GOLDEN / "local" / "after.py").read_text().replace("\n", "\r\n")


def test_the_title_says_which_values_are_for_which_sizes():
    made = table_of(*case_of("default"))
    assert made.title == "values by x.numel() (up to 1024: BLOCK=64; above: BLOCK=256)"
    assert made.rewrites == (("shape-table", (("by", "x.numel()"),)),)


TUNED = "@triton.autotune([triton.Config({'BLOCK': 64})], key=['n'])\n@triton.jit\ndef square"


@pytest.mark.parametrize(
    ("case", "changed", "found", "reason"),
    [
        ("default", (), [[{"n": 9}, {"BLOCK": 64}], [{"n": 99}, {"BLOCK": 64}]], "every launch is fastest with"),
        ("default", (), [[{"n": 9}, {"BLOCK": 64}], [{"n": 9}, {"BLOCK": 128}]], "tells the launches apart"),
        (
            "default",
            (),
            [[{"n": 9 * 4**i}, {"BLOCK": 64 << i % 2}] for i in range(6)],
            "by x.numel(), the fastest values change 5 times",
        ),
        ("default", ("@triton.jit\ndef square", TUNED), None, "square_kernel is autotuned"),
        ("default", ("def square(x):", "def square(x, n):\n    n = 256 if n else 0"), None, ""),
        ("local", ("def add(x, y):", "def add(x, y, BLOCK=1024):", "    BLOCK = 1024\n", ""), None, "who calls"),
        ("constant", ("def run():", "def other():\n    return BLOCK\n\n\ndef run():"), None, ""),
        ("local", ("    BLOCK = 1024\n", "    BLOCK = int(x.max())\n"), None, "BLOCK"),
    ],
)  # fmt: skip
def test_what_is_refused(case, changed, found, reason):
    text, wanted = case_of(case)
    for old, new in zip(changed[::2], changed[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    outcome = table_of(text, {**wanted, "found": found or wanted["found"]})
    if reason:
        assert isinstance(outcome, Refusal), outcome
        assert reason in outcome.reason
    else:
        assert isinstance(outcome, Candidate)


def test_launches_of_two_places_have_no_table_of_one():
    text, wanted = case_of("default")
    (kernel,) = analyze(text, "before.py").kernels
    found = [(launch_of(kernel, n, {"n": 9 << n}, wanted["runs"], line=17 + n), {"BLOCK": 64 << n}) for n in range(2)]
    outcome = shape_table(kernel, {"before.py": text}, found)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "the launches are made in several places."


_RUN = """
import importlib.util, json, sys, torch
from triton.runtime.interpreter import GridExecutor

seen = []
launched = GridExecutor.__call__

def call(self, *arguments, **named):
    seen.append({name: value for name, value in named.items() if isinstance(value, int)})
    return launched(self, *arguments, **named)

GridExecutor.__call__ = call

def results(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    seen.clear()
    return module.run(), list(seen)

out = {}
for folder in sys.argv[1:]:
    (before, _), (after, values) = results(folder + "/before.py"), results(folder + "/after.py")
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(other, one, rtol=2e-5, atol=2e-5)
    out[folder] = values
print(json.dumps(out))
"""


@pytest.mark.triton
def test_every_row_computes_the_same_and_gives_its_launch_the_values_that_were_found():
    pytest.importorskip("triton")
    folders = [str(GOLDEN / case) for case in CASES]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *folders],
        env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout.splitlines()[-1])
    assert len(ran) == len(CASES) > 4
    for folder, launches in ran.items():
        wanted = json.loads((Path(folder) / "task.json").read_text())
        by_size = sorted(wanted["found"], key=lambda one: next(iter(one[0].values())))
        expected = [{"num_warps": 4, **wanted["runs"], **values} for _, values in by_size]
        tuned = {name for _, values in by_size for name in values}
        assert [{name: launch[name] for name in tuned} for launch in launches] == [
            {name: values[name] for name in tuned} for values in expected
        ]


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        before, task = case_of(name)
        outcome = table_of(before, task)
        if isinstance(outcome, Refusal):
            sys.stdout.write(f"{name} refuses: {outcome.reason}\n")
            continue
        (GOLDEN / name / "after.py").write_bytes(apply_edits(before, outcome.edits).encode())
        sys.stdout.write(f"{name} written\n")
