"""What a user sees for wrong usage: one sentence with the mend, the right exit code, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""


def tritonforge(
    *arguments: object, cwd: Path, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tritonforge", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "tritonforge.toml").write_text("")
    (tmp_path / "kernels.py").write_text(KERNEL)
    return tmp_path


def says(done, code, *parts):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_missing_file(workspace):
    says(tritonforge("optimize", "nope.py", cwd=workspace), 2, "nope.py does not exist")


def test_an_unknown_kernel_and_the_likely_one(workspace):
    says(tritonforge("profile", "kernels.py::scael", cwd=workspace), 2, "no kernel 'scael'", "Did you mean scale?")


def test_a_file_without_a_kernel(workspace):
    (workspace / "empty.py").write_text("x = 1\n")
    says(tritonforge("optimize", "empty.py", cwd=workspace), 2, "no Triton kernel found in empty.py")


def test_a_file_that_does_not_parse(workspace):
    (workspace / "broken.py").write_text("import triton\n\ndef f(:\n")
    says(tritonforge("optimize", "broken.py", cwd=workspace), 2, "broken.py:3")


def test_an_unreadable_file_is_an_error_with_its_line(workspace):
    (workspace / "latin.py").write_bytes(b"import triton\n# \xe9\n")
    done = tritonforge("analyze", "latin.py", "--no-run", cwd=workspace)
    assert done.returncode == 2
    assert "latin.py:2" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_byte_that_does_not_decode_is_said_once(workspace):
    (workspace / "latin.py").write_bytes(b"import triton\n# caf\xe9\nx = caf\xe9\n")
    done = tritonforge("analyze", "latin.py", "--no-run", "--format", "json", cwd=workspace)
    assert [error["line"] for error in json.loads(done.stdout)["errors"]] == [2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trace", "-o", "", "--", "true"], "-o names no file. Name one, or leave -o out."),
        (["profile", "-o", "", "--", "true"], "-o names no file. Name one, or leave -o out."),
        (["analyze", "kernels.py", "--launch", ""], "--launch names no launch. Give the id of one, or auto."),
        (["analyze", "kernels.py", "--select", "TF9x"], "--select: 'TF9x' is no rule's code. Did you mean TF900?"),
        (
            ["analyze", "kernels.py", "--select", ","],
            "--select names no rule. Write codes with commas between them: TF203,TF5.",
        ),
        (["anlyze", "kernels.py"], "No such command 'anlyze'. Did you mean 'analyze'? See 'tritonforge --help'."),
        (
            ["optimize", "kernels.py", "--budget", "x"],
            "Invalid value for '--budget': 'x' is no number. See 'tritonforge optimize --help'.",
        ),
        (["profile", "a.py", "b.py"], "Got unexpected extra argument (b.py). See 'tritonforge profile --help'."),
    ],
)
def test_small_mistakes_get_a_whole_sentence(workspace, arguments, sentence):
    done = tritonforge(*arguments, cwd=workspace)
    says(done, 2)
    assert done.stderr == f"tritonforge: {sentence}\n"


probes = {}


@pytest.mark.parametrize(("arguments", "shown"), [
    (["verify", "k.py", "--verbose"], True), (["--verbose", "verify", "k.py"], True), (["verify", "k.py"], False),
    (["trace", "--", "pytest", "--verbose"], False),
])  # fmt: skip
def test_verbose_is_understood_behind_a_command_and_not_taken_from_the_program_after_it(arguments, shown, monkeypatch):
    from tritonforge.cli import main, running

    seen = []
    for name in ("verify", "trace"):
        command = main.cli.get_command(None, name)
        parameters = [one for one in command.params if one.name == "verbose"]
        probe = click.Command(name, params=[*parameters, click.Argument(["rest"], nargs=-1)],
                              callback=lambda rest: seen.append(running.is_verbose()))  # fmt: skip
        monkeypatch.setitem(probes, name, probe)
    monkeypatch.setattr(type(main.cli), "get_command", lambda _self, _ctx, name: probes[name])
    main.run(arguments)
    assert seen == [shown]


def test_a_kernel_for_which_no_launch_is_known(workspace):
    done = tritonforge("profile", "kernels.py::scale", "--no-run", cwd=workspace)
    says(done, 4, "# tritonforge: launch x_ptr=fp16[")


def test_a_wrong_setting_with_its_line_and_the_right_key(workspace):
    (workspace / "tritonforge.toml").write_text('[targets.lab]\ncomand = ["ssh"]\n')
    says(tritonforge("doctor", cwd=workspace), 2, "tritonforge.toml:2", "command")


def test_an_unknown_target_and_the_known_ones(workspace):
    says(
        tritonforge("profile", "kernels.py::scale", "--target", "lab", cwd=workspace),
        2,
        "unknown target 'lab'",
        "offline",
    )


def test_a_target_that_cannot_be_reached(workspace):
    (workspace / "tritonforge.toml").write_text('[targets.gone]\narch = "sm_90"\npython = "/no/such/python"\n')
    says(tritonforge("profile", "kernels.py::scale", "--target", "gone", cwd=workspace), 3, "gone")


def test_an_interpreter_without_torch_and_how_to_mend_it(workspace, tmp_path_factory):
    bare = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    (workspace / "tritonforge.toml").write_text(f'[targets.bare]\narch = "sm_90"\npython = "{bare}/bin/python"\n')
    says(tritonforge("profile", "kernels.py::scale", "--target", "bare", cwd=workspace), 3, "torch", "Install")


def test_without_any_worker_analyze_still_judges_the_source(workspace, tmp_path_factory):
    bare = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    (workspace / "tritonforge.toml").write_text(
        f'default-target = "bare"\n[targets.bare]\narch = "sm_90"\npython = "{bare}/bin/python"\n'
    )
    done = tritonforge("analyze", "kernels.py", "--format", "json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "only the source was judged" in done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert kernel["name"] == "scale"
    assert kernel["launches"] == []
    assert kernel["launch_note"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimise", "x.py"],
        ["optimize"],
        ["optimize", "x.py", "--budget", "soon"],
        ["analyze", "--frmat", "json", "x.py"],
    ],
)
def test_wrong_options_point_to_the_help(workspace, arguments):
    says(tritonforge(*arguments, cwd=workspace), 2, "--help")


def test_a_spec_that_cannot_be_read_points_at_the_character(workspace):
    text = KERNEL.replace("@triton.jit", "# tritonforge: launch x_ptr=fp17[8]\n@triton.jit")
    (workspace / "kernels.py").write_text(text)
    says(tritonforge("profile", "kernels.py::scale", cwd=workspace), 2, "kernels.py:5:", "unknown dtype 'fp17'")


def test_every_command_explains_itself(workspace):
    for command in ("analyze", "profile", "optimize", "verify", "doctor"):
        done = tritonforge(command, "--help", cwd=workspace)
        assert done.returncode == 0
        assert "--target" in done.stdout
    assert "Exit codes" in tritonforge("--help", cwd=workspace).stdout


def test_the_server_side_never_imports_torch_or_triton(workspace):
    code = (
        "import sys; from tritonforge.cli.main import run; run(['analyze', 'kernels.py', '--no-run']);"
        "bad = {'torch', 'triton', 'tritonforge.worker'} & set(sys.modules); sys.exit(f'imported {bad}' if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=workspace, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_configured_time_limit_ends_a_main_that_never_returns(workspace):
    (workspace / "tritonforge.toml").write_text("[limits]\nseconds = 4\n")
    (workspace / "kernels.py").write_text(
        f"{KERNEL}\nimport time\n\nif __name__ == '__main__':\n    time.sleep(600)\n    scale[(1,)](None, None, 1, BLOCK=1)\n"
    )
    done = tritonforge("profile", "kernels.py::scale", "--target", "offline", cwd=workspace)
    says(done, 4, "main", "4 s")


def test_a_reader_that_goes_away_is_no_finding(workspace):
    body = KERNEL.partition("@triton.jit")[2]
    kernels = "".join(f"\n@triton.jit{body.replace('scale', f'scale_{i}')}" for i in range(400))
    (workspace / "many.py").write_text(KERNEL + kernels)
    code = "import sys; from tritonforge.cli.main import run; print(run(['analyze', 'many.py', '--no-run']), file=sys.stderr)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()  # long before there is anything to read
    stderr = process.stderr.read()
    process.wait(timeout=120)
    assert stderr.strip().splitlines() == ["141"]


def test_a_kernel_that_does_not_compile_is_wrong_input_to_a_search_and_an_error_of_its_line(workspace):
    text = KERNEL.replace("2 * tl.load", "tl.no_such_thing() * tl.load")
    spec = "# tritonforge: launch x_ptr=fp32[64] out_ptr=fp32[64] n=64 BLOCK=64 grid=1\n@triton.jit"
    (workspace / "kernels.py").write_text(text.replace("@triton.jit", spec))
    done = tritonforge("optimize", "kernels.py::scale", "--target", "offline", cwd=workspace)
    says(done, 2, "scale does not compile for sm_90", "no_such_thing")
    done = tritonforge("profile", "kernels.py::scale", "--target", "offline", cwd=workspace)
    assert done.returncode == 1, "there is no profile of it"
    assert "what does not compile cannot be run" in done.stdout
    done = tritonforge("analyze", "kernels.py::scale", "--target", "offline", "--format", "sarif", cwd=workspace)
    assert done.returncode == 1
    (result,) = (one for one in json.loads(done.stdout)["runs"][0]["results"] if one["ruleId"] == "TF603")
    region = result["locations"][0]["physicalLocation"]["region"]
    assert result["level"] == "error"
    assert "no_such_thing" in (workspace / "kernels.py").read_text().splitlines()[region["startLine"] - 1]


def test_analyze_of_a_named_kernel_without_a_launch_says_so_in_its_exit_code(workspace):
    done = tritonforge("analyze", "kernels.py::scale", "--target", "offline", "--no-run", cwd=workspace)
    assert done.returncode == 4
    assert "launch spec" in done.stdout


def test_of_two_kernels_of_one_name_the_last_is_meant(workspace):
    (workspace / "kernels.py").write_text(KERNEL + KERNEL.replace("2 *", "3 *"))
    done = tritonforge("analyze", "kernels.py::scale", "--no-run", "--format", "json", cwd=workspace)
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert kernel["line"] > 8


def test_a_folder_of_several_kernels_where_one_is_wanted(workspace):
    (workspace / "more.py").write_text(KERNEL)
    says(tritonforge("profile", ".", cwd=workspace), 2, "several files", "kernels.py::scale, more.py::scale")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_not_waited_for(workspace):
    os.mkfifo(workspace / "pipe.py")
    os.mkfifo(workspace / "run.ncu-rep")
    done = tritonforge("analyze", "--no-run", "--format", "json", ".", cwd=workspace, timeout=60)
    assert [k["file"] for k in json.loads(done.stdout)["kernels"]] == ["kernels.py"]
    says(tritonforge("profile", "kernels.py", "--report", "run.ncu-rep", cwd=workspace, timeout=60), 2, "not a file")
    says(tritonforge("analyze", "/dev/zero", cwd=workspace, timeout=60), 2, "/dev/zero is not a file")


@pytest.mark.triton
def test_a_wrong_spec_in_a_folder_is_an_error_with_its_line_and_the_rest_is_analysed(workspace):
    pytest.importorskip("triton")
    right = "x_ptr=fp32[64] out_ptr=fp32[64] n=64 BLOCK=64 grid=1"
    for name, spec in (("a_wrong.py", right.replace("fp32", "fp31", 1)), ("b_right.py", right)):
        (workspace / name).write_text(KERNEL.replace("@triton.jit", f"# tritonforge: launch {spec}\n@triton.jit"))
    arguments = ("analyze", ".", "--target", "offline", "--no-run", "--format", "json")
    found = json.loads(tritonforge(*arguments, cwd=workspace).stdout)
    (error,) = found["errors"]
    assert (error["file"], error["line"]) == ("a_wrong.py", 5)
    assert "unknown dtype 'fp31'" in error["message"]
    launches = {kernel["file"]: len(kernel["launches"]) for kernel in found["kernels"]}
    assert launches == {"a_wrong.py": 0, "b_right.py": 1, "kernels.py": 0}
    says(tritonforge("analyze", "a_wrong.py", "--target", "offline", cwd=workspace), 2, "a_wrong.py:5:29", "fp31")


@pytest.mark.triton
@pytest.mark.parametrize("level", ["ncu", "pcsampling"])
def test_counters_asked_for_by_name_without_a_gpu_are_refused(workspace, level):
    pytest.importorskip("triton")
    spec = "# tritonforge: launch x_ptr=fp32[64] out_ptr=fp32[64] n=64 BLOCK=64 grid=1\n@triton.jit"
    (workspace / "kernels.py").write_text(KERNEL.replace("@triton.jit", spec))
    done = tritonforge("profile", "kernels.py", "--target", "offline", "--counters", level, cwd=workspace)
    says(done, 2, "need a GPU", "leave --counters out")
    assert done.stdout == ""
