"""Puts mutants and variants before the gate: `python judging.py [--target NAME] KERNEL/ID …` (used by `run.py gate`).

Prints a JSON line when it starts with one and another with its verdict. The calls of a kernel are recorded and the
original is compiled once, as in an editor; its gate keeps what it finds out about the original.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus

from tritonforge.cli.running import Progress, Workspace, open_workspace
from tritonforge.cli.selecting import select_one
from tritonforge.domain.candidate import Verdict
from tritonforge.domain.errors import TritonForgeError
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.verify import Gate, reference_beside
from tritonforge.workload.subject import Subject


@dataclass(frozen=True)
class Ready:
    """A kernel that candidates can be judged of."""

    subject: Subject
    gate: Gate


async def judge(items: Sequence[str], target: str, seed: int | None) -> None:
    """Judge `items` (`kernel/id`, those of one kernel together) and print what comes of each."""
    with tempfile.TemporaryDirectory(prefix="proof-gate-") as name:
        folder = Path(name)
        (folder / "tritonforge.toml").write_text("")
        workspace = open_workspace(folder)
        async with open_session(workspace.settings, target) as session:
            for kernel, group in itertools.groupby(items, lambda item: item.partition("/")[0]):
                (subject,) = corpus.load([kernel])
                await _judge_kernel(subject, list(group), workspace, session, seed)


async def _judge_kernel(
    kernel: corpus.Subject, items: Sequence[str], workspace: Workspace, session: Session, seed: int | None
) -> None:
    _say(item=items[0], started=True)
    started = time.perf_counter()
    try:
        ready = await _ready(kernel, workspace, session, seed)
    except TritonForgeError as error:
        for item in items:
            _say(item=item, accepted=False, reason=f"no verdict: {error}", seconds=_since(started), error=True)
        return
    _say(kernel=kernel.name, calls=len(ready.subject.calls), seconds=_since(started))
    for item in items:
        _say(item=item, started=True)
        started = time.perf_counter()
        try:
            verdict = await _verdict(kernel.edited(kernel.by_id[item.partition("/")[2]]), ready)
        except JobError as error:
            # The command ends with an error then: nothing is accepted, and nothing was judged either.
            said: dict[str, Any] = {"accepted": False, "reason": f"no verdict: {error.kind}: {error}", "error": True}
        else:
            said = {"accepted": verdict.accepted, "reason": verdict.reason, "inputs": len(verdict.inputs)}
            said["replay"] = verdict.replay
        _say(item=item, seconds=_since(started), **said)


async def _ready(kernel: corpus.Subject, workspace: Workspace, session: Session, seed: int | None) -> Ready:
    file = workspace.root / f"{kernel.name}.py"
    file.write_text(kernel.text)
    selected = select_one(f"{file}::{kernel.kernel}")
    with Progress() as progress:
        workload = workspace.workload(selected, allow_run=True, progress=progress)
        subject = await workload.subject_of(selected.kernels[0], session)
    gate = Gate(
        session.worker,
        subject.program(),
        subject.calls,
        on_device=session.measures,
        arch=session.arch,
        kernel=subject.kernel,
        reference=reference_beside(subject.program(), subject.calls),
    )
    if seed is not None:
        gate.seed = seed  # before anything is asked of the original, whose inputs follow from it
    before = await gate.launched()
    if before.error or not subject.calls:
        raise TritonForgeError(before.error or "no call was recorded")
    return Ready(subject, gate)


async def _verdict(text: str, ready: Ready) -> Verdict:
    candidate = ready.subject.program(text)
    trialled = await ready.gate.check(candidate)
    return await ready.gate.sanitised(candidate, trialled.verdict)


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Judge what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", nargs="+", metavar="KERNEL/ID")
    parser.add_argument("--target", default="offline")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    asyncio.run(judge(options.items, options.target, options.seed))


if __name__ == "__main__":
    main()
