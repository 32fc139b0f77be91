"""The command line of a target: what a shell on the way, or none, makes of it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tritonforge.domain.target import Target
from tritonforge.targets.archive import Archive
from tritonforge.targets.command import bootstrap, command_line

HELLO = b"import sys; print(sys.argv, sys.version_info[0])\n"


def output(arguments, **options):
    return subprocess.run(arguments, input=HELLO, capture_output=True, check=True, **options).stdout.decode()


def test_a_local_target_runs_in_the_interpreter_that_runs_us():
    assert command_line(Target("t"), len(HELLO))[:3] == (sys.executable, "-u", "-c")
    assert output(command_line(Target("t"), len(HELLO))) == "['-c'] 3\n"


def test_a_tilde_is_ours_for_a_local_target():
    assert command_line(Target("t", python="~/x/python"), 1)[0] == str(Path.home() / "x/python")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "tcsh", "fish"])
def test_any_shell_between_passes_the_program_on(shell, tmp_path):
    home = tmp_path / "a home"
    home.mkdir()
    (home / "my python").symlink_to(sys.executable)
    # What ssh does: join the arguments with spaces, and give the text to a shell.
    arguments = command_line(Target("t", command=("ssh", "gpu1"), python="~/my python", quoting="shell"), len(HELLO))
    try:
        assert output([shell, "-c", " ".join(arguments[2:])], env={"HOME": str(home)}) == "['-c'] 3\n"
    except FileNotFoundError:
        pytest.skip(f"{shell} is not installed")


def test_a_hostile_path_is_only_a_path():
    arguments = command_line(Target("t", ("ssh", "h"), "/tmp/$(touch x);'\"python", "shell"), 1)
    assert shlex.split(" ".join(arguments))[2] == "/tmp/$(touch x);'\"python"


def test_without_a_shell_between_a_tilde_is_expanded_over_there(tmp_path):
    (tmp_path / "it's python").symlink_to(sys.executable)
    arguments = command_line(Target("t", command=("env",), python="~/it's python"), len(HELLO))
    assert output(arguments, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) == "['-c'] 3\n"


def test_a_command_without_python_uses_the_one_on_its_path():
    assert command_line(Target("t", command=("docker", "run", "-i", "x")), 1)[4:7] == ("python3", "-u", "-c")


def test_the_bootstrap_reads_on_every_python():
    text = bootstrap(Archive(b"x", "d", 1, 2), {"warm": ["compile"]}).decode()
    assert text.startswith("SETTINGS = {'digest': 'd', 'size': 1, 'whole': (1, 2), 'options': {'warm': ['compile']}}\n")
    text.encode("ascii")
