"""Whether times can be believed: A/A repeatability and the latency of a first result, on a GPU.

    python benchmarks/bench_timing.py OUTPUT.json [--seconds 220] [--python PYTHON] [--arch sm_90]

The same kernel under two programs that differ in a comment, 20 times each, by both clocks, on a quiet host and on one
whose threads compile and collect garbage: how often is one called faster or slower than the other? Beside it the same
with `triton.testing.do_bench`, medians of torch's profiler as a reference, and a kernel that really does 5 % less. The
interpreter needs torch and triton; workers are processes of their own, as always.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compile, Describe, Limits, MeasureCeilings, Program, Time, TimeResult
from tritonforge.domain.target import Target
from tritonforge.jobs import JobError, Worker, connect
from tritonforge.profiling.measuring import FINAL_SAMPLES, PROFILE_SAMPLES
from tritonforge.profiling.statistics import ratio_interval, verdict
from tritonforge.targets import ProcessTransport

REPETITIONS = 20
WORKERS = 5
LIMITS = Limits(120.0, 64 << 30)
KERNELS = """
import torch, triton
import triton.language as tl

@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)

@triton.jit
def grow(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 1.5, mask=i < n)

@triton.jit
def count(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(out + (tl.abs(v) * 1000).to(tl.int32) % BINS, 1.0, mask=i < n)

@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + i, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + tl.program_id(0) * cols + i, e / tl.sum(e, 0), mask=i < cols)

@triton.jit
def matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        acc = tl.dot(tl.load(a + rm[:, None] * n + (k + rk)[None, :]), tl.load(b + (k + rk)[:, None] * n + rn), acc)
    tl.store(c + rm[:, None] * n + rn[None, :], acc.to(tl.float16))

SHARE = 1.0

def run_scale(x):
    out, n = torch.empty_like(x), int(x.numel() * SHARE)
    scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

def run_grow(x):
    grow[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x

def run_count(x):
    out = torch.zeros(256, device=x.device)
    count[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BINS=256, BLOCK=1024)
    return out

def run_softmax(x):
    out = torch.empty_like(x)
    softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return out

def run_matmul(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    matmul[(n // 128, n // 128)](a, b, c, n, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
    return c
"""
NOISE = """
import gc, threading, time
END = time.monotonic() + 1.5
def burn():
    while time.monotonic() < END:
        compile("x = [i * i for i in range(100)]\\n" * 50, "noise", "exec")
        gc.collect()
for _ in range(3):
    threading.Thread(target=burn, daemon=True).start()
"""
ELSEWHERE = """
import json, random, statistics, sys, threading, time
import torch, triton
source = sys.argv[1]
sys.path.insert(0, source)
import kernels
cases = json.loads(sys.argv[2])
made = {}
for name, (function, shapes, dtype) in cases.items():
    tensors = [torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype)) for shape in shapes]
    made[name] = (getattr(kernels, function), tensors)
    made[name][0](*tensors)
torch.cuda.synchronize()
flush = torch.rand(64 << 20, device="cuda")
found = {"reference": {}, "do_bench": []}
try:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(30):
            for function, tensors in made.values():
                flush.sum()
                function(*tensors)
        torch.cuda.synchronize()
    events = sorted((e.start_ns(), e.name(), e.duration_ns()) for e in profiler.profiler.kineto_results.events()
                    if e.device_type() == torch.autograd.DeviceType.CUDA)
    wanted = [f.__name__.removeprefix("run_") for f, _ in made.values()]
    ours = [(n, ns) for _, n, ns in events if n in wanted]
    for i, name in enumerate(made):
        row = [ns / 1e3 for j, (n, ns) in enumerate(ours) if j % len(made) == i]
        found["reference"][name] = statistics.median(row)
except Exception as error:
    found["reference_error"] = repr(error)[:300]
def burn(stop):
    while not stop.is_set():
        compile("x = [i * i for i in range(100)]\\n" * 50, "noise", "exec")
for noisy in (False, True):
    stop = threading.Event()
    threads = [threading.Thread(target=burn, args=(stop,), daemon=True) for _ in range(3 if noisy else 0)]
    for thread in threads: thread.start()
    for name in json.loads(sys.argv[3]):
        function, tensors = made[name]
        def once(): return triton.testing.do_bench(
            lambda: function(*tensors), warmup=5, rep=20, return_mode="median") * 1e3
        began = time.time()
        pairs = []
        while len(pairs) < 20 and time.time() - began < 4: pairs.append((once(), once()))
        ratios = [a / b for a, b in pairs]
        found["do_bench"].append({"kernel": name, "noisy": noisy, "repetitions": len(pairs),
            "median_us": statistics.median(t for pair in pairs for t in pair), "ratio": [min(ratios), max(ratios)],
            "beyond_3_percent": sum(abs(r - 1) >= 0.03 for r in ratios)})
    stop.set()
    for thread in threads: thread.join()
print(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """One kernel at one size: its host function and the shapes and type of its arguments."""

    function: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"

    def call(self) -> Call:
        """Return the call to repeat."""
        return Call("c", "kernels.py", self.function, tuple(_tensor(shape, self.dtype) for shape in self.shapes))


CASES = {
    "scale, 4 K elements": Case("run_scale", ((4096,),)),
    "scale, 2 M elements": Case("run_scale", ((1 << 21,),)),
    "scale, 64 M elements": Case("run_scale", ((1 << 26,),)),
    "softmax, 8192 x 1000": Case("run_softmax", ((8192, 1000),)),
    "matmul, 2048": Case("run_matmul", ((2048, 2048),) * 2, "float16"),
    "matmul, 6144": Case("run_matmul", ((6144, 6144),) * 2, "float16"),
    "in place, 16 M elements": Case("run_grow", ((1 << 24,),)),
    "atomics, 4 M elements": Case("run_count", ((1 << 22,),)),
}
FEW = ("scale, 4 K elements", "scale, 64 M elements", "matmul, 2048")


def _tensor(shape: tuple[int, ...], dtype: str) -> Tensor:
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(shape, tuple(strides), dtype)


@dataclasses.dataclass
class Row:
    """What came of one kernel under two equal programs, by one clock, on a quiet or a noisy host."""

    kernel: str
    clock: str
    noisy: bool
    ratios: list[float] = dataclasses.field(default_factory=list)
    intervals: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    medians: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    used: set[str] = dataclasses.field(default_factory=set)
    notes: list[str] = dataclasses.field(default_factory=list)

    def add(self, result: TimeResult, seconds: float) -> None:
        """Take over one repetition."""
        before, after = (program.launches[0].samples for program in result.programs)
        ratio, interval = ratio_interval(before, after)
        self.ratios.append(ratio)
        self.intervals.append(interval)
        self.medians += [statistics.median(before), statistics.median(after)]
        self.seconds.append(seconds)
        self.used.add(result.clock)
        self.notes += [note for note in result.notes if note not in self.notes][: max(0, 8 - len(self.notes))]

    def table(self) -> dict[str, Any]:
        """Return it as numbers."""
        said = [verdict(interval) for interval in self.intervals]
        wrong = [abs(ratio - 1) for ratio, word in zip(self.ratios, said, strict=True) if word != "same"]
        return {
            "kernel": self.kernel,
            "clock": "+".join(sorted(self.used)),
            "asked": self.clock,
            "noisy": self.noisy,
            "repetitions": len(self.ratios),
            "median_us": statistics.median(self.medians),
            "spread": max(self.medians) / min(self.medians) - 1,
            "ratio": [min(self.ratios), max(self.ratios)],
            "false_claims": len(wrong),
            "false_claims_3_percent": sum(size >= 0.03 for size in wrong),
            "half_width": statistics.median((high - low) / 2 for low, high in self.intervals),
            "seconds": statistics.median(self.seconds),
            "notes": self.notes,
        }


class Study:
    """One run: workers, rows, and the time that is left."""

    def __init__(self, folder: Path, python: str | None, arch: str, seconds: float, *, quick: bool) -> None:
        self.folder, self.python, self.arch, self.quick = folder, python, arch, quick
        self.ends = time.perf_counter() + seconds
        self.rows: dict[tuple[str, str, bool], Row] = {}
        self.latency: dict[str, list[float]] = {"cold": [], "process waiting": [], "warm": []}
        self.true_difference: list[tuple[float, tuple[float, float]]] = []
        self.told: dict[str, Any] = {}
        self.fresh = 0
        (folder / "kernels.py").write_text(KERNELS)

    def program(self, *, noisy: bool = False, comment: str = "", share: float = 1.0) -> Program:
        """Return the kernels, with differences that are none (a comment) or are (a share of the work)."""
        text = KERNELS.replace("SHARE = 1.0", f"SHARE = {share}") + (NOISE if noisy else "") + comment
        return Program(str(self.folder), "kernels.py", (("kernels.py", text),))

    async def run(self) -> None:
        """Start one worker after another; each gives latencies and a share of the repetitions."""
        for number in range(WORKERS):
            began = time.perf_counter()
            target = Target("bench", python=self.python)
            transport = ProcessTransport(target, {"warm": ["compile"]})
            async with connect(target, transport=transport, timeout=120.0) as worker:
                if number % 2 == 0:
                    await self._first_result(worker, "cold", began)
                else:
                    await worker.run(Describe(), limits=LIMITS)
                    await self._first_result(worker, "process waiting", time.perf_counter())
                for _ in range(2):
                    await self._first_result(worker, "warm", time.perf_counter())
                if number == 0:
                    self.told["machine"] = await worker.run(Describe(), limits=LIMITS)
                    start = time.perf_counter()
                    self.told["ceilings"] = await worker.run(MeasureCeilings(), limits=LIMITS)
                    self.told["ceilings_s"] = time.perf_counter() - start
                    await self._truly_different(worker)
                await self._repeat(worker, (number + 1) * REPETITIONS // WORKERS)

    async def _first_result(self, worker: Worker, kind: str, began: float) -> None:
        """Compile and time a kernel that was never seen before, as `tritonforge profile` does."""
        self.fresh += 1
        text = KERNELS.replace("* 2.0", f"* {2 + self.fresh / 64 + time.time() % 1e-3}")
        program = Program(str(self.folder), "kernels.py", (("kernels.py", text),))
        call = CASES["scale, 2 M elements"].call()
        await worker.run(Compile(program, call, self.arch, ("scale",)), limits=LIMITS)
        await worker.run(Time((program,), call, ("scale",), PROFILE_SAMPLES), limits=LIMITS)
        self.latency[kind].append(time.perf_counter() - began)

    async def _truly_different(self, worker: Worker) -> None:
        call = CASES["scale, 64 M elements"].call()
        programs = (self.program(), self.program(share=0.95))
        for _ in range(5):
            result = await worker.run(Time(programs, call, samples=FINAL_SAMPLES), limits=LIMITS)
            before, after = (program.launches[0].samples for program in result.programs)
            self.true_difference.append(ratio_interval(before, after))

    async def _repeat(self, worker: Worker, until: int) -> None:
        plan = [(name, "auto", False) for name in CASES]
        if not self.quick:
            plan += [(name, clock, True) for clock in ("auto", "events") for name in FEW]
            plan += [(name, "events", False) for name in FEW]
        for name, clock, noisy in plan:
            row = self.rows.setdefault((name, clock, noisy), Row(name, clock, noisy))
            while len(row.ratios) < until and time.perf_counter() < self.ends:
                programs = (self.program(noisy=noisy), self.program(noisy=noisy, comment="# the same again\n"))
                request = Time(programs, CASES[name].call(), samples=FINAL_SAMPLES, clock=clock)  # type: ignore[arg-type]
                start = time.perf_counter()
                try:
                    result = await worker.run(request, limits=LIMITS)
                except JobError as error:
                    row.notes.append(f"failed: {error}")
                    break
                row.add(result, time.perf_counter() - start)


def elsewhere(folder: Path, python: str | None) -> dict[str, Any]:
    """Time the same kernels with do_bench and with torch's profiler, in a process of their own."""
    cases = {name: (case.function, case.shapes, case.dtype) for name, case in CASES.items()}
    done = subprocess.run(
        [python or sys.executable, "-c", ELSEWHERE, str(folder), json.dumps(cases), json.dumps(FEW)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-2000:]}


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    reference = found["elsewhere"].get("reference", {})
    print(
        f"{'A/A, same kernel twice':<26} clock    host  reps  median us  reference  ratio min-max   claims  >=3%  +-ci"
    )
    for row in found["aa"]:
        low, high = row["ratio"]
        print(
            f"{row['kernel']:<26} {row['clock']:<8} {'noisy' if row['noisy'] else 'quiet'} {row['repetitions']:>5}"
            f" {row['median_us']:>10.2f} {reference.get(row['kernel'], float('nan')):>10.2f}"
            f"  {low:.4f}-{high:.4f} {row['false_claims']:>7} {row['false_claims_3_percent']:>5}"
            f"  {100 * row['half_width']:.2f} %"
        )
    for row in found["elsewhere"].get("do_bench", []):
        low, high = row["ratio"]
        print(
            f"{row['kernel']:<26} do_bench {'noisy' if row['noisy'] else 'quiet'} {row['repetitions']:>5}"
            f" {row['median_us']:>10.2f} {'':>10}  {low:.4f}-{high:.4f} {'':>7} {row['beyond_3_percent']:>5}"
        )
    for ratio, (low, high) in found["five_percent_less_work"]:
        print(f"5 % less work: {ratio:.4f} ({low:.4f}-{high:.4f})")
    for kind, seconds in found["latency_s"].items():
        if seconds:
            worst = f"worst {max(seconds):.2f}, n={len(seconds)}"
            print(f"first result, {kind:<16} {statistics.median(seconds):6.2f} s ({worst})")
    print(f"ceilings in {found['ceilings_s']:.1f} s: {found['ceilings']}")
    if error := found["elsewhere"].get("error") or found["elsewhere"].get("reference_error"):
        print("elsewhere:", error)


def main() -> int:
    """Measure, write, print; 1 when the same kernel was called different at 3 % or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=220.0, help="stop repeating after so long")
    parser.add_argument("--python", help="interpreter of the workers (default: this one)")
    parser.add_argument("--arch", default="sm_90", help="of the GPU, as `tritonforge doctor` names it")
    parser.add_argument("--quick", action="store_true", help="the default clock on a quiet host, no other tools")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        study = Study(Path(scratch), options.python, options.arch, options.seconds, quick=options.quick)
        began = time.perf_counter()
        asyncio.run(study.run())
        other = {} if options.quick else elsewhere(Path(scratch), options.python)
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": {**dataclasses.asdict(study.told["machine"]), "executable": "", "platform": ""},
        "latency_s": study.latency,
        "aa": [row.table() for row in study.rows.values() if row.ratios],
        "five_percent_less_work": study.true_difference,
        "ceilings": {**dataclasses.asdict(study.told["ceilings"]), "tflops": dict(study.told["ceilings"].tflops)},
        "ceilings_s": study.told["ceilings_s"],
        "elsewhere": other,
        "seconds": time.perf_counter() - began,
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    show(found)
    return 1 if any(row["false_claims_3_percent"] for row in found["aa"]) else 0


if __name__ == "__main__":
    sys.exit(main())
