"""The main job from the command line on real kernels: find, compile, diagnose, rewrite, verify, suggest. No GPU needed.

The examples were not tuned for: what is asserted is that a suggestion is verified, applies cleanly and keeps the rest of
the file, not how large a gain is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from tritonforge.store import open_store

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "json"


def tritonforge(*arguments: object, cwd: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tritonforge", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def json_of(done: subprocess.CompletedProcess[str], schema: str, code: int = 0) -> dict:
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((SCHEMAS / f"{schema}.schema.json").read_text()))
    return found


@pytest.fixture
def workspace(fresh_examples):
    """A git repository with the examples, as a user would have them."""
    return fresh_examples()


@pytest.fixture(scope="module")
def searched(fresh_examples, tmp_path_factory):
    """The result of optimising the example scale_shift, and what makes a workspace in which that was done."""
    folder = fresh_examples()
    done = tritonforge("optimize", "scale_shift.py", "--target", "offline", "--format", "json", cwd=folder)
    (result,) = json_of(done, "optimize")["results"]
    kept = shutil.copytree(folder / ".tritonforge", tmp_path_factory.mktemp("kept") / "store")

    def again() -> Path:
        workspace = fresh_examples()
        shutil.copytree(kept, workspace / ".tritonforge")
        return workspace

    return result, again


@pytest.fixture(scope="module")
def matmul(fresh_examples):
    """The result of optimising the example matmul, once for all tests of it."""
    folder = fresh_examples()
    done = tritonforge("optimize", "matmul.py::matmul_kernel", "--target", "offline", "--format", "json", cwd=folder)
    return json_of(done, "optimize")["results"][0]


def test_the_example_matmul_gets_larger_tiles_and_the_grid_that_follows(matmul):
    result = matmul
    assert result["bottlenecks"][0] == "tile-too-small"
    best = result["best"]
    assert best["provenance"] == "predicted"
    assert best["speedup"] > 1.5
    assert best["verdict"]["accepted"]
    source = (ROOT / "examples" / "matmul.py").read_text()
    for edit in sorted(best["edits"], key=lambda e: -e["start"]):
        source = source[: edit["start"]] + edit["text"] + source[edit["end"] :]
    tiles = dict(part.split("=") for part in best["title"].split(", "))
    assert f"triton.cdiv(M, {tiles['BLOCK_M']}), triton.cdiv(N, {tiles['BLOCK_N']})" in source


def test_the_diff_applies_and_leaves_the_rest_of_the_file_as_it_is(matmul, tmp_path):
    result = matmul
    shutil.copy(ROOT / "examples" / "matmul.py", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    before = (tmp_path / "matmul.py").read_text().splitlines()
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=result["best"]["diff"], text=True, check=True)
    after = (tmp_path / "matmul.py").read_text().splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert 0 < len(changed) <= 4
    assert all("32" in a for a, _ in changed)


def test_the_inputs_that_verified_it_include_sizes_off_the_tile(matmul):
    verdict = matmul["best"]["verdict"]
    assert len(verdict["inputs"]) >= 6
    assert verdict["checks"]["off the tile boundary"] == "passed"
    assert verdict["checks"]["special values"] == "passed"


def test_analyze_reports_what_the_compiler_made_of_each_launch(workspace):
    done = tritonforge("analyze", "matmul.py", "--target", "offline", "--format", "json", cwd=workspace)
    (kernel,) = json_of(done, "analyze")["kernels"]
    (launch,) = kernel["launches"]
    assert launch["grid"] == [128, 128, 1]
    assert launch["args"]["a_ptr"] == {"shape": [4096, 4096], "strides": [4096, 1], "dtype": "float16"}
    (compiled,) = kernel["compilations"]
    assert compiled["arch"] == "sm_90"
    assert compiled["registers"] > 16
    assert 0 < compiled["occupancy"] <= 1
    assert compiled["bottleneck"]["class"] == "tile-too-small"
    dot = next(i for i, text in enumerate((workspace / "matmul.py").read_text().splitlines(), 1) if "tl.dot" in text)
    (finding,) = [f for f in kernel["findings"] if f["code"] == "TF203"]
    assert finding["line"] == dot
    assert finding["severity"] == "warning"


def test_analyze_compiles_for_several_architectures(workspace):
    done = tritonforge("analyze", "matmul.py", "--arch", "sm_80", "--arch", "sm_90", "--format", "json", cwd=workspace)
    (kernel,) = json_of(done, "analyze")["kernels"]
    assert [c["arch"] for c in kernel["compilations"]] == ["sm_80", "sm_90"]
    assert all(c["error"] is None for c in kernel["compilations"])


def test_fail_on_turns_a_finding_into_the_exit_code(workspace):
    assert tritonforge("analyze", "matmul.py", "--fail-on", "warning", cwd=workspace).returncode == 1
    assert (
        tritonforge("analyze", "matmul.py", "--fail-on", "warning", "--ignore", "TF203", cwd=workspace).returncode == 0
    )


def test_profile_without_a_gpu_says_that_its_time_is_predicted(workspace):
    done = tritonforge("profile", "matmul.py::matmul_kernel", "--target", "offline", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout
    assert "measured" not in done.stdout.replace("measured on a GPU", "").replace("not measured", "")
    (profile,) = json_of(
        tritonforge("profile", "matmul.py::matmul_kernel", "--target", "offline", "--format", "json", cwd=workspace),
        "profile",
    )["profiles"]
    assert profile["time_us"] is None
    assert profile["missing"]
    with open_store(workspace) as store:
        seen = store.seen()["matmul.py", "matmul_kernel"]  # what an editor's list of kernels shows
    assert (seen.provenance, seen.bottleneck) == ("predicted", profile["bottleneck"]["class"])
    assert seen.time_us > 0


def test_a_tiny_elementwise_block_is_found_and_widened(searched):
    result, _ = searched
    assert result["bottlenecks"][0] == "block-too-small"
    assert result["best"]["speedup"] > 1.5
    assert "BLOCK_SIZE=" in result["best"]["diff"]
    assert result["stopped_because"] in {"the expected gain is below noise", "nothing improved", "enough rounds"}


def test_apply_writes_the_verified_version_and_nothing_else(searched):
    result, again = searched
    workspace = again()
    before = {file.name: file.read_text() for file in workspace.glob("*.py")}
    done = tritonforge("optimize", "scale_shift.py", "--target", "offline", "--apply", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "the answer is that of an earlier run" in " ".join(done.stdout.split())
    after = {file.name: file.read_text() for file in workspace.glob("*.py")}
    assert {name for name in before if before[name] != after[name]} == {"scale_shift.py"}
    (edit, *_) = result["best"]["edits"]
    assert edit["text"] in after["scale_shift.py"]
    again = tritonforge("analyze", "scale_shift.py", "--format", "json", cwd=workspace)
    (kernel,) = json_of(again, "analyze")["kernels"]
    assert kernel["launches"]


def test_diff_prints_nothing_but_a_diff_that_git_applies(searched):
    result, again = searched
    workspace = again()
    done = tritonforge("optimize", "scale_shift.py", "--target", "offline", "--diff", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stdout == result["best"]["diff"], "as it was answered before"
    assert done.stdout.startswith("--- a/scale_shift.py\n+++ b/scale_shift.py\n")
    subprocess.run(["git", "apply", "--check", "-"], cwd=workspace, input=done.stdout, text=True, check=True)


def test_a_liger_operator_is_optimised_on_a_specified_launch(tmp_path):
    liger = pytest.importorskip("liger_kernel", reason="needs the package liger-kernel")
    shutil.copy(Path(liger.__file__).parent / "ops" / "rms_norm.py", tmp_path / "rms_norm.py")
    (tmp_path / "tritonforge.toml").write_text(
        "[[launch]]\n"
        'file = "rms_norm.py"\nfunction = "rms_norm_forward"\n'
        'X = "fp16[2048, 4096]"\nW = "fp16[4096]"\neps = 1e-6\noffset = 0.0\ncasting_mode = "\'llama\'"\nrow_mode = "None"\n'
    )
    arguments = ("--target", "offline", "--no-run", "--format", "json")
    done = tritonforge("optimize", "rms_norm.py::_rms_norm_forward_kernel", *arguments, cwd=tmp_path)
    (result,) = json_of(done, "optimize")["results"]
    (launch,) = result["launches"]
    assert launch["grid"] == [2048, 1, 1]
    assert {trial["title"] for trial in result["trials"]} >= {"num_warps=4", "num_warps=16"}
    assert all("BLOCK_SIZE" not in trial["title"] for trial in result["trials"]), "the block must cover the row"
    if result["best"]:
        assert result["best"]["verdict"]["accepted"]
    other = tritonforge("optimize", "rms_norm.py::_block_rms_norm_forward_kernel", *arguments, cwd=tmp_path)
    assert other.returncode == 4
    assert "do not launch _block_rms_norm_forward_kernel" in other.stderr


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("offs_k[None, :] < K - k), other=0.0", "offs_k[None, :] <= K - k), other=0.0"), "bounds"),
        (("acc += tl.dot(a, b)", "acc = tl.dot(a, b)"), "results"),
        (
            ("(offs_m[:, None] < M) & (offs_n[None, :] < N))", "(offs_m[:, None] < M - 1) & (offs_n[None, :] < N))"),
            "results",
        ),
    ],
)
def test_a_wrong_candidate_is_refused_with_the_input_and_the_element(workspace, change, reason):
    text = (workspace / "matmul.py").read_text()
    assert change[0] in text
    (workspace / "wrong.py").write_text(text.replace(*change))
    arguments = ("verify", "matmul.py::matmul_kernel", "--candidate", "wrong.py", "--target", "offline")
    verdict = json_of(tritonforge(*arguments, "--format", "json", cwd=workspace), "verify", code=1)["verdict"]
    assert not verdict["accepted"]
    assert "matmul(" in verdict["reason"]
    assert any(name for name, outcome in verdict["checks"].items() if outcome.startswith("failed"))
    assert (
        verdict["checks"]["within bounds" if reason == "bounds" else "results"].startswith("failed")
        or reason == "bounds"
    )
    replayed = tritonforge(*arguments, "--replay", verdict["replay"], "--format", "json", cwd=workspace)
    assert json_of(replayed, "verify", code=1)["verdict"]["reason"] == verdict["reason"]


def test_the_same_kernel_with_other_tiles_and_its_grid_is_accepted(workspace):
    text = (workspace / "matmul.py").read_text()
    (workspace / "other.py").write_text(text.replace("BLOCK_M=32", "BLOCK_M=64").replace("cdiv(M, 32)", "cdiv(M, 64)"))
    done = tritonforge(
        "verify", "matmul.py::matmul_kernel", "--candidate", "other.py", "--target", "offline", cwd=workspace
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_without_its_grid_is_refused(workspace):
    text = (workspace / "matmul.py").read_text()
    (workspace / "other.py").write_text(text.replace("BLOCK_M=32", "BLOCK_M=16"))
    done = tritonforge(
        "verify", "matmul.py::matmul_kernel", "--candidate", "other.py", "--target", "offline", cwd=workspace
    )
    assert done.returncode == 1, done.stdout


def test_ctrl_c_ends_at_once_and_leaves_no_process(workspace):
    marker = f"TRITONFORGE_TEST_{os.getpid()}_{time.monotonic_ns()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tritonforge", "optimize", "matmul.py", "--target", "offline"],
        cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, marker: "1"},
    )  # fmt: skip
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert time.monotonic() - started < 10
    time.sleep(1)
    assert not _alive(marker)


def _alive(marker: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_doctor_uses_what_it_reports(workspace):
    found = json_of(tritonforge("doctor", "--target", "offline", "--format", "json", cwd=workspace), "doctor")
    assert {check["name"] for check in found["checks"]} >= {
        "torch",
        "triton",
        "compile for sm_90",
        "verify in the interpreter",
    }
    assert all(check["ok"] for check in found["checks"])
