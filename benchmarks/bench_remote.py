"""What a machine elsewhere costs: the time to the first result, and what a job takes beyond a round trip.

    python benchmarks/bench_remote.py [--ssh HOST] [--jobs N]

Without arguments, a line that delays is put before a worker on this machine, and an SSH server with throw-away keys is
started on loopback (where sshd is installed). With --ssh, the same is measured on a host of yours.

    overhead    the median of N jobs that do nothing, less 1.2 × the round trip that a ping takes: below 5 ms is wanted.
                Pings and jobs take turns, so that both see the same machine.
    cold        from nothing to the first compiled launch over SSH, the worker's archive being there: below 10 s; told
                beside it, what `import torch, triton` alone takes there in a Python that is started for it

Numbers of a busy machine say little: its load is printed first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tritonforge.diagnosis.probe import SMALL, probe_program
from tritonforge.domain.frames import message
from tritonforge.domain.messages import Compile, Describe, Limits, Program, Record
from tritonforge.domain.target import Target
from tritonforge.jobs import Worker
from tritonforge.jobs.reach import reach
from tritonforge.targets.ssh import never_asking

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "remote"))

from remote_support import Door, Line, far, over, running_sshd, why_no_sshd  # noqa: E402

_DELAYS_MS = (0, 5, 25, 100)


async def _ping(worker: Worker) -> float:
    begun = time.perf_counter()
    await worker.exchange(lambda number: message("ping", id=number))
    return time.perf_counter() - begun


async def _job(worker: Worker, request: Record) -> float:
    begun = time.perf_counter()
    await worker.run(request)
    return time.perf_counter() - begun


async def _in_turns(worker: Worker, request: Record, count: int) -> tuple[float, float]:
    """Return the medians of a ping and of a job, in seconds, once all that is started late has been."""
    await worker.run(request)
    await _ping(worker)
    pairs = [(await _ping(worker), await _job(worker, request)) for _ in range(count)]
    trips, jobs = zip(*pairs, strict=True)
    return statistics.median(trips), statistics.median(jobs)


def _workspace(folder: Path) -> Path:
    """A workspace of twenty modules that a kernel's file imports."""
    root = folder / "workspace"
    root.mkdir()
    for number in range(20):
        (root / f"part{number}.py").write_text(f"VALUE = {number}\n" * 40)
    (root / "kernels.py").write_text("".join(f"import part{number}\n" for number in range(20)))
    return root


async def overheads(root: Path, door: Door, count: int) -> None:
    """Print what a job takes beyond its round trip, for several delays of the line."""
    request = Record(
        Program(str(root), "kernels.py", (("kernels.py", (root / "kernels.py").read_text()),)), "function", "echo"
    )
    print(f"{'delay':>8} {'round trip':>12} {'a job':>10} {'beyond 1.2 x round trip':>26}")
    for delay in _DELAYS_MS:
        line = Line(door.port, delay=delay / 2000)
        try:
            async with far(over(line.port)) as worker:
                jobs = count if delay < 50 else max(5, count // 4)
                trip, job = await _in_turns(worker, request, jobs)
        finally:
            line.close()
        beyond = job - 1.2 * trip
        good = "ok" if beyond < 0.005 else "MORE than 5 ms"
        print(f"{delay:>5} ms {1000 * trip:>9.2f} ms {1000 * job:>7.2f} ms {1000 * beyond:>15.2f} ms  {good}")


async def cold(target: Target, folder: Path) -> None:
    """Print the time from nothing to the first compiled launch, twice: the second finds the worker in the cache."""
    for words in ("the archive sent", "a warm cache"):
        begun = time.perf_counter()
        async with reach(target, limits=Limits(120.0)) as worker:
            connected = time.perf_counter() - begun
            described = await worker.run(Describe())
            told = time.perf_counter() - begun
            result = await worker.run(Compile(probe_program(folder), SMALL, "sm_90", artefacts=()))
            first = time.perf_counter() - begun
            trip = statistics.median([await _ping(worker) for _ in range(20)])
        assert result.launches[0].error is None, result.launches[0].error
        print(
            f"{target.name}, {words}: connected {connected:.2f} s, torch {described.torch} imported {told:.2f} s, "
            f"first compiled launch {first:.2f} s ({'ok' if first < 10 else 'MORE than 10 s'}), "
            f"round trip {1000 * trip:.2f} ms"
        )


def imports(target: Target) -> None:
    """Print what the imports that nobody can shorten take there, with the connection that they are asked for over."""
    begun = time.perf_counter()
    program = "import torch, triton"
    if target.command:
        line = [*never_asking(target.command), shlex.join([target.python or "python3", "-c", program])]
    else:
        line = [target.python or sys.executable, "-c", program]
    subprocess.run(line, check=True, stdin=subprocess.DEVNULL)
    print(f"{target.name}, a Python that only imports torch and triton: {time.perf_counter() - begun:.2f} s")


async def _main(host: str | None, count: int) -> None:
    print(f"load of this machine: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tritonforge-bench-")))
        probe = folder / "probe"
        probe.mkdir()
        if host is not None:
            target = Target(host, command=("ssh", "-T", "--", host), quoting="shell")
            await cold(target, probe)
            imports(target)
            return
        home = folder / "home"
        home.mkdir()
        await overheads(_workspace(folder), Door(home), count)
        if why := why_no_sshd():
            print(f"cold connect not measured: {why}")
            return
        server = stack.enter_context(running_sshd(folder / "sshd", {"XDG_CACHE_HOME": str(folder / "far")}))
        await cold(server.target(), probe)
        imports(server.target())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ssh", metavar="HOST")
    parser.add_argument("--jobs", type=int, default=100)
    given = parser.parse_args()
    asyncio.run(_main(given.ssh, given.jobs))
