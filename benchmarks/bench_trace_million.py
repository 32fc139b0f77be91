"""A million launches of a traced program on a machine without a GPU: how much memory, disk and time they take.

    python benchmarks/bench_trace_million.py [--launches 1000000] [-o RESULT.json]

Needs torch and triton in the interpreter that runs it, and no GPU; takes some minutes. Each row is a process of its own
that is traced, with a GPU pretended: launches go through all of the recording, and no kernel runs. So the time is what
recording and pretending take together; on a GPU a launch that was seen before costs less (`bench_trace_overhead.py`).
Growth is of resident memory after the first thousand launches, at its most. Exits with 1 when it is above 64 MiB, when
what was spooled is above 130 MB, or when a launch is missing from the count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tritonforge.workload.tracing import trace_command
from tritonforge.workload.tracing_injection import Injection

KERNEL = """
@triton.jit
def scale_{}(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


"""

PROGRAM = """
import json
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl


KERNELS
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


distinct, launches, report = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
kernels = [value for name, value in globals().items() if name.startswith("scale_")]
shapes = distinct // len(kernels)
# Views of one storage: the program's own memory does not grow with its shapes.
storage = torch.ones(shapes + 1, device="cuda")
views = [(storage[: n + 1], (triton.cdiv(n + 1, 256),)) for n in range(shapes)]


def run(start, stop):
    for i in range(start, stop):
        n = i // len(kernels) % shapes
        x, grid = views[n]
        kernels[i % len(kernels)][grid](x, x, n + 1, BLOCK=256)


run(0, 1000)
before, began = resident(), time.perf_counter()
most = before
for start in range(1000, launches, 5000):
    run(start, min(launches, start + 5000))
    most = max(most, resident())
took = time.perf_counter() - began
report.write_text(json.dumps({"seconds": took, "before": before, "most": most}))
"""

MAX_GROWTH = 64 << 20
MAX_SPOOL = 130 * 10**6
SPOOLS = (".records", ".counts")


def traced(kernels: int, distinct: int, launches: int, root: Path) -> dict[str, Any]:
    """Trace a program that makes `distinct` launches of `kernels` kernels in turn, `launches` in all; return a row."""
    program, report = root / "program.py", root / "report.json"
    program.write_text(PROGRAM.replace("KERNELS", "".join(KERNEL.format(i) for i in range(kernels))))
    spooled: list[int] = []

    def look(injection: Injection) -> None:
        spooled.append(sum(file.stat().st_size for file in injection.folder.rglob("*") if file.suffix in SPOOLS))

    command = (sys.executable, str(program), str(distinct), str(launches), str(report))
    done = trace_command(command, root, look=look)
    if done.exit_code:
        raise SystemExit(f"the program with {distinct} distinct launches ended with {done.exit_code}.")
    told = json.loads(report.read_text())
    return {
        "kernels": kernels,
        "distinct": distinct,
        "launches": launches,
        "seconds": round(told["seconds"], 2),
        "us_a_launch": round(told["seconds"] / (launches - 1000) * 1e6, 2),
        "rss_before_bytes": told["before"],
        "rss_growth_bytes": told["most"] - told["before"],
        "spool_bytes": spooled[0],
        "distinct_kept": len(done.trace.launches),
        "counted_with_kept": sum(one.launch.count for one in done.trace.launches),
        "counted_beyond": done.trace.beyond,
        "failures": [one.reason for one in done.trace.failures],
    }


def main() -> int:
    """Measure both programs, print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    rows: list[dict[str, Any]] = []
    for kernels, distinct in ((1, 1), (1, 10_000), (40, 10_000)):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(traced(kernels, distinct, options.launches, Path(folder)))
        print(json.dumps(rows[-1], indent=1), flush=True)
        if options.output:
            environment = {
                "python": platform.python_version(), "torch": version("torch"), "triton": version("triton"),
                "machine": platform.machine(), "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d"),
            }  # fmt: skip
            options.output.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1) + "\n")
    missing = [row for row in rows if row["counted_with_kept"] + row["counted_beyond"] != row["launches"]]
    large = [row for row in rows if row["rss_growth_bytes"] > MAX_GROWTH or row["spool_bytes"] > MAX_SPOOL]
    return int(bool(missing or large))


if __name__ == "__main__":
    sys.exit(main())
