"""`analyze` over folders, in every format, interrupted, and a second time: what a user sees and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from tritonforge.cli import main
from tritonforge.cli.commands import analyze as command
from tritonforge.diagnosis import inspect_many
from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.finding import Finding
from tritonforge.domain.messages import Failure
from tritonforge.domain.results import AnalyzedKernel
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def {name}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""
INFO = WorkerInfo(PROTOCOL_VERSION, "3.11.7", "/usr/bin/python", "linux", "2.13.0", "3.7.1", 2, 1)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Three files with a kernel each, one that does not parse, and one that nobody may read."""
    (tmp_path / "tritonforge.toml").write_text("")
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text(KERNEL.format(name=name))
    (tmp_path / "broken.py").write_text("import triton\n\ndef f(:\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def judging(monkeypatch):
    """No worker: kernels are judged by what the test says, in the order of their files."""

    @asynccontextmanager
    async def target(*_, **__):
        worker = SimpleNamespace(hello=INFO)
        yield Session(Target("offline", arch="sm_90"), worker, INFO, "sm_90", measures=False)

    monkeypatch.setattr(command, "target", target)

    def judged_by(inspect):
        async def inspect_kernel(_workload, kernel, *_):
            await asyncio.sleep(0)
            return inspect(kernel)

        monkeypatch.setattr(inspect_many, "inspect_kernel", inspect_kernel)

    return judged_by


def found(kernel, severity="hint"):
    finding = Finding("TF404", "no-tuning", severity, kernel.file, kernel.name_range, "m", "source")
    return AnalyzedKernel(kernel, launch_note="none known", findings=(finding,))


def run(capsys, *arguments):
    code = main.run(["analyze", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def names(out):
    return {kernel["name"] for kernel in json.loads(out)["kernels"]}


def test_one_broken_file_never_stops_the_rest(workspace, judging, capsys, monkeypatch):
    judging(found)
    secret = workspace / "secret.py"
    secret.write_text("import triton\n")
    from tritonforge.cli import selecting

    original = selecting._read

    def refusing(path, *, named):
        if path.name == "secret.py":
            raise RecursionError("too deep")
        return original(path, named=named)

    monkeypatch.setattr(selecting, "_read", refusing)
    code, out, _ = run(capsys, ".", "--format", "json")
    assert code == 0
    assert names(out) == {"one", "two", "three"}
    errors = {error["file"]: error for error in json.loads(out)["errors"]}
    assert errors["broken.py"]["line"] == 3
    assert "too deep" in errors["secret.py"]["message"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(workspace, judging, capsys):
    judging(found)
    (workspace / "one.py").chmod(0)
    _, out, _ = run(capsys, ".", "--format", "json")
    assert "one.py" in {error["file"] for error in json.loads(out)["errors"]}


def test_an_interrupted_run_prints_what_is_there(workspace, judging, capsys):
    def inspect(kernel):
        if kernel.name == "three":  # the second file in the order of names
            asyncio.get_running_loop().call_soon(waiting.cancel)
        return found(kernel)

    async def analyze():
        nonlocal waiting
        waiting = asyncio.current_task()
        return await original(*arguments, **options)

    waiting, original = None, command._analyze
    arguments, options = (), {}

    def starting(*args, **kwargs):
        nonlocal arguments, options
        arguments, options = args, kwargs
        return analyze()

    judging(inspect)
    slow = inspect_many.inspect_kernel

    async def one_at_a_time(workload, kernel, *rest):
        result = await slow(workload, kernel, *rest)
        if kernel.name == "two":
            await asyncio.sleep(60)
        return result

    inspect_many.inspect_kernel = one_at_a_time  # the fixture's monkeypatch puts the real one back
    command._analyze, restored = starting, command._analyze
    try:
        code, out, err = run(capsys, ".", "--format", "json")
    finally:
        command._analyze = restored
    assert code == 130
    assert names(out) == {"one", "three"}
    assert "interrupted: 2 of 3 kernels were judged" in err


@pytest.mark.parametrize("output_format", ["text", "sarif", "github", "html"])
def test_the_exit_code_is_the_same_in_every_format(workspace, judging, capsys, output_format):
    for severity, fail_on, code in (
        ("hint", "error", 0), ("hint", "hint", 1), ("warning", "error", 0), ("error", "error", 1),
    ):  # fmt: skip
        judging(lambda kernel, severity=severity: found(kernel, severity))
        assert run(capsys, "one.py", "--fail-on", fail_on, "--format", output_format)[0] == code


def test_a_comment_that_does_nothing_is_a_warning_of_its_line(workspace, judging, capsys):
    judging(found)
    stray = "# tritonforge: launch x=fp16[8]\nx = 1\n# tritonforge: lunch x=fp16[8]\n"
    (workspace / "one.py").write_text(stray + KERNEL.format(name="one"))
    code, out, _ = run(capsys, "one.py", "--format", "json", "--fail-on", "warning")
    assert code == 1
    problems = [(one["line"], one["message"].partition(".")[0]) for one in json.loads(out)["comment_problems"]]
    assert problems == [
        (1, "this launch spec stands above no kernel and no function"),
        (3, "'lunch' is no directive"),
    ]
    code, out, _ = run(capsys, "one.py", "--ignore", "tf404")
    assert code == 0
    assert "1 kernel, 2 warnings, 1 hint." in out


def test_a_target_that_cannot_write_its_files_is_told_once_and_blames_no_kernel(workspace, judging, capsys):
    def inspect(kernel):
        raise JobError(Failure("environment", "Files cannot be written to /x. Set TRITONFORGE_CACHE_DIR."))

    judging(inspect)
    code, out, err = run(capsys, "one.py", "two.py", "three.py")
    assert (code, out) == (3, "")
    assert err == "tritonforge: Files cannot be written to /x. Set TRITONFORGE_CACHE_DIR.\n"


def test_paths_for_a_code_host_begin_at_the_repository(workspace, judging, capsys):
    judging(found)
    (workspace.parent / ".git").mkdir(exist_ok=True)
    try:
        _, out, _ = run(capsys, "one.py", "--format", "sarif")
        _, commands, _ = run(capsys, "one.py", "--format", "github")
    finally:
        (workspace.parent / ".git").rmdir()
    (log,) = json.loads(out)["runs"]
    place = log["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == f"{workspace.name}/one.py"
    assert log["originalUriBaseIds"]["SRCROOT"]["uri"] == workspace.parent.as_uri() + "/"
    assert f"file={workspace.name}/one.py," in commands


def test_the_summary_of_the_step_is_added_to_and_never_too_long(workspace, judging, capsys, monkeypatch):
    judging(found)
    summary = workspace / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run(capsys, ".", "--format", "github")
    text = summary.read_text()
    assert text.startswith("before\n## TritonForge")
    assert "3 kernels" in text
    summary.write_text("x" * (1 << 20))
    _, _, err = run(capsys, ".", "--format", "github")
    assert "too long" in err
    assert summary.stat().st_size == 1 << 20


def test_a_folder_without_kernels_gives_an_empty_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, ".", "--format", "json")
    assert (code, json.loads(out)["kernels"]) == (0, [])
    assert "no Triton kernel" in err
    assert json.loads(run(capsys, ".", "--format", "sarif")[1])["runs"][0]["results"] == []


def test_a_worker_that_dies_leaves_what_was_judged_and_the_source_of_the_rest(workspace, judging, capsys):
    def inspect(kernel):
        if kernel.name == "two":
            raise TargetUnreachable("The worker has ended.")
        return AnalyzedKernel(kernel, launch_note="was judged")

    judging(inspect)
    code, out, err = run(capsys, ".", "--format", "json")
    assert code == 0
    assert "only the source was judged" in err
    notes = {kernel["name"]: kernel["launch_note"] for kernel in json.loads(out)["kernels"]}
    assert "only the source" in notes["two"]
    assert notes["one"] == "was judged"


@pytest.mark.triton
def test_a_second_run_of_unchanged_kernels_starts_no_worker(tmp_path):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    spec = "# tritonforge: launch x_ptr=fp32[4096] out_ptr=fp32[4096] n=4096 BLOCK=256 grid=(cdiv(n, BLOCK),)\n"
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL.format(name="twice").replace("@triton.jit", spec + "@triton.jit"))
    wrapper, started = tmp_path / "python", tmp_path / "started"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *-u*) echo x >> {started};; esac\nexec {sys.executable} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "tritonforge.toml").write_text(f'[targets.here]\narch = "sm_90"\npython = "{wrapper}"\n')

    def analyze():
        done = subprocess.run(
            [sys.executable, "-m", "tritonforge", "analyze", "kernels.py", "--target", "here", "--arch", "sm_80",
             "--arch", "gfx942", "--format", "json"],
            cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (kernel,) = json.loads(done.stdout)["kernels"]
        assert [one["arch"] for one in kernel["compilations"]] == ["sm_80", "gfx942"]
        assert all(one["registers"] for one in kernel["compilations"])
        return kernel, len(started.read_text().split())

    first, starts = analyze()
    assert starts == 1
    assert analyze() == (first, 1)
    file.write_text("# moved\n" + file.read_text())
    moved, starts = analyze()
    assert starts == 1
    lines = [{int(line) for line in one["compilations"][0]["lines"]} for one in (first, moved)]
    assert lines[1] == {line + 1 for line in lines[0]}
