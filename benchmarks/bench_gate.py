"""Time the correctness gate on the examples, phase by phase.

`python benchmarks/bench_gate.py [--target T] [OUTPUT.json]`

Each example is judged against itself with other launch parameters. The first candidate pays for what is found out about
the original; the second, with other parameters again, is what a further candidate of a search costs. Times are wall
seconds of the gate, without the worker's start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import environment

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.jobs.session import Session, open_session
from tritonforge.verify import Gate
from tritonforge.workload.specs import parse_spec
from tritonforge.workload.subject import Subject

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """An example, the call that it is judged on, and what two candidates change."""

    file: str
    function: str
    spec: str
    candidates: tuple[tuple[tuple[str, str], ...], ...]


CASES = (
    Case(
        "matmul.py",
        "matmul",
        "a=fp16[4096, 4096] b=fp16[4096, 4096]",
        tuple(
            (("32, BLOCK_K=32", f"{n}, BLOCK_K=32"), ("triton.cdiv(N, 32)", f"triton.cdiv(N, {n})")) for n in (64, 128)
        ),
    ),
    Case(
        "scale_shift.py",
        "scale_shift",
        "x=fp32[16777259] y=fp32[16777259] scale=0.5",
        tuple((("BLOCK = 64", f"BLOCK = {n}"),) for n in (1024, 512)),
    ),
    Case(
        "row_softmax.py",
        "row_softmax",
        "x=fp32[8192, 4096]",
        tuple((("block=128", f"block={n}"),) for n in (1024, 512)),
    ),
)


def main() -> None:
    """Judge two candidates of each case, print a table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="offline")
    parser.add_argument("output", nargs="?", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tritonforge-gate-") as folder:
        (Path(folder) / "tritonforge.toml").write_text("")
        rows = asyncio.run(measure(Path(folder), options.target))
    for which in ("first", "second"):
        times = [row["seconds"] for row in rows if row["candidate"] == which]
        print(f"median, {which} candidate: {statistics.median(times):.2f} s")
    if options.output:
        where = {**environment(), "target": options.target}
        options.output.write_text(json.dumps({"environment": where, "rows": rows}, indent=1) + "\n")


async def measure(root: Path, target: str) -> list[dict[str, Any]]:
    """Judge every candidate; one worker for each case, so that each begins cold."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        shutil.copy(ROOT / "examples" / case.file, root)
        async with open_session(load(root), target) as session:
            rows += await judge(case, root, session)
    return rows


async def judge(case: Case, root: Path, session: Session) -> list[dict[str, Any]]:
    """Judge the candidates of one case, one after the other."""
    text = (root / case.file).read_text()
    (kernel,) = analyze(text, case.file).kernels
    call = parse_spec(case.spec, file=case.file, function=case.function)
    subject = Subject(str(root), case.file, text, kernel, (call,))
    gate = Gate(
        session.worker, subject.program(), subject.calls, on_device=session.measures, arch=session.arch, kernel=kernel
    )
    rows = []
    for which, changes in zip(("first", "second"), case.candidates, strict=True):
        changed = text
        for before, after in changes:
            if before not in changed:
                raise SystemExit(f"{case.file} no longer holds {before!r}")
            changed = changed.replace(before, after)
        started = time.perf_counter()
        trialled = await gate.check(subject.program(changed))
        taken = time.perf_counter() - started
        verdict = trialled.verdict
        phases = {name: round(seconds, 2) for name, seconds in trialled.seconds.items()}
        rows.append(
            {"kernel": f"{case.file}::{kernel.name}", "candidate": which, "accepted": verdict.accepted,
             "inputs": len(verdict.inputs), "seconds": round(taken, 2), "phases": phases}
        )  # fmt: skip
        said = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
        print(f"{rows[-1]['kernel']:40} {which:7} accepted={verdict.accepted} {taken:6.2f} s ({said})")
        if not verdict.accepted:
            print(f"    {verdict.reason}  replay {verdict.replay}")
    return rows


if __name__ == "__main__":
    main()
