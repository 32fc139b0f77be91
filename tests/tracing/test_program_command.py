"""`tritonforge profile -- COMMAND` as a user runs it, where there is no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tritonforge.cli.main import run as run_here
from tritonforge.store import open_store

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "json" / "program.schema.json").read_text())

KERNELS = """\
import triton, triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""

TRAIN = """\
import sys
import torch, triton, triton.language as tl
from kernels import scale

@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 2048})], key=["n"])
@triton.jit
def shift(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

def make():
    @triton.jit
    def inner(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, 1.0, mask=at < n)
    return inner

n = 1 << 20
x = torch.ones(n, device="cuda")
y = torch.empty_like(x)
fill = make()
for step in range(3):
    for _ in range(10):
        scale[(n // 1024,)](x, y, n, BLOCK=1024)
    shift[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    fill[(1024,)](x, n, BLOCK=1024)
sys.stdout.buffer.write(b"bytes \\xff\\x00 of its own\\n")
sys.exit(3)
"""


def profile(*arguments: object, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tritonforge", "profile", *map(str, arguments)],
        cwd=cwd, capture_output=True, timeout=240, check=False, input=stdin,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tritonforge.toml").write_text("")
    return tmp_path


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of a program with three kernels: what it printed, and the report."""
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    folder = tmp_path_factory.mktemp("program")
    (folder / "tritonforge.toml").write_text("")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "train.py").write_text(TRAIN)
    done = profile("--target", "offline", "-o", "report.json", "--", sys.executable, "train.py", cwd=folder)
    return folder, done, json.loads((folder / "report.json").read_text())


@pytest.mark.triton
def test_the_program_s_own_output_and_exit_code_are_untouched(run):
    _, done, report = run
    assert done.stdout == b"bytes \xff\x00 of its own\n"
    assert done.returncode == 3
    assert report["program"]["exit_code"] == 3


@pytest.mark.triton
def test_without_a_gpu_kernels_are_ranked_by_predicted_time_and_marked(run):
    _, done, report = run
    jsonschema.validate(report, SCHEMA)
    program = report["program"]
    assert program["clock"] == "predicted"
    assert program["gpu_time_us"] is None
    first, *others = program["kernels"]
    assert (first["name"], first["count"]) == ("scale", 30)
    assert first["share"] > 0.5
    assert {row["name"] for row in others} >= {"shift"}
    assert sum(row["share"] for row in program["kernels"]) == pytest.approx(1.0)
    text = done.stderr.decode()
    assert "Nothing was measured." in text
    assert "tritonforge optimize " in text


@pytest.mark.triton
def test_each_kernel_has_its_class_headroom_and_launches_also_in_a_script_that_runs_when_it_is_loaded(run):
    kernels = {row["name"]: row for row in run[2]["program"]["kernels"]}
    for name in ("scale", "shift"):
        row = kernels[name]
        assert row["bottleneck"]["class"] != "unknown"
        assert 1.0 <= row["headroom"] < 100
        assert row["program_gain"] >= 1.0
        assert row["launches"][0]["args"]["n"] == 1 << 20


@pytest.mark.triton
def test_what_was_launched_is_known_to_later_commands(run):
    (kept, *_) = open_store(run[0]).calls_for("kernels.py", "scale")
    assert [launch.kernel for call in kept.calls for launch in call.launches] == ["scale"]


def test_json_stands_alone_on_stdout_and_the_program_prints_on_stderr(folder):
    done = profile("--format", "json", "--", sys.executable, "-c", "print('its own'); raise SystemExit(4)", cwd=folder)
    assert done.returncode == 4
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert report["program"]["kernels"] == []
    assert b"its own" in done.stderr


def test_a_program_without_triton_keeps_its_stdio_and_is_told_so(folder):
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    done = profile("--", sys.executable, "-c", copy, cwd=folder, stdin=b"\x00\xfe\r\n" * 1000)
    assert (done.returncode, done.stdout) == (0, b"\x00\xfe\r\n" * 1000)
    assert b"No Triton kernel was launched." in done.stderr


def test_options_after_the_dashes_are_the_program_s(folder):
    done = profile("--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--help", "--", "-o", cwd=folder)
    assert done.stdout == b"['--help', '--', '-o']\n"


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        ((), "name a kernel as PATH::KERNEL, or a program after --", 2),
        (("--",), "the command to profile is missing", 2),
        (("kernel.py", "--", "true"), "two different profiles", 2),
        (("--report", "x.ncu-rep", "--", "true"), "two different profiles", 2),
        (("--no-run", "--", "true"), "--no-run forbids", 2),
        (("--counters", "ncu", "--", "true"), "--counters is for one kernel", 2),
        (("--launch", "auto", "--", "true"), "--launch is for one kernel", 2),
        (("-o", "nowhere/x.json", "--", "true"), "cannot be written", 2),
        (("-o", "x.json", "kernel.py"), "-o is for -- COMMAND", 2),
        (("--", "no-such-program-here"), "command not found", 127),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_said_in_one_sentence_before_anything_runs(capfd, arguments, said, code):
    assert run_here(["profile", *arguments]) == code
    out, err = capfd.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert not out
