"""What a worker costs: connecting, one job there and back, a large result, and the imports of its zygotes.

    python benchmarks/bench_worker.py [PYTHON]

PYTHON is the interpreter of the worker (default: this one).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tritonforge.domain.messages import Program, Record
from tritonforge.domain.target import Target
from tritonforge.jobs import Worker, connect
from tritonforge.targets import ProcessTransport

HANDLERS = """
import sys, time
START = time.monotonic()
from tritonforge.domain.launch import Call, ExactValues, Tensor
from tritonforge.domain.messages import Record, RecordResult

def prepare(kind):
    if WITH_TORCH:
        import torch, triton

def record(request, context):
    size = int(request.name)
    values = ExactValues(bytes(size))
    call = Call("c", "f.py", "f", (Tensor((size,), (1,), "int8", values=values),))
    return RecordResult((call,), (), str(time.monotonic() - START))

HANDLERS = {Record: record}
"""


def request(size: int) -> Record:
    return Record(Program("/", "f.py"), "function", str(size))


def transport(folder: str, python: str | None, *, torch: bool, warm: tuple[str, ...]) -> ProcessTransport:
    name = "handlers_with_torch" if torch else "handlers_without_torch"
    (Path(folder) / f"{name}.py").write_text(HANDLERS.replace("WITH_TORCH", str(torch)))
    return ProcessTransport(Target("bench", python=python), {"handlers": name, "path": [folder], "warm": list(warm)})


async def seconds(worker: Worker, size: int) -> float:
    start = time.perf_counter()
    await worker.run(request(size))
    return time.perf_counter() - start


def show(what: str, value: float, unit: str = "ms") -> None:
    print(f"{what:<58}{value:9.2f} {unit}")


async def main(folder: str, python: str | None) -> None:
    greetings = []
    for _ in range(5):
        reach = transport(folder, python, torch=False, warm=())
        start = time.perf_counter()
        async with connect(reach.target, transport=reach):
            greetings.append((time.perf_counter() - start) * 1e3)
            start = time.perf_counter()
        ending = (time.perf_counter() - start) * 1e3
    show("connect, worker in the cache (median of 5)", statistics.median(greetings))
    show("close", ending)
    reach = transport(folder, python, torch=False, warm=("compile",))
    async with connect(reach.target, transport=reach) as worker:
        show("first job, zygote without torch", 1e3 * await seconds(worker, 0))
        show(
            "one job there and back (median of 300)",
            1e3 * statistics.median([await seconds(worker, 0) for _ in range(300)]),
        )
        start = time.perf_counter()
        await asyncio.gather(*(worker.run(request(0)) for _ in range(300)))
        show("jobs a second, 300 at once", 300 / (time.perf_counter() - start), "/s")
        show(
            "a result of 30 MB (median of 5)",
            1e3 * statistics.median([await seconds(worker, 30_000_000) for _ in range(5)]),
        )
    for warm in (("compile",), ("compile", "interpret")):
        reach = transport(folder, python, torch=True, warm=warm)
        async with connect(reach.target, transport=reach) as worker:
            show(f"first job, zygote with torch and triton ({' + '.join(warm)})", 1e3 * await seconds(worker, 0))
            show(
                "one job there and back (median of 100)",
                1e3 * statistics.median([await seconds(worker, 0) for _ in range(100)]),
            )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(scratch, sys.argv[1] if len(sys.argv) > 1 else None))
