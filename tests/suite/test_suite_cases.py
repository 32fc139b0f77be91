"""The kernels of the benchmark suite: all are there, right, beside references that agree, and a wrong one is found."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch in this environment")
pytest.importorskip("triton", reason="needs triton in this environment")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from suite.case import Draw, difference  # noqa: E402
from suite.cases import BY_NAME, PLAIN  # noqa: E402
from suite.loading import PLAIN as FOLDER  # noqa: E402
from suite.loading import load  # noqa: E402
from suite.shipped import SHIPPED  # noqa: E402
from suite.workspace import DRIVERS  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.triton

FAMILIES = {
    "elementwise", "softmax", "layer norm", "RMS norm", "cross entropy", "reduction", "transpose", "matmul",
    "fused linear", "attention", "decode attention", "rotary", "embedding", "scan", "recurrence", "top-k", "histogram",
    "quantise", "dequantise", "dropout", "convolution", "gather-scatter", "MoE", "state-space scan",
}  # fmt: skip


def check(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "suite" / "check.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def test_every_plain_kernel_and_every_reference_that_runs_here_is_right():
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(PLAIN)} of {len(PLAIN)} are right" in done.stdout


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("softmax", 'other=-float("inf")', "other=0.0"),
        ("rms_norm_backward", "(wdy - xhat *", "(wdy + xhat *"),
    ],
)
def test_a_version_that_computes_something_else_is_found(tmp_path, name, before, after):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert before in text
    changed = tmp_path / f"{name}.py"
    changed.write_text(text.replace(before, after), encoding="utf-8")
    done = check("--file", changed, name)
    assert done.returncode == 1
    assert "wrong" in done.stdout


def test_every_family_of_the_issue_has_a_case_and_every_file_belongs_to_one():
    assert {case.family for case in PLAIN} == FAMILIES
    assert len(PLAIN) >= 30
    assert {path.stem for path in FOLDER.glob("*.py")} == set(BY_NAME)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_a_plain_file_defines_what_its_case_names_and_calls_it_when_run(case):
    tree = ast.parse((FOLDER / f"{case.name}.py").read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {case.function, *case.kernels} <= defined
    main = tree.body[-1]
    assert isinstance(main, ast.If)
    called = {node.func.id for node in ast.walk(main) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert case.function in called


def described(arguments):
    """Describe arguments: a tensor by its type, its elements and its last extent, as leading ones are often merged."""
    return [
        (str(one.dtype), one.numel(), one.shape[-1] if one.ndim else 1) if isinstance(one, torch.Tensor) else one
        for one in arguments
    ]


FOLLOW_FROM_VALUES = {"matmul_grouped", "moe"}
"""Their arguments' shapes follow from drawn values, which tensors without any cannot tell."""


@pytest.mark.parametrize(
    "case", [one for one in PLAIN if one.name not in FOLLOW_FROM_VALUES], ids=lambda case: case.name
)
def test_a_plain_file_makes_the_calls_that_its_case_is_measured_on(case):
    made = []
    module = load(FOLDER / f"{case.name}.py")
    main = ast.parse((FOLDER / f"{case.name}.py").read_text(encoding="utf-8")).body[-1]
    text = ast.unparse(ast.Module(main.body, [])).replace("'cuda'", "'cpu'")
    with FakeTensorMode(allow_non_fake_inputs=True):
        exec(text, {**vars(module), case.function: lambda *arguments: made.append(described(arguments))})
        assert made == [described(case.make(sizes, Draw("cpu"))) for sizes in case.full]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_the_work_of_a_case_follows_from_its_sizes_and_has_something_to_compare_with(case):
    for sizes in (*case.full, *case.small):
        moved, flops = case.work(sizes)
        assert moved > 0
        assert flops >= 0
    assert case.timed or case.compiled or case.others


def test_a_matmul_moves_its_three_matrices_once():
    moved, flops = BY_NAME["matmul_square"].work({"M": 2, "N": 3, "K": 5})
    assert (moved, flops) == (2 * (10 + 15 + 6), 2 * 2 * 3 * 5)


def test_half_of_attention_s_backward_work_is_saved_by_a_causal_mask():
    sizes = {"B": 1, "H": 2, "T": 8, "D": 4}
    case = BY_NAME["attention_backward"]
    assert case.work({**sizes, "CAUSAL": 1})[1] * 2 == case.work({**sizes, "CAUSAL": 0})[1]


def test_25_shipped_kernels_are_named_with_a_reason_and_a_driver_each():
    assert len({one.name for one in SHIPPED}) == 25
    assert {one.package for one in SHIPPED} == {"liger_kernel", "fla"}
    assert all(one.why and (DRIVERS / f"{one.driver}.py").is_file() for one in SHIPPED)
    assert {path.stem for path in DRIVERS.glob("*.py")} == {one.driver for one in SHIPPED}


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one.name)
def test_a_shipped_kernel_is_where_the_list_says(one):
    spec = importlib.util.find_spec(one.package)
    if spec is None:
        pytest.skip(f"{one.package} is not installed")
    (folder,) = spec.submodule_search_locations
    text = (Path(folder).parent / one.file).read_text(encoding="utf-8")
    assert f"def {one.kernel}(" in text


@pytest.mark.parametrize(
    ("got", "want", "good"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.001], [1.0, 2.0], False),
        ([1.0, float("nan")], [1.0, 2.0], False),
        ([1.0, float("inf")], [1.0, 2.0], False),
        ([1.0], [1.0, 2.0], False),
        ([0.0, 0.0], [0.0, 0.0], True),
    ],
)
def test_what_counts_as_different(got, want, good):
    assert difference(torch.tensor(got), torch.tensor(want))[1] is good


def test_integers_have_to_be_equal():
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)) == (0.0, True)
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])) == (0.5, False)
