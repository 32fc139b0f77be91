"""`doctor` on the way to a target, and what `auto` picks."""

import asyncio
import shutil
import stat
import sys

import pytest
from remote_support import elsewhere

from tritonforge.config import Settings
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
