"""The way to a target behind a command, step by step: the first that fails is the one to mend."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncGenerator
from pathlib import PurePath

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import message
from tritonforge.domain.messages import Describe
from tritonforge.domain.results import DoctorCheck
from tritonforge.domain.target import Target
from tritonforge.jobs import JobError
from tritonforge.jobs.client import Worker
from tritonforge.jobs.reach import reach
from tritonforge.targets.process import end_session

_SSH_SHOWN = ("user", "hostname", "port", "proxyjump")
_SSH_S = 10.0
_LEAST_FREE = 1 << 30
_PINGS = 3


async def reaching_checks(target: Target) -> list[DoctorCheck]:
    """Return what was tried on the way to `target`, up to and with the first step that fails."""
    checks: list[DoctorCheck] = []
    # A generator that is only left is closed later, and not at all where the event loop ends first: the worker with it.
    async with contextlib.aclosing(_steps(target)) as steps:
        async for check in steps:
            checks.append(check)
            if not check.ok and not check.optional:
                break
    return checks


async def _steps(target: Target) -> AsyncGenerator[DoctorCheck, None]:
    yield await _resolve(target)
    began = time.monotonic()
    try:
        async with reach(target, warm=("compile",)) as worker:
            took = time.monotonic() - began
            rtt = min([await _round_trip(worker) for _ in range(_PINGS)])
            yield DoctorCheck("connect", ok=True, detail=f"in {took:.1f} s; a round trip takes {1000 * rtt:.1f} ms")
            hello = worker.hello
            yield DoctorCheck(
                "python",
                ok=True,
                detail=f"{hello.python} at {hello.executable} on {hello.platform}, {hello.cores} cores",
            )
            yield await _disk(worker)
            if (check := await _packages(worker, target)) is not None:
                yield check
    except TargetUnreachable as error:
        yield DoctorCheck("connect", ok=False, detail=error.message, mend=error.mend)


async def _resolve(target: Target) -> DoctorCheck:
    program = target.command[0]
    found = shutil.which(program)
    if found is None or any("\0" in part for part in target.command):
        return DoctorCheck(
            "resolve", ok=False, detail=f"{program} is not there", mend=f"Install {program}, or correct `command`."
        )
    if PurePath(program).name != "ssh":
        return DoctorCheck("resolve", ok=True, detail=found)
    # ssh itself says what the user's configuration makes of the host, without going there.
    process = await asyncio.create_subprocess_exec(
        found, "-G", *target.command[1:],
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # what it runs (Match exec) holds its pipes open, and has to end with it
    )  # fmt: skip
    try:
        out, errors = await asyncio.wait_for(process.communicate(), _SSH_S)
    except TimeoutError:
        return DoctorCheck("resolve", ok=False, detail="ssh -G does not end", mend="See what ~/.ssh/config runs.")
    finally:  # also when whoever asks is cancelled
        await end_session(process)
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip().splitlines()
        return DoctorCheck(
            "resolve", ok=False, detail=said[-1] if said else "ssh refuses its arguments", mend="Correct `command`."
        )
    settings = dict(line.split(" ", 1) for line in out.decode("utf-8", "replace").splitlines() if " " in line)
    shown = [f"{name} {settings[name]}" for name in _SSH_SHOWN if settings.get(name, "none") != "none"]
    return DoctorCheck("resolve", ok=True, detail=f"ssh to {', '.join(shown)}")


async def _round_trip(worker: Worker) -> float:
    began = time.monotonic()
    await worker.exchange(lambda number: message("ping", id=number))
    return time.monotonic() - began


async def _disk(worker: Worker) -> DoctorCheck:
    answer = await worker.exchange(lambda number: message("space", id=number))
    folder, free = answer.header.get("folder"), answer.header.get("free")
    if not isinstance(free, int):
        return DoctorCheck("disk", ok=True, detail="not known", optional=True)
    shown = f"{free / (1 << 30):.1f} GiB free at {folder}"
    if answer.header.get("scratch"):
        return DoctorCheck(
            "disk", ok=False, optional=True, detail=f"no cache can be kept there, so all is sent each time; {shown}",
            mend="Make ~/.cache writable there and the user's own, or set TRITONFORGE_CACHE_DIR.",
        )  # fmt: skip
    enough = free >= _LEAST_FREE
    return DoctorCheck(
        "disk", ok=enough, detail=shown, mend="" if enough else "Make room there, or set TRITONFORGE_CACHE_DIR."
    )


async def _packages(worker: Worker, target: Target) -> DoctorCheck | None:
    try:
        described = await worker.run(Describe())
    except JobError as error:
        said = error.failure.message
        missing = "triton" if "'triton'" in said else "torch"
        mend = "" if "Install" in said or "Reinstall" in said else "Install torch and triton there."
        return DoctorCheck(missing, ok=False, detail=said, mend=mend)
    if target.arch is None and not described.gpus:
        return DoctorCheck(
            "gpu", ok=False, detail="; ".join(described.problems) or "PyTorch sees no GPU there",
            mend="See what nvidia-smi says there (containers need --gpus all), or give the target an arch.",
        )  # fmt: skip
    if len(described.gpus) > 1:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in described.gpus))
        return DoctorCheck("gpus", ok=True, detail=f"{len(described.gpus)}: {names}")
    return None
