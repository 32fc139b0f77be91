"""TritonForge's part of a row: the loop on one kernel, through the library, on a worker that stays warm."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.timeline import Timeline
from tritonforge.cli.running import Progress, Workspace, open_workspace
from tritonforge.cli.selecting import Selected, select
from tritonforge.diagnosis.assessment import yardstick
from tritonforge.domain.errors import NoLaunchKnown, UsageError
from tritonforge.domain.launch import Launch
from tritonforge.domain.messages import Program
from tritonforge.domain.profile import Ceilings
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import apply_edits
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.optimize import optimize
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.profiling.measuring import FINAL_SAMPLES, Samples, measure
from tritonforge.profiling.statistics import ratio_interval, summarise
from tritonforge.report.json_optimize import optimize_json
from tritonforge.rewrite import Refusal, default_engines
from tritonforge.rewrite.plausibility import Facts, why_not
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.rewrite.settable import Settable
from tritonforge.rewrite.space import parameter_space
from tritonforge.workload.launches import to_launch
from tritonforge.workload.subject import Subject

_BESIDE = re.compile(r": \d+\.\d+x beside the original(, the best \d+\.\d+x)?$")
"""Ends a reason with what was measured: reasons that differ by that alone are counted together."""


@dataclass(frozen=True)
class Bench:
    """An open target, the ceilings of its GPU (public figures where it has none), and how long a search may take."""

    session: Session
    ceilings: Ceilings | None
    budget_s: float


@dataclass(frozen=True)
class Search:
    """What came of one kernel. `row` is for the table; the rest is None where the loop did not come to its end."""

    row: dict[str, Any]
    result: OptimizeResult | None = None
    subject: Subject | None = None

    @property
    def edits(self) -> tuple[Any, ...]:
        """The edits of what is suggested."""
        return self.result.best.trial.candidate.edits if self.result and self.result.best else ()


@asynccontextmanager
async def open_bench(root: Path, target: str, budget_s: float) -> Any:
    """Open the target once for all kernels of a run; `root` is a folder whose store keeps the ceilings."""
    workspace = open_workspace(root)
    async with open_session(workspace.settings, target) as session:
        ceilings = await ceilings_of(session, workspace.store)
        judge = yardstick(session, ceilings=ceilings)
        yield Bench(session, ceilings or (judge.ceilings if judge else None), budget_s)


async def search(bench: Bench, paths: Sequence[str], limit_s: float) -> Search:
    """Run the loop on the kernel that the first of `paths` names; the others may be run to find its launches."""
    row: dict[str, Any] = {"kernel": paths[0].rpartition("::")[2]}
    began, timeline = time.perf_counter(), Timeline()
    try:
        files = select(paths)
        workspace = open_workspace(files[0].root)
        subject = await asyncio.wait_for(_subject(workspace, files, bench.session), limit_s)
        row["record_s"] = round(time.perf_counter() - began, 2)
        judge = yardstick(bench.session, ceilings=bench.ceilings if bench.session.measures else None)
        work = optimize(subject, bench.session, judge, default_engines(), budget_s=bench.budget_s, on_step=timeline)
        result = await asyncio.wait_for(work, limit_s)
    except (NoLaunchKnown, UsageError, JobError) as error:
        row |= {"failed": type(error).__name__, "reason": str(error)}
    except TimeoutError:
        row |= {"failed": "TimeoutError", "reason": f"it did not end within {limit_s:g} s"}
    except Exception as error:  # noqa: BLE001 - a bug of ours is a row, too
        row |= {"failed": f"a bug: {type(error).__name__}", "reason": " ".join(str(error).split())[:500]}
    else:
        if result.stopped_because == "interrupted" and time.perf_counter() - began < limit_s:
            raise asyncio.CancelledError  # by the user: what was found so far is no row
        row |= _told(result)
        row["timeline"] = timeline.rows()
        row["seconds"] = round(time.perf_counter() - began, 2)
        return Search(row, result, subject)
    row["seconds"] = round(time.perf_counter() - began, 2)
    return Search(row)


async def _subject(workspace: Workspace, files: tuple[Selected, ...], session: Session) -> Subject:
    workload = workspace.workload(files[0], allow_run=True, progress=Progress(), named=files)
    return await workload.subject_of(files[0].kernels[0], session)


def _told(result: OptimizeResult) -> dict[str, Any]:
    """Return what a row keeps of a result: the JSON of the command, without every trial's text."""
    (told,) = optimize_json([result])["results"]
    best = told["best"]
    reasons: dict[str, int] = {}
    for trial in told["trials"]:
        reason = _BESIDE.sub("", trial["reason"]) or ("accepted" if trial["accepted"] else "")
        reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "search_s": round(result.elapsed_s, 2),
        "stopped_because": told["stopped_because"],
        "bottlenecks": told["bottlenecks"],
        "launches": len(told["launches"]),
        "baseline_us": told["baseline"]["time_us"],
        "trials": len(told["trials"]),
        "reasons": dict(sorted(reasons.items(), key=lambda one: -one[1])[:8]),
        "notes": list(result.notes)[:8],
        "best": best and {
            "title": best["title"], "origin": best["origin"], "provenance": best["provenance"],
            "speedup": best["speedup"], "speedup_ci95": best["speedup_ci95"], "time_us": best["time_us"],
            "rewrites": [name for name, _ in result.best.trial.candidate.rewrites] if result.best else [],
            "verified": bool(best["verdict"] and best["verdict"]["accepted"]), "diff": best["diff"],
        },
    }  # fmt: skip


def edited_texts(root: Path, edits: Sequence[Any]) -> dict[str, str]:
    """Return the texts of the files of a workspace that edits change, by name."""
    out = {}
    for name in dict.fromkeys(edit.file for edit in edits):
        with (root / name).open(encoding="utf-8", newline="") as stream:
            out[name] = apply_edits(stream.read(), tuple(e for e in edits if e.file == name))
    return out


def write_edits(root: Path, edits: Sequence[Any]) -> None:
    """Apply edits to the files of a workspace."""
    for name, text in edited_texts(root, edits).items():
        (root / name).write_text(text, encoding="utf-8", newline="")


async def time_again(bench: Bench, one: Search, root: Path) -> dict[str, Any]:
    """Time a shipped kernel and what became of it side by side once more, in a process of their own."""
    assert one.subject is not None
    assert one.result is not None
    kernel, original = one.subject.kernel, one.subject.program()
    texts = {**dict(original.overlays), **edited_texts(root, one.edits)}
    (before, after), notes = await measure(
        bench.session.worker,
        [original, Program(original.root, original.file, tuple(texts.items()))],
        one.subject.calls,
        kernel=kernel.name,
        identify=lambda recorded: to_launch(kernel, recorded).id,
        samples=FINAL_SAMPLES,
        budget_s=15.0,
    )
    if before.error or after.error:
        return {"problem": before.error or after.error}
    counts = {launch.id: launch.count for launch in one.result.launches}
    first, second = (Samples(s.by_launch, None, counts).total() for s in (before, after))
    speedup, interval = ratio_interval(first, second)
    return {
        "speedup": speedup, "speedup_ci95": interval, "before_us": summarise(first).median,
        "after_us": summarise(second).median, "notes": list(notes),
    }  # fmt: skip


@dataclass(frozen=True)
class Space:
    """What the comparators choose from: every plausible combination of the parameters that TritonForge may set.

    `configs` in a random order that is always the same. Versions are made by the edits that TritonForge would make.
    """

    subject: Subject
    launch: Launch
    configs: tuple[dict[str, int], ...]

    def version(self, number: int) -> str:
        """Return the text of the file with a combination.

        Raises:
            ValueError: when no edit sets these values.
        """
        subject = self.subject
        made = rewrite_launch(subject.kernel, {subject.file: subject.text}, self.configs[number], self.launch)
        if isinstance(made, Refusal):
            raise ValueError(made.reason)  # noqa: TRY004 - it is the values that are refused
        return apply_edits(subject.text, made.edits)


def space_of(one: Search, arch: str) -> tuple[Space | None, str]:
    """Return the space of a plain kernel; the second value says what it is, or why there is none."""
    if one.subject is None or one.result is None:
        return None, "TritonForge knows no launch of it"
    launch = one.result.launches[0]
    known = one.subject.kernel
    kernel = Settable.of(known, one.subject.texts(), one.result.launches, arch).shown_on(known)
    free = [p for p in parameter_space(kernel, launch, (), None, arch) if len(p.values) > 1]
    if not free:
        return None, "it has no parameter that could be set"
    facts = Facts.of(kernel, launch, arch)
    configs = []
    for values in itertools.product(*(p.values for p in free)):
        config = dict(zip((p.name for p in free), values, strict=True))
        if any(config[p.name] != p.current for p in free) and why_not(config, facts) is None:
            configs.append(config)
    random.Random(0).shuffle(configs)
    space = Space(one.subject, launch, tuple(configs))
    try:
        space.version(0)
    except IndexError:
        return None, "no combination is plausible"
    except ValueError as refused:
        return None, f"no version can be made: {refused}"
    return space, f"{len(configs)} combinations of {', '.join(p.name for p in free)}"
