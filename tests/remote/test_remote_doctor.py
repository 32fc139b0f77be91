"""`doctor` on the way to a target, and what `auto` picks."""

import asyncio
import shutil
import stat
import sys

import pytest
from remote_support import assert_nothing_left, elsewhere

from tritonforge.config import Settings
from tritonforge.diagnosis import doctor_reaching
from tritonforge.diagnosis.doctor_reaching import reaching_checks
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.messages import Describe
from tritonforge.domain.target import GpuInfo, Target, WorkerInfo
from tritonforge.jobs import session as sessions
from tritonforge.jobs.session import open_session


def steps(target):
    return {check.name: check for check in asyncio.run(reaching_checks(target))}


def test_a_command_that_is_not_there_ends_at_the_first_step():
    checks = steps(Target("lab", command=("no-such-command",)))
    assert list(checks) == ["resolve"]
    assert "Install no-such-command" in checks["resolve"].mend


def test_ssh_says_what_it_makes_of_a_host_before_it_goes_there():
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    checks = steps(Target("lab", command=("ssh", "-p", "1", "-J", "jump", "me@127.0.0.1"), quoting="shell"))
    assert "hostname 127.0.0.1, port 1, proxyjump jump" in checks["resolve"].detail
    assert list(checks) == ["resolve", "connect"]
    assert not checks["connect"].ok
    assert checks["connect"].mend
    refused = steps(Target("lab", command=("ssh", "-o", "NoSuchOption=1", "h")))
    assert list(refused) == ["resolve"]
    assert not refused["resolve"].ok


def test_an_ssh_whose_configuration_runs_what_does_not_end_is_ended_with_it(home, monkeypatch, mark):
    ssh = home / "ssh"
    ssh.write_text("#!/bin/sh\nsleep 300 &\nwait\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(doctor_reaching, "_SSH_S", 0.5)
    checks = asyncio.run(asyncio.wait_for(reaching_checks(Target("lab", command=(str(ssh), "host"))), 60))
    assert [(check.name, check.ok, check.detail) for check in checks] == [("resolve", False, "ssh -G does not end")]
    assert_nothing_left(mark)


def test_a_python_that_is_not_there_is_the_mend(home):
    checks = steps(Target("lab", command=("sh", "-c", 'exec "$@"', "sh"), python="/no/python3"))
    assert list(checks) == ["resolve", "connect"]
    assert "`python`" in checks["connect"].mend


def test_a_python_without_torch_is_told_what_to_install(home):
    bare = home / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -I -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    target = elsewhere(home)
    checks = steps(Target("lab", command=target.command, python=str(bare)))
    assert list(checks) == ["resolve", "connect", "python", "disk", "torch"]
    assert [check.ok for check in checks.values()] == [True, True, True, True, False]
    assert "Install torch and triton" in checks["torch"].detail + checks["torch"].mend
    assert "GiB free" in checks["disk"].detail
    assert "round trip" in checks["connect"].detail


GPU = (GpuInfo("H200", "sm_90", 132, 1 << 37),)


@pytest.mark.parametrize(
    ("space", "says", "arch", "ends", "mend"),
    [
        ({"free": 1 << 20}, GPU, None, "disk", "Make room there"),
        ({"free": 1 << 40, "scratch": True}, (), None, "gpu", "nvidia-smi"),
        ({"free": 1 << 40}, "torch", None, "torch", "Install torch and triton"),
        ({"free": 1 << 40}, "triton", None, "triton", "Install torch and triton"),
        ({"free": 1 << 40}, (), None, "gpu", "give the target an arch"),
        ({"free": 1 << 40}, (), "sm_90", None, ""),
        ({"free": 1 << 40}, GPU * 2, None, None, ""),
        ({"free": "\x1b[2J"}, GPU, None, None, ""),
    ],
)
def test_the_first_step_that_fails_is_the_last_and_has_the_mend(  # noqa: PLR0917 - one case
    monkeypatch, space, says, arch, ends, mend
):
    from contextlib import asynccontextmanager

    from tritonforge.domain.frames import message
    from tritonforge.domain.messages import Failure
    from tritonforge.jobs import JobError

    class Told:
        hello = WorkerInfo(1, "3.12", "/usr/bin/python3", "Linux", None, None, 8, 7, ())

        async def exchange(self, make, *_):
            return message("files", id=1, folder="/far/cache", **space)

        async def run(self, request):
            if isinstance(says, str):
                raise JobError(Failure("unsupported", f"Python 3.12 at python has no module '{says}'."))
            return WorkerInfo(1, "3.12", "python", "Linux", "2", "3", 8, 7, says)

    ended = []

    @asynccontextmanager
    async def reach(target, **_):
        try:
            yield Told()
        finally:
            ended.append(target)

    monkeypatch.setattr(doctor_reaching, "reach", reach)

    async def run():
        checks = await reaching_checks(Target("lab", command=("sh",), arch=arch))
        assert len(ended) == 1  # the worker, wherever the steps end
        return checks

    checks = asyncio.run(run())
    assert [check.name for check in checks][:4] == ["resolve", "connect", "python", "disk"]
    failed = [check.name for check in checks if not check.ok and not check.optional]
    assert failed == ([ends] if ends else [])
    assert mend in checks[-1].mend
    if ends:
        assert checks[-1].name == ends
    if space.get("scratch"):
        assert "no cache can be kept there" in checks[3].detail
    if len(says) == 2:
        assert checks[-1].detail == "2: H200"


@pytest.mark.parametrize(
    ("here", "default", "picks"),
    [
        (GPU, "lab", "local"),
        ((), "lab", "lab"),
        (None, "lab", "lab"),
        ((), "auto", "offline"),
        (None, "auto", TargetUnreachable),
        ((), "offline", "offline"),
    ],
)
def test_auto_picks_a_local_gpu_then_the_configured_default(tmp_path, monkeypatch, here, default, picks):
    from contextlib import asynccontextmanager

    class Told:
        """A worker of a machine whose GPUs are known."""

        def __init__(self, gpus):
            self.hello = WorkerInfo(1, "3", "python", "fake", "2", "3", 2, 1, gpus)

        async def run(self, request):
            assert isinstance(request, Describe)
            return self.hello

    opened = []

    @asynccontextmanager
    async def reach(target, **_):
        if target.name == "local" and here is None:
            raise TargetUnreachable("This is a Mac.")
        opened.append(target.name)
        yield Told(here if target.name == "local" else GPU)
        opened.remove(target.name)

    monkeypatch.setattr(sessions, "reach", reach)
    lab = Target("lab", command=("ssh", "lab"))
    settings = Settings(tmp_path, default_target=default)
    settings = Settings(tmp_path, default_target=default, targets={**settings.targets, "lab": lab})

    async def run():
        async with open_session(settings, "auto") as session:
            assert len(opened) == 1, "a worker that is not used is not kept"
            return session.target.name

    if picks is TargetUnreachable:
        with pytest.raises(TargetUnreachable):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == picks
