"""How often `check` cries wolf, and how often it sees a kernel that became 5 % slower: measured, on a GPU.

    python benchmarks/bench_check.py OUTPUT.json [--target NAME] [--seconds 220] [--alarms 200] [--slow 100]

Eight kernels get a baseline, as `tritonforge check --update` makes it, from one worker. Then other workers check them,
as `tritonforge check` does:

- A/A: a version that differs in a comment alone. Whatever is not `ok` is a false alarm.
- Injected: a version that really does more work, by a larger problem or more rounds of a loop. How much more makes it
  5 % slower is found by measuring first, the two side by side, and the ratio that was reached is written beside every
  verdict. Whatever is not `regressed` is a miss.

`--target offline` runs the same without a GPU, in the compiled form of `check`, as a test of the script: there the
injected version has other tiles, and its times are predicted.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.diagnosis.inspect_many import Part
from tritonforge.domain.baseline import Baseline, Comparison
from tritonforge.domain.launch import Call, Tensor
from tritonforge.jobs.session import Session, open_session
from tritonforge.profiling.measuring import measure
from tritonforge.pytest_plugin.subjects import GivenCalls
from tritonforge.regression.checking import Check
from tritonforge.regression.judging import Options
from tritonforge.regression.subjects import Checked
from tritonforge.store import Store, open_store
from tritonforge.workload.launches import to_launch

FILE = "kernels.py"
WORKERS = 5
CALIBRATIONS = 4
WANTED = 1.05
CLOSE = 0.003
KERNELS = """
import torch, triton
import triton.language as tl

# How much of the work is done: rounds of two kernels' loops, programs of the others.
MORE = {more}
{constants}
@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)

@triton.jit
def grow_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 1.0001, mask=i < n)

@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + i, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + tl.program_id(0) * cols + i, e / tl.sum(e, 0), mask=i < cols)

@triton.jit
def sum_kernel(x, out, cols, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + tl.program_id(0) * cols + i, mask=i < cols, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(total, 0))

@triton.jit
def transpose_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < rows) & (c[None, :] < cols)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=m)
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(v), mask=tl.trans(m))

@triton.jit
def matmul_kernel(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n + MATMUL_EXTRA, BK):
        at = k % n  # more depth than there is goes round again
        acc = tl.dot(tl.load(a + rm[:, None] * n + (at + rk)[None, :]), tl.load(b + (at + rk)[:, None] * n + rn), acc)
    tl.store(c + rm[:, None] * n + rn[None, :], acc.to(tl.float16))

@triton.jit
def powers_kernel(x, out, rounds, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    for _ in range(rounds + POWERS_EXTRA):
        v = v * 0.999 + 0.001
    tl.store(out + i, v)

@triton.jit
def gather_kernel(x, index, out, cols, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * cols + i, tl.load(x + row * cols + i, mask=i < cols), mask=i < cols)

def more(name, count):
    # The arguments of the launch stay as they are: a larger grid, or another constant, is what a bad edit makes.
    return round(count * MORE.get(name, 1.0))

def run_scale(x):
    out = torch.empty_like(x)
    grid = triton.cdiv(x.numel() // 2, 1024)
    scale_kernel[(more("scale", grid),)](x, out, x.numel(), BLOCK=1024)
    return out

def run_grow(x):
    grid = triton.cdiv(x.numel() // 2, 1024)
    grow_kernel[(more("grow", grid),)](x, x.numel(), BLOCK=1024)
    return x

def run_softmax(x):
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    softmax_kernel[(more("softmax", x.shape[0] // 2),)](x, out, x.shape[1], BLOCK=block, num_warps=8)
    return out

def run_sum(x):
    out = torch.empty(x.shape[0], device=x.device)
    sum_kernel[(more("sum", x.shape[0] // 2),)](x, out, x.shape[1], BLOCK=2048, num_warps=8)
    return out

def run_transpose(x):
    out = torch.empty((x.shape[1], x.shape[0]), device=x.device, dtype=x.dtype)
    grid = (more("transpose", x.shape[0] // 128), triton.cdiv(x.shape[1], 64))
    transpose_kernel[grid](x, out, x.shape[0], x.shape[1], BLOCK=64)
    return out

def run_matmul(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    matmul_kernel[(n // 128, n // 128)](a, b, c, n, BM=128, BN=128, BK=32, num_warps=8, num_stages=4)
    return c

def run_powers(x):
    out = torch.empty_like(x)
    powers_kernel[(x.numel() // 1024,)](x, out, 400, BLOCK=1024)
    return out

def run_gather(x, index):
    out = torch.empty((index.numel(), x.shape[1]), device=x.device, dtype=x.dtype)
    gather_kernel[(more("gather", index.numel() // 2),)](x, index, out, x.shape[1], BLOCK=1024)
    return out
"""


def _tensor(shape: Sequence[int], dtype: str = "float32", **more: Any) -> Tensor:
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype, **more)


def _index(rows: int, of: int) -> Tensor:
    from tritonforge.domain.launch import Distribution

    return _tensor((rows,), "int64", values=Distribution("uniform", low=0, high=of - 1))


CASES: dict[str, tuple[Tensor, ...]] = {
    "scale": (_tensor((1 << 26,)),),
    "grow": (_tensor((1 << 25,)),),
    "softmax": (_tensor((16384, 1000)),),
    "sum": (_tensor((8192, 8192)),),
    "transpose": (_tensor((8192, 4096)),),
    "matmul": (_tensor((4096, 4096), "float16"), _tensor((4096, 4096), "float16")),
    "powers": (_tensor((1 << 23,)),),
    "gather": (_tensor((65536, 1024)), _index(32768, 65536)),
}
"""Of each kernel half of the data is worked on, so that 5 % more of it is there. From about 10 µs to 200 µs."""


def text_of(more: dict[str, float], comment: str = "") -> str:
    """Return the kernels with so much more work of each, by name."""
    extra = {name: max(0.0, more.get(name, 1.0) - 1.0) for name in ("matmul", "powers")}
    # Never none: with nothing added Triton makes other code of the loop, which took 1.2 times as long on an H200.
    constants = f"MATMUL_EXTRA = tl.constexpr({32 + round(4096 * extra['matmul'] / 32) * 32})\n"
    constants += f"POWERS_EXTRA = tl.constexpr({round(400 * extra['powers'])})\n"
    return KERNELS.replace("{more}", repr(more)).replace("{constants}", constants) + comment


@dataclasses.dataclass
class Bench:
    """One run: the workspace, the baseline, what was calibrated, and every verdict."""

    root: Path
    target: str | None
    store: Store
    baseline: Baseline = dataclasses.field(default_factory=Baseline)
    more: dict[str, float] = dataclasses.field(default_factory=dict)
    reached: dict[str, float] = dataclasses.field(default_factory=dict)
    alarms: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    injected: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    told: dict[str, Any] = dataclasses.field(default_factory=dict)

    def parts(self, text: str) -> list[Part]:
        """Return every kernel of a version with the call that launches it."""
        analysis = analyze(text, FILE)
        settings = load(self.root)
        made = []
        for name, arguments in CASES.items():
            call = Call(name, FILE, f"run_{name}", arguments)
            given = GivenCalls(str(self.root), analysis, text, settings, (call,))
            (kernel,) = [k for k in analysis.kernels if k.name == f"{name}_kernel"]
            made.append(Part(given, (kernel,), named=True))  # type: ignore[arg-type]
        return made

    async def look(self, session: Session, text: str, *, update: bool) -> Check:
        """Do what the command does, up to the measurement."""
        check = Check(session, self.store, self.baseline, Options(gate=False))
        await check.look(self.parts(text), update=update)
        return check

    async def check(self, session: Session, text: str) -> tuple[tuple[Comparison, ...], float]:
        """Check every kernel of a version, and say how long that took."""
        began = time.perf_counter()
        check = await self.look(session, text, update=False)
        return await check.compare(), time.perf_counter() - began

    async def calibrate(self, kernels: Sequence[Checked], session: Session) -> None:
        """Find how much more work makes each kernel `WANTED` times as slow, measured side by side."""
        self.more = dict.fromkeys(CASES, WANTED)
        for number in range(CALIBRATIONS):
            for one in kernels:
                await self._calibrate(one, session, adjust=number < CALIBRATIONS - 1)

    async def _calibrate(self, one: Checked, session: Session, *, adjust: bool) -> None:
        name = one.kernel.name.removesuffix("_kernel")
        if abs(self.reached.get(name, 0.0) / WANTED - 1.0) < CLOSE:
            return
        programs = [one.subject.program(text_of({})), one.subject.program(text_of(self.more))]
        (before, after), _ = await measure(
            session.worker, programs, one.subject.calls, kernel=one.kernel.name,
            identify=lambda launch: to_launch(one.kernel, launch).id, samples=60, budget_s=5.0,
        )  # fmt: skip
        ratios = [b / a for a, b in zip(before.total(), after.total(), strict=True)]
        self.reached[name] = sorted(ratios)[len(ratios) // 2]
        off = abs(self.reached[name] / WANTED - 1.0) >= CLOSE
        if adjust and off and self.reached[name] > 1.001:
            self.more[name] = 1.0 + (self.more[name] - 1.0) * (WANTED - 1.0) / (self.reached[name] - 1.0)


def _row(one: Comparison, number: int, seconds: float) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "check": number,
        "status": one.status,
        "doubtful": one.doubtful,
        "ratio": one.ratio,
        "interval": one.ratio_ci95,
        "smallest": one.smallest,
        "before_us": one.before_us,
        "after_us": one.after_us,
        "reasons": one.reasons,
        "notes": one.notes,
        "seconds": seconds,
    }


async def study(bench: Bench, seconds: float, alarms: int, slow: int) -> None:
    """Make the baseline, calibrate, and check until there are enough verdicts or the time is over."""
    ends = time.perf_counter() + seconds
    settings = load(bench.root)
    async with open_session(settings, bench.target) as session:
        bench.told["target"] = dataclasses.asdict(session.info)
        bench.told["measured"] = session.measures
        check = await bench.look(session, text_of({}), update=True)
        bench.told["errors"] = {scope[1]: why for scope, why in check.times.errors.items()}
        bench.baseline = check.updated()
        if session.measures:
            await bench.calibrate(check.kernels, session)
        else:
            bench.more = dict.fromkeys(CASES, 1.3)
    versions = [(text_of({}, "# the same again\n"), bench.alarms, alarms), (text_of(bench.more), bench.injected, slow)]
    number = 0
    for worker in range(WORKERS):
        async with open_session(settings, bench.target) as session:
            share = (worker + 1) / WORKERS
            while time.perf_counter() < ends:
                left = [v for v in versions if len(v[1]) < v[2] * share]
                if not left:
                    break
                # The one that is further behind comes next, so that whatever the time allows is in proportion.
                text, rows, _ = min(left, key=lambda version: len(version[1]) / version[2])
                found, took = await bench.check(session, text)
                number += 1
                rows += [_row(one, number, took / max(len(found), 1)) for one in found]


def is_false(row: dict[str, Any]) -> bool:
    """Tell whether a verdict on an unchanged kernel would fail a check, or claims something that is not so."""
    return row["status"] in {"regressed", "improved"} or (row["status"] == "error" and not row["doubtful"])


def of_kernel(bench: Bench, name: str) -> dict[str, Any]:
    """Return the numbers of one kernel."""
    mine, slow = ([r for r in rows if r["kernel"] == f"{name}_kernel"] for rows in (bench.alarms, bench.injected))
    entry = next((one for one in bench.baseline.entries if one.kernel == f"{name}_kernel"), None)
    ratios = [row["ratio"] for row in mine if row["ratio"]]
    return {
        "baseline_us": entry.time.median if entry and entry.time else None,
        "baseline_runs": list(entry.time.medians) if entry and entry.time else None,
        "aa_checks": len(mine),
        "aa_ratio": [min(ratios), max(ratios)] if ratios else None,
        "false_alarms": sum(map(is_false, mine)),
        "doubtful": sum(row["doubtful"] for row in mine),
        "injected_more_work": bench.more.get(name),
        "injected_slowdown": bench.reached.get(name),
        "injected_checks": len(slow),
        "found": sum(row["status"] == "regressed" for row in slow),
    }


def table(bench: Bench, seconds: float) -> dict[str, Any]:
    """Return all of it as numbers."""
    false = [row for row in bench.alarms if is_false(row)]
    missed = [row for row in bench.injected if row["status"] != "regressed"]
    times = sorted(row["seconds"] for row in bench.alarms)
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        **bench.told,
        "aa": {
            "checks": len(bench.alarms),
            "false_alarms": len(false),
            "doubtful": sum(row["doubtful"] for row in bench.alarms),
        },
        "injected": {"checks": len(bench.injected), "found": len(bench.injected) - len(missed)},
        "kernels": {name: of_kernel(bench, name) for name in CASES},
        "not_as_wanted": false + missed,
        "seconds_per_check": times[len(times) // 2] if times else None,
        "seconds": seconds,
    }


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"{'kernel':<10} baseline us   A/A checks  false alarms   injected   found  of")
    for name, row in found["kernels"].items():
        time_us = f"{row['baseline_us']:11.2f}" if row["baseline_us"] else "  predicted"
        slowdown = row["injected_slowdown"]
        injected = f"{slowdown:8.4f}x" if slowdown else f"{row['injected_more_work']:8.2f}w"
        counts = f"{row['aa_checks']:>12} {row['false_alarms']:>13}  {injected} {row['found']:>7}"
        print(f"{name:<10} {time_us} {counts} {row['injected_checks']:>3}")
    aa, injected = found["aa"], found["injected"]
    print(f"{aa['false_alarms']} false alarms in {aa['checks']} A/A checks ({aa['doubtful']} doubtful)")
    print(f"{injected['found']} of {injected['checks']} injected slowdowns found")


def main() -> int:
    """Measure, write, print; 1 when either rate is not what the issue asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", help="auto, local, offline, or a name of tritonforge.toml in this folder")
    parser.add_argument("--seconds", type=float, default=220.0, help="begin no further check after so long")
    parser.add_argument("--alarms", type=int, default=200, help="A/A verdicts wanted")
    parser.add_argument("--slow", type=int, default=100, help="verdicts on slowed kernels wanted")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        own = Path("tritonforge.toml")
        (root / "tritonforge.toml").write_text(own.read_text() if own.is_file() else "")
        (root / FILE).write_text(text_of({}))
        with open_store(root) as store:
            bench = Bench(root, options.target, store)
            asyncio.run(study(bench, options.seconds, options.alarms, options.slow))
    found = table(bench, time.perf_counter() - began)
    options.output.write_text(json.dumps(found, indent=1, default=list) + "\n", encoding="utf-8")
    show(found)
    enough = found["aa"]["checks"] > 0 and found["injected"]["checks"] > 0
    quiet = found["aa"]["false_alarms"] * 200 <= max(found["aa"]["checks"], 200)
    sees = found["injected"]["found"] >= 0.95 * found["injected"]["checks"]
    return 0 if enough and quiet and sees else 1


if __name__ == "__main__":
    sys.exit(main())
