"""`examples/ci` and the pre-commit hooks, run as their hosts run them, as far as a machine without those hosts can.

Steps that install from the network are left out; everything else runs in a fresh clone, with the host's variables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from junitparser import JUnitXml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ci"
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.triton

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def scale(x, block=1024):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


if __name__ == "__main__":
    scale(torch.ones(1000003, device="cuda"))
"""
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def run(command, folder, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "CI_", "GITLAB_"))}
    environment |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CI": "true", **variables}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=250
    )


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A repository with an example kernel and its committed baseline."""
    folder = tmp_path_factory.mktemp("upstream")
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    (folder / "kernels.py").write_text(KERNEL)
    made = run(["tritonforge", "check", "kernels.py", "--update", "--target", "offline"], folder)
    assert made.returncode == 0, made.stderr
    subprocess.run([*GIT, "add", "-A"], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "-qm", "kernels"], cwd=folder, check=True)
    return folder


@pytest.fixture
def clone(upstream, tmp_path):
    """What a runner checks out: nothing but what is committed."""
    subprocess.run(["git", "clone", "-q", upstream, tmp_path / "clone"], check=True)
    assert sorted(one.name for one in (tmp_path / "clone" / ".tritonforge").iterdir()) == ["baseline.json"]
    return tmp_path / "clone"


def slower(folder):
    file = folder / "kernels.py"
    file.write_text(file.read_text().replace("block=1024", "block=16"))


def workflow():
    return yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())


def github(folder, job, expected):
    """Run the steps of a job as GitHub does (bash -e on each), up to the first that fails; returns their outputs."""
    summary = folder.parent / "summary.md"
    variables = {
        "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder), "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge", **workflow()["env"],
    }  # fmt: skip
    outputs = []
    for step in workflow()["jobs"][job]["steps"]:
        if "run" not in step or step.get("name") == "Install":
            assert "uses" in step or "pip install" in step["run"]
            continue
        done = run(["bash", "-e", "-c", step["run"]], folder, **variables)
        outputs.append(done.stdout)
        if done.returncode:
            break
    assert done.returncode == expected, done.stdout + done.stderr
    return outputs, summary.read_text() if summary.exists() else "", done.stderr


def test_the_github_workflow_fails_on_a_regression_with_an_annotation_at_the_kernel(clone):
    slower(clone)
    outputs, summary, _ = github(clone, "compiled", 1)
    assert json.loads((clone / "findings.sarif").read_text())["version"] == "2.1.0"
    assert "::notice title=Checked without a GPU::" in outputs[1]
    assert outputs[1].startswith("::error file=kernels.py,line=7,title=Performance regression::scale_kernel")
    assert "| ❌ regressed | `kernels.py:" in summary
    assert "`config.BLOCK 1024 → 16`" in summary


def test_the_measuring_jobs_say_what_is_missing_where_there_is_no_gpu(clone):
    _, _, said = github(clone, "measured", 3)
    assert "has no GPU that PyTorch can use" in said


def test_the_github_workflow_is_one():
    document = workflow()
    triggers = document[True]  # `on` is a boolean of YAML 1.1, and GitHub's key
    assert set(triggers) == {"pull_request", "push"}
    assert document["permissions"]["security-events"] == "write"
    for job in document["jobs"].values():
        assert {"runs-on", "steps"} <= job.keys()
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert job["steps"][0]["uses"].startswith("actions/checkout@")


def test_the_gitlab_pipeline_passes_on_unchanged_code_and_writes_a_junit_report(clone):
    pipeline = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())
    job = pipeline["kernels:compiled"]
    assert job["artifacts"]["reports"]["junit"] == "kernels.xml"
    variables = {
        **pipeline["variables"],
        "GITLAB_CI": "true",
        "CI_PROJECT_DIR": str(clone),
        "CI_PIPELINE_SOURCE": "merge_request_event",
    }
    script = ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])]
    done = run(script, clone, **variables)
    assert done.returncode == 0, done.stderr
    (suite,) = JUnitXml.fromstring((clone / "kernels.xml").read_bytes())
    assert (suite.tests, suite.failures, suite.errors) == (1, 0, 0)
    for name, other in pipeline.items():
        if name != "variables":
            assert {"stage", "script", "artifacts", "rules"} <= other.keys()


def test_the_pre_commit_hooks_run_on_changed_files(clone, tmp_path):
    from pre_commit.clientlib import load_manifest

    manifest = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert [hook["id"] for hook in manifest] == ["tritonforge-analyze", "tritonforge-check"]
    hook = {key: manifest[0][key] for key in ("id", "name", "entry", "types", "require_serial")} | {
        "language": "system"
    }
    (clone / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": [hook]}]}))
    (clone / "plain.py").write_text("x = 1\n")
    (clone / "notes.txt").write_text("no Python\n")
    command = ["pre-commit", "run", "--verbose", "--files", "kernels.py", "plain.py", "notes.txt"]
    done = run(command, clone, PRE_COMMIT_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kernel" in done.stdout
    check = manifest[1]["entry"].split()
    slower(clone)
    checked = run([*check, "--no-gate", "kernels.py"], clone)
    # With --no-run a fresh clone knows no launches: that is said, and is no pass.
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "no launch" in checked.stdout.lower() + checked.stderr.lower()
