"""Over a real SSH server: the user's own configuration, jumps, refusals, and whatever a login prints."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from remote_support import HERE, assert_nothing_left, far, job, marked

from tritonforge.diagnosis.doctor_reaching import reaching_checks
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.target import Target
from tritonforge.targets import ProcessTransport
from tritonforge.targets.ssh import mend_for, never_asking
from tritonforge.targets.text import shown


def do(target, root, *actions):
    async def run():
        async with far(target) as worker:
            return [(await worker.run(job(root, action))).output for action in actions]

    return asyncio.run(run())


def test_a_job_runs_over_there_on_files_that_came_with_it(sshd, workspace):
    (workspace / "kernels.py").write_text("from helper import VALUE\n")
    (workspace / "helper.py").write_text("VALUE = 'from the helper'\n")
    value, root = do(sshd.target(), workspace, "import kernels", "root")
    assert value == "from the helper"
    assert root == str(workspace), "what is said of files speaks of the user's own"
    assert list((sshd.environment["cache"] / "tritonforge" / "files" / "trees").iterdir())


def test_a_host_behind_another_is_reached_through_it(sshd, workspace):
    assert do(sshd.target("inner"), workspace, "echo through") == ["through"]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "fish"])
def test_whatever_a_login_prints_is_survived_in_any_shell(sshd, workspace, shell):
    if subprocess.run(["which", shell], capture_output=True, check=False).returncode:
        pytest.skip(f"{shell} is not installed")
    noise = f"echo Welcome; printf 'tritonforge-worker/1 '; head -c 70000 /dev/urandom; echo; exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""
    sshd.authorized.write_text(f'command="{noise.replace(chr(34), chr(92) + chr(34))}" {sshd.key}')
    try:
        assert do(sshd.target(), workspace, "echo heard") == ["heard"]
    finally:
        sshd.authorized.write_text(sshd.key)


@pytest.mark.parametrize(
    ("host", "says", "mend"),
    [
        ("refused", "Permission denied", "ssh-agent"),
        ("unknown", "Host key verification failed", "Connect once by hand"),
        ("no-such-host.invalid", "resolve hostname", "Correct the host's name"),
    ],
)
def test_a_refusal_is_one_sentence_with_its_mend_and_no_question(sshd, workspace, host, says, mend):
    with pytest.raises(TargetUnreachable) as caught:
        do(sshd.target(host), workspace, "echo x")
    assert says in caught.value.message
    assert mend in caught.value.mend


def test_nothing_is_left_over_there_when_either_end_is_killed(sshd, workspace):
    text = textwrap.dedent(
        f"""\
        import asyncio, sys
        sys.path.insert(0, {str(HERE)!r})
        from remote_support import far, job
        from tritonforge.domain.target import Target
        target = Target("lab", command={sshd.target().command!r}, python={sys.executable!r}, quoting="shell")
        async def main():
            async with far(target) as worker:
                await worker.run(job({str(workspace)!r}, "spin"), on_progress=lambda *_: print("spins", flush=True))
        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"spins\n"
        assert len(marked(sshd.environment["mark"])) >= 4
        client.kill()
    assert_nothing_left(sshd.environment["mark"])
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        assert client.stdout.readline() == b"spins\n"
        for pid, _ in marked(sshd.environment["mark"]):
            with contextlib.suppress(OSError):  # another of them may have ended since
                if Path(f"/proc/{pid}/comm").read_text().startswith("tf-supervisor"):
                    os.kill(pid, signal.SIGKILL)
        # It comes back by itself and begins the job that was under way again.
        assert client.stdout.readline() == b"spins\n"
        client.kill()
    assert_nothing_left(sshd.environment["mark"])


def test_a_hostile_folder_name_is_only_a_name(sshd, tmp_path):
    root = tmp_path / 'it\'s "a"\n$(touch pwned) `x` \\ folder;'
    root.mkdir()
    (root / "kernels.py").write_text("VALUE = 'read'\n")
    (root / "kern $(touch pwned)\n'\".py").write_text("VALUE = 3\n")
    name = "kern $(touch pwned)\n'\".py"

    async def run():
        async with far(sshd.target()) as worker:
            text = (await worker.run(job(root, f"read {name}", name))).output
            return text, (await worker.run(job(root, "root", name))).output

    assert asyncio.run(run()) == ("VALUE = 3\n", str(root))
    assert not list(tmp_path.rglob("pwned"))


def test_ssh_never_asks_unless_the_user_says_so():
    assert never_asking(("ssh", "-T", "gpu1")) == ("ssh", "-o", "BatchMode=yes", "-T", "gpu1")
    assert never_asking(("env", "A=1", "/usr/bin/ssh", "h"))[3:5] == ("-o", "BatchMode=yes")
    for own in (("ssh", "-oBatchMode=no", "h"), ("ssh", "-o", "batchmode no", "h")):
        assert never_asking(own) == own
    for other in (("docker", "run", "-i", "ssh"), ("kubectl", "exec", "-i", "ssh", "--"), ("srun",), ()):
        assert never_asking(other) == other


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("ssh", "-T", "gpu 1"), "ssh -T 'gpu 1'"),
        (("sshpass", "-p", "hunter2", "ssh", "-p", "22", "h"), "sshpass -p … ssh -p 22 h"),
        (("/usr/bin/sshpass", "-phunter2", "ssh", "-p22", "h"), "/usr/bin/sshpass -p… ssh -p22 h"),
        (("docker", "run", "-e", "API_TOKEN=hunter2", "-i", "x"), "docker run -e API_TOKEN=… -i x"),
        (("kubectl", "--token", "hunter2", "exec"), "kubectl --token … exec"),
        (("gate", "--password=hunter2", "https://me:hunter2@host/x"), "gate --password=… https://me:…@host/x"),
    ],
)
def test_a_command_is_told_without_the_secrets_in_it(command, says):
    assert shown(command) == says
    asked = mend_for("password: ", command)
    assert "asks a question" in asked
    assert "hunter2" not in asked


def test_a_command_that_cannot_be_is_a_sentence():
    for command in (("no\0command",), ("ssh", "h\0"), ("x" * 5000,)):
        with pytest.raises(TargetUnreachable, match="cannot be started"):
            asyncio.run(ProcessTransport(Target("a\nb", command=command)).open(5))
    assert not asyncio.run(reaching_checks(Target("lab", command=("ssh", "h\0"))))[0].ok


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        ("ssh: connect to host h port 22: Connection refused", "SSH server runs"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ Host key verification failed.", "see whether its key"),
        ("Error response from daemon: No such container: gpu", "Start the container"),
        ("zsh:1: no such file or directory: /opt/python", ""),
        ("bash: line 1: exec: python3: not found", "`python`"),
        ('Error from server (NotFound): pods "trainer" not found', "pod's name"),
        ("something else", ""),
    ],
)
def test_what_a_command_says_before_it_ends_has_a_mend(said, mend):
    found = mend_for(said, ("ssh", "-T", "gpu 1"))
    assert mend in found
    assert "{" not in found
    assert shlex.join(("ssh", "-T", "gpu 1")) in found or "by hand" not in found
