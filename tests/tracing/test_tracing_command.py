"""A traced command behaves as without tracing, however it ends. Nothing here imports torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PYTHON = sys.executable


@pytest.fixture
def workspace(tmp_path):
    """A workspace with a folder of its own for what is temporary."""
    (tmp_path / "tritonforge.toml").touch()
    (tmp_path / "tmp").mkdir()
    return tmp_path


def environment(workspace, **more):
    return {**os.environ, "TMPDIR": str(workspace / "tmp"), **more}


def traced(workspace, *command, options=(), text=True, **more):
    return subprocess.run(
        [PYTHON, "-m", "tritonforge", "trace", *options, "--", *command],
        cwd=workspace, capture_output=True, text=text, timeout=60, check=False, env=environment(workspace, **more),
    )  # fmt: skip


def program(workspace, text):
    path = workspace / "program.py"
    path.write_text(textwrap.dedent(text))
    return path.name


def left_in(workspace):
    return [p for p in (workspace / "tmp").iterdir() if "tritonforge-trace" in p.name]


def running(workspace):
    """Processes that were started with this workspace's temporary folder, and are not ours."""
    needle = f"TMPDIR={workspace / 'tmp'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if needle in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9),
    ],
)
def test_the_commands_own_exit_code_is_returned(workspace, ending, code):
    assert traced(workspace, PYTHON, "-c", ending).returncode == code
    assert not left_in(workspace)


def test_arguments_folder_path_and_streams_are_as_without_tracing(workspace):
    name = program(
        workspace,
        """
        import os, sys
        sys.stdout.buffer.write(bytes(range(256)) * 300 + repr((sys.argv, sys.path, os.getcwd(), __name__)).encode())
        sys.stderr.write(sys.stdin.read())
        """,
    )
    command = [PYTHON, name, "a b", "--verbose", "--", "-o", "x"]
    alone = subprocess.run(
        command, cwd=workspace, capture_output=True, input=b"in\n", env=environment(workspace), check=False
    )
    done = subprocess.run(
        [PYTHON, "-m", "tritonforge", "trace", "-o", "out.json", "--", *command],
        cwd=workspace, capture_output=True, input=b"in\n", env=environment(workspace), check=False,
    )  # fmt: skip
    assert done.stdout == alone.stdout
    assert done.stderr.startswith(alone.stderr)
    assert json.loads((workspace / "out.json").read_text())["command"] == command
    assert not (workspace / ".tritonforge" / "trace.json").exists()


def test_a_traceback_is_the_programs_own(workspace):
    name = program(workspace, "def inner():\n    raise ValueError('no')\ninner()\n")
    alone = subprocess.run([PYTHON, name], cwd=workspace, capture_output=True, text=True, check=False)
    done = traced(workspace, PYTHON, name)
    assert done.returncode == 1
    assert done.stderr.startswith(alone.stderr)


def test_the_programs_own_sitecustomize_still_runs(workspace):
    (workspace / "mine").mkdir()
    (workspace / "mine" / "sitecustomize.py").write_text("import sys; sys.customized = __file__\n")
    done = traced(
        workspace, PYTHON, "-c", "import sys, sitecustomize as s; print(sys.customized == s.__file__)",
        PYTHONPATH=str(workspace / "mine"),
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_an_installed_tritonforge_is_the_programs_own(workspace):
    (workspace / "mine" / "tritonforge").mkdir(parents=True)
    (workspace / "mine" / "tritonforge" / "__init__.py").write_text("mine = True\n")
    shell = f"PYTHONPATH=mine:$PYTHONPATH {PYTHON} -c 'import tritonforge; print(tritonforge.mine)'"
    done = traced(workspace, "sh", "-c", shell)
    assert done.stdout == "True\n", done.stderr
    assert "no Triton kernel was launched in 1 Python process." in done.stderr


def test_a_python_that_cannot_be_seen_is_named_in_one_sentence(workspace):
    done = traced(workspace, PYTHON, "-I", "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "nothing was recorded: -I" in done.stderr.lower().replace("-i", "-I")
    cleared = traced(workspace, "env", "-i", PYTHON, "-c", "print('ran')")
    assert cleared.stdout == "ran\n"
    assert "clears the environment" in cleared.stderr


def test_a_program_without_kernels_is_said_to_have_none(workspace):
    done = traced(workspace, PYTHON, "-c", "")
    assert "no Triton kernel was launched in 1 Python process." in done.stderr
    report = json.loads((workspace / ".tritonforge" / "trace.json").read_text())
    assert (report["launches"], report["calls"], report["failures"]) == ([], [], [])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--", "no-such-command-here"], 127, "command not found: no-such-command-here."),
        (["--", "./tritonforge.toml"], 126, "cannot be executed"),
        (["--"], 2, "Missing argument"),
        ([PYTHON, "x.py"], 2, "comes after --"),
        (["-o", "no/such/folder.json", "--", "true"], 2, "does not exist"),
        (["-o", ".", "--", "true"], 2, "is a folder"),
    ],
)
def test_wrong_usage_is_one_sentence(workspace, arguments, code, said):
    done = subprocess.run(
        [PYTHON, "-m", "tritonforge", "trace", *arguments],
        cwd=workspace, capture_output=True, text=True, timeout=60, check=False, env=environment(workspace),
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not left_in(workspace)


ENDLESS = """
import subprocess, sys, time
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"])
else:
    print("running", flush=True)  # both are under way, and both are known to be traced
while True:
    time.sleep(0.05)
"""


def start_endless(workspace):
    process = subprocess.Popen(
        [PYTHON, "-m", "tritonforge", "trace", "--", PYTHON, program(workspace, ENDLESS)],
        cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(workspace),
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "running\n"
    return process


def test_ctrl_c_reaches_a_program_that_never_ends_once(workspace):
    process = start_endless(workspace)
    os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in said
    assert (workspace / ".tritonforge" / "trace.json").exists()
    assert not left_in(workspace)
    until(lambda: not running(workspace))


def test_a_signal_to_the_tracer_is_passed_on(workspace):
    process = start_endless(workspace)
    process.terminate()
    try:
        # The program's child is its own business, as under a shell: it is waited for a moment and counted.
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
        assert process.stderr.readline().startswith("TritonForge trace: no Triton kernel was launched")
        assert not left_in(workspace)
    finally:
        for pid in running(workspace):
            os.kill(pid, signal.SIGKILL)
        assert "1 process of the command still ran when it ended; what it launches is not here" in " ".join(
            process.stderr.read().split()
        )
        process.stdout.close()
        process.stderr.close()


def test_nothing_outlives_a_tracer_that_is_killed(workspace):
    process = start_endless(workspace)
    process.kill()
    process.wait()
    until(lambda: not running(workspace))
    until(lambda: not left_in(workspace))
    process.stdout.close()
    process.stderr.close()
