"""Puts mutants and variants of one kernel before the gate: `python judging.py NAME [ID …] [--target NAME]`.

Prints one JSON line when it starts with one (`{"id", "started"}`) and one with its verdict. The calls are recorded, the
session opened and the original compiled once, as an editor does it; the gate keeps what it finds out about the original.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from corpus import Subject as Kernel
from corpus import Variant, load

from tritonforge.cli.running import Progress, open_workspace
from tritonforge.cli.selecting import select_one
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.verify import Gate, Launched, Trialled, launched, refusal
from tritonforge.workload.subject import Subject


async def judge(kernel: Kernel, ids: set[str], target: str, seed: int | None) -> None:
    """Judge the mutants and variants of `kernel` with these ids (all, when there are none)."""
    chosen = [one for one in (*kernel.mutants, *kernel.variants) if not ids or one.id in ids]
    with tempfile.TemporaryDirectory(prefix="proof-gate-") as name:
        folder = Path(name)
        file = folder / f"{kernel.name}.py"
        file.write_text(kernel.text)
        (folder / "tritonforge.toml").write_text("")
        workspace = open_workspace(folder)
        async with open_session(workspace.settings, target) as session:
            _say(id="", started=True)
            started = time.perf_counter()
            selected = select_one(f"{file}::{kernel.kernel}")
            with Progress() as progress:
                workload = workspace.workload(selected, allow_run=True, progress=progress)
                subject = await workload.subject_of(selected.kernels[0], session)
            before = await launched(session.worker, subject.program(), subject.calls, session.arch)
            if before.error or not subject.calls:
                raise SystemExit(f"{kernel.name}: {before.error or 'no call was recorded'}")
            grid = before.grid
            gate = Gate(session.worker, subject.program(), subject.calls, on_device=session.measures, grid=grid)
            if seed is not None:
                gate.seed = seed
            _say(id="", calls=len(subject.calls), seconds=round(time.perf_counter() - started, 3))
            for one in chosen:
                await _one(kernel, one, gate, subject, before, session)


async def _one(
    kernel: Kernel, one: Variant, gate: Gate, subject: Subject, before: Launched, session: Session
) -> None:
    _say(id=one.id, started=True)
    started = time.perf_counter()
    try:
        trialled = await _verdict(kernel.edited(one), gate, subject, before, session)
    except JobError as error:
        # The command ends with an error then: nothing is accepted, and nothing was judged either.
        _say(id=one.id, accepted=False, reason=f"no verdict: {error.kind}: {error}", seconds=_since(started), error=True)
        return
    verdict = trialled.verdict
    _say(id=one.id, accepted=verdict.accepted, reason=verdict.reason, seconds=_since(started), inputs=len(verdict.inputs),
         replay=verdict.replay)  # fmt: skip


async def _verdict(text: str, gate: Gate, subject: Subject, before: Launched, session: Session) -> Trialled:
    try:
        after = await launched(session.worker, subject.program(text), subject.calls, session.arch)
    except JobError as error:
        if error.kind != "user-error":
            raise
        return refusal(f"the candidate cannot be called as the original is: {error.message}")
    if after.error:
        return refusal(f"the candidate does not compile for {session.arch}: {after.error}")
    return await gate.check(subject.program(text), tile=max(before.largest_tile, after.largest_tile))


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Judge what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel")
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--target", default="offline")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    (kernel,) = load([options.kernel])
    asyncio.run(judge(kernel, set(options.ids), options.target, options.seed))


if __name__ == "__main__":
    main()
