"""What tests with real workers share: interpreters, a way to run a job, and a look at what was left behind."""

import asyncio
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from tritonforge.domain.messages import Limits, Program, Record
from tritonforge.domain.target import Target
from tritonforge.jobs import JobError, connect
from tritonforge.targets import ProcessTransport

HERE = Path(__file__).parent
MARK = "TRITONFORGE_TEST_MARK"


def transport(python=None, command=(), log=None, **options):
    """A worker with handlers that misbehave on demand, and need no torch."""
    chosen = {"handlers": "worker_core_handlers", "path": [str(HERE)], "lanes": 2, "warm": ["compile"], **options}
    return ProcessTransport(Target("test", command=command, python=python), chosen, log)


def worker(python=None, command=(), log=None, timeout=20.0, **options):
    reach = transport(python, command, log, **options)
    return connect(reach.target, transport=reach, timeout=timeout)


def job(action):
    return Record(Program("/", "f.py"), "function", action)


def do(action, python=None, limits=None, **options):
    """Run one job on a worker of its own, and return what it says."""

    async def run():
        async with worker(python, **options) as connected:
            return (await connected.run(job(action), limits=limits)).output

    return asyncio.run(run())


async def failure_of_request(connected, request, limits=None):
    with pytest.raises(JobError) as caught:
        await connected.run(request, limits=limits)
    return caught.value.failure


async def failure_of(connected, action, **limits):
    return await failure_of_request(connected, job(action), Limits(**limits) if limits else None)


def find_python(version):
    """An interpreter of `version` on this machine, None when there is none."""
    if found := shutil.which(f"python{version}"):
        works = subprocess.run([found, "-c", ""], capture_output=True, check=False)  # pyenv's shims may refuse
        if works.returncode == 0:
            return found
    for candidate in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        return str(candidate)
    uv = shutil.which("uv")
    if uv:
        asked = subprocess.run(
            [uv, "python", "find", "--offline", version], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return None


def marked(mark):
    """The processes that have `mark` in the environment they started with."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append((int(folder.name), (folder / "cmdline").read_bytes()[:80]))
            except OSError:
                continue
    return found


def assert_nothing_left(mark, seconds=4.0):
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


async def until(condition, seconds=5.0):
    """Wait until `condition()` holds; say whether it ever did."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def is_running(pid):
    return Path(f"/proc/{pid}").exists()


def new_mark(monkeypatch):
    """Mark every process that this test starts from here on."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    return mark


def named(mark, name):
    """The one marked process that calls itself `name`."""
    (pid,) = [pid for pid, _ in marked(mark) if _own_name(pid).startswith(name)]
    return pid


def _own_name(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has ended since
        return ""
