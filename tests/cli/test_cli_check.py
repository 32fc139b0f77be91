"""`check` as a team uses it, without a GPU: a baseline is made, committed code changes, and CI says what became worse."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tritonforge.cli.main import run
from tritonforge.cli.selecting import select

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A repository with the softmax example and a baseline for two architectures, made once."""
    folder = tmp_path_factory.mktemp("team")
    subprocess.run(["git", "init", "-q", folder], check=True)
    shutil.copy(ROOT / "examples" / "row_softmax.py", folder)
    (folder / "tritonforge.toml").write_text('[targets.amd]\narch = "gfx942"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["check", "row_softmax.py", "--update", "--target", "offline"]) == 0
        assert run(["check", "--update", "--target", "amd"]) == 0
    return folder


@pytest.fixture
def workspace(made, monkeypatch):
    """The same repository with its example and its baseline as they were."""
    shutil.copy(ROOT / "examples" / "row_softmax.py", made)
    baseline = made / ".tritonforge" / "baseline.json"
    text = baseline.read_text()
    monkeypatch.chdir(made)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    yield made
    baseline.write_text(text)


def edit(folder, before, after):
    file = folder / "row_softmax.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def checked(capsys, *arguments):
    code = run(["check", "--target", "offline", "--format", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_unchanged_code_is_ok_on_every_architecture_of_the_baseline_and_says_that_nothing_was_measured(
    workspace, capsys
):
    code, report = checked(capsys)
    assert code == 0
    assert report["compared"] == "compiled"
    assert report["archs"] == ["gfx942", "sm_90"]
    assert {(one["status"], one["arch"]) for one in report["results"]} == {("ok", "sm_90"), ("ok", "gfx942")}
    assert all(one["changes"] == {} for one in report["results"])


def test_a_tile_size_in_the_wrapper_is_seen(workspace, capsys):
    edit(workspace, "block=128", "block=16")
    code, report = checked(capsys, "--no-gate")
    (nvidia,) = [one for one in report["results"] if one["arch"] == "sm_90"]
    assert code == 1
    assert nvidia["status"] == "regressed"
    assert nvidia["changes"]["config.BLOCK"] == [128, 16]
    assert nvidia["provenance"] == "predicted"
    assert nvidia["ratio"] > 1.1


def test_a_kernel_that_computes_something_else_fails_the_gate_and_is_in_the_job_summary(workspace, capsys, monkeypatch):
    edit(workspace, "total += tl.exp(", "total += 2.0 * tl.exp(")
    summary = workspace / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, report = checked(capsys)
    assert code == 1
    assert {one["status"] for one in report["results"]} == {"regressed"}
    assert "does not compute what the recorded version does" in report["results"][0]["reasons"][-1]
    assert "does not compute" in summary.read_text()


def test_a_renamed_variable_is_verified_and_ok(workspace, capsys):
    edit(workspace, "denominator", "norm")
    code, report = checked(capsys)
    assert code == 0
    assert "code_hash" in report["results"][0]["changes"]
    assert report["results"][0]["notes"][0].startswith("verified: as the recorded version on ")


def test_what_does_not_compile_any_more_has_regressed(workspace, capsys):
    edit(workspace, "total += tl.exp(", "total += tl.no_such_function(")
    code, report = checked(capsys, "--no-gate")
    assert code == 1
    assert {one["status"] for one in report["results"]} <= {"regressed", "error"}


def test_an_update_says_what_changed_and_touches_no_other_architecture(workspace, capsys):
    before = json.loads((workspace / ".tritonforge" / "baseline.json").read_text())
    edit(workspace, "block=128", "block=256")
    assert run(["check", "--update", "--target", "offline"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "config.BLOCK 128 → 256" in out
    after = json.loads((workspace / ".tritonforge" / "baseline.json").read_text())
    by_arch = [{e["arch"]: e for e in data["kernels"][0]["entries"]} for data in (before, after)]
    assert by_arch[0]["gfx942"] == by_arch[1]["gfx942"]
    assert by_arch[1]["sm_90"]["config"]["BLOCK"] == 256
    assert run(["check", "--update", "--target", "offline"]) == 0
    assert "baseline.json is as it was." in capsys.readouterr().out


def test_a_kernel_that_is_gone_is_missing_and_fails_only_when_strict(workspace, capsys):
    (workspace / "row_softmax.py").write_text("import triton\n")
    code, report = checked(capsys)
    assert (code, {one["status"] for one in report["results"]}) == (0, {"missing"})
    assert checked(capsys, "--strict")[0] == 1


def test_no_baseline_is_one_sentence_with_the_mend(tmp_path, monkeypatch, capsys):
    (tmp_path / "tritonforge.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) == 2
    assert capsys.readouterr().err == (
        "tritonforge: there is no baseline at .tritonforge/baseline.json. Make one: tritonforge check PATH --update.\n"
    )
    assert run(["check", "--update"]) == 2
    assert "Name files: tritonforge check PATH --update." in capsys.readouterr().err
    assert not (tmp_path / ".tritonforge" / "baseline.json").exists()


@pytest.mark.parametrize("output", ["junit", "sarif", "github", "text"])
def test_every_format_comes_out_of_the_command(workspace, capsys, output):
    assert run(["check", "--target", "offline", "--no-gate", "--format", output]) == 0
    out = capsys.readouterr().out
    assert {"junit": "<testsuite", "sarif": '"version": "2.1.0"', "github": "::notice", "text": "2 ok"}[output] in out


@pytest.mark.parametrize("file", ["../elsewhere.py", "/tmp/elsewhere.py", "a\\u0000b.py"])
def test_a_baseline_that_names_files_of_others_runs_none_of_them(tmp_path, monkeypatch, capsys, file):
    entry = {
        "problem": "p", "describes": "", "gpu": None, "arch": "sm_90", "config": {}, "grid": [1, 1, 1], "time_us": None,
        "compiled": {}, "findings": {}, "code_hash": "", "site_hash": "", "versions": {}, "date": "",
    }  # fmt: skip
    data = {"schema": "tritonforge-baseline/1", "kernels": [{"file": "FILE", "name": "k", "entries": [entry]}]}
    (tmp_path / ".git").mkdir()
    (tmp_path / "baseline.json").write_text(json.dumps(data).replace("FILE", file))
    monkeypatch.chdir(tmp_path)
    assert run(["check", "--baseline", "baseline.json"]) == 2
    assert "baseline.json names a file outside of its workspace" in capsys.readouterr().err


def test_a_file_whose_name_has_two_colons_is_a_file(tmp_path):
    source = "import triton\n\n@triton.jit\ndef kernel(x_ptr):\n    pass\n"
    (tmp_path / "::odd.py").write_text(source)
    (one,) = select([f"{tmp_path}/::odd.py"])
    assert [kernel.name for kernel in one.kernels] == ["kernel"]
