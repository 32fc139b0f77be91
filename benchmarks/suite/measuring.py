"""What runs next to the GPU for one plain kernel: references, timing side by side, results checked, comparators.

Started as `python -m suite.measuring`: a server that imports torch and triton once and forks a process for each job,
so that a broken CUDA context or a hang costs one job. Jobs come as lines of JSON on stdin; what is known is written to
the job's file after every stage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from suite.case import Case, Draw, Factory, judge, outputs_of, plain_call
from suite.cases import BY_NAME
from suite.comparators import Progress, Versions, triton_autotune, unguided
from suite.loading import load
from suite.timing import time_side_by_side
from tritonforge.profiling.statistics import ratio_interval, summarise
from tritonforge.worker.linux import adopt_orphans, die_with_parent

OURS, PLAIN, OFFLINE = "TritonForge", "plain", "TritonForge, offline"
COMPILED, MAX_AUTOTUNE = "torch.compile", "torch.compile, max-autotune"
SAME = 1.02
"""Times within 2 % count as the same speed."""
CHECK_SEEDS = (101, 102)


@dataclasses.dataclass
class Job:
    """What to do.

    `plain`, `best` and `offline` (what was suggested without a GPU) are files; `space` is the file of a pickled `Space`
    for the comparators, of which `triton.autotune` gets `grid` versions.
    """

    case: str
    out: str
    plain: str
    best: str | None = None
    offline: str | None = None
    kinds: tuple[str, ...] = ("eager", "compile", "others")
    max_autotune: bool = False
    space: str | None = None
    grid: int = 100
    autotune: bool = False
    ablation: bool = False
    budget_s: float = 60.0
    timing_s: float = 8.0


class Found:
    """What is known so far, on disk after every stage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.data: dict[str, Any] = {"calls": [], "correct": {}, "comparators": {}, "errors": []}

    def save(self) -> None:
        """Write it, all or nothing."""
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.data))
        part.replace(self._path)

    @contextlib.contextmanager
    def stage(self, name: str) -> Any:
        """Keep an error of a stage from ending the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - every row is published, failures included
            said = " ".join(str(error).split())[:300]
            self.data["errors"].append(f"{name}: {type(error).__name__}: {said}")
            if os.environ.get("SUITE_TRACEBACK"):
                traceback.print_exc()
        self.save()


def work(job: Job) -> None:
    """Do one job."""
    case = BY_NAME[job.case]
    found = Found(Path(job.out))
    torch.autograd.set_multithreading_enabled(False)  # kernels of other threads would miss their scope
    functions = {PLAIN: getattr(load(Path(job.plain)), case.function)}
    if job.best:
        functions[OURS] = getattr(load(Path(job.best)), case.function)
    if job.offline:
        functions[OFFLINE] = getattr(load(Path(job.offline)), case.function)
    with found.stage("results"):
        _check(case, functions, found)
    for sizes in case.full:
        with found.stage(f"timing {dict(sizes)}"):
            _time(case, sizes, functions, job, found)
    if job.space and (job.autotune or job.ablation):
        with found.stage("comparators"):
            _compare(case, functions, job, found)
    found.data["complete"] = True
    found.save()


def _check(case: Case, functions: dict[str, Callable[..., Any]], found: Found) -> None:
    """Compare what each version returns on inputs that nothing has seen with what is right, at full size."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for sizes in case.full:
        for seed in CHECK_SEEDS:
            arguments = case.make(sizes, Draw("cuda", seed))
            want = None if case.judge else case.right(arguments)
            for name, function in functions.items():
                row = found.data["correct"].setdefault(name, {"inputs": 0, "worst_error": 0.0, "problem": ""})
                try:
                    error, problem = judge(case, arguments, outputs_of(function(*arguments)), want)
                except Exception as raised:  # noqa: BLE001 - a version that raises is wrong
                    error, problem = float("inf"), f"{type(raised).__name__}: {' '.join(str(raised).split())[:200]}"
                row["inputs"] += 1
                row["worst_error"] = max(row["worst_error"], error if error != float("inf") else 1e30)
                row["problem"] = row["problem"] or problem
            del arguments, want
            torch.cuda.empty_cache()


def _time(case: Case, sizes: Any, functions: dict[str, Callable[..., Any]], job: Job, found: Found) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    arguments = case.make(sizes, Draw("cuda", 0))
    ready: dict[str, Callable[[], Any]] = {}
    unavailable: dict[str, str] = {}
    prepared_s: dict[str, float] = {}
    versions = {name: plain_call(function) for name, function in functions.items()}
    for name, prepare in {**versions, **_references(case, job)}.items():
        began = time.perf_counter()
        try:
            function = prepare(*arguments)
            for _ in range(2):
                function()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a reference that is not there is said to be so
            unavailable[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            continue
        ready[name] = function
        prepared_s[name] = round(time.perf_counter() - began, 2)
    times = time_side_by_side(ready, case.samples, job.timing_s)
    call: dict[str, Any] = {
        "sizes": dict(sizes),
        "clock": times.clock,
        "notes": list(times.notes),
        "times_us": {name: _summary(row) for name, row in times.samples.items()},
        "unavailable": unavailable,
        "prepared_s": prepared_s,
    }
    if OURS in times.samples:
        call["speedup"], call["speedup_ci95"] = ratio_interval(times.samples[PLAIN], times.samples[OURS])
    call["samples_us"] = {name: [round(v, 3) for v in times.samples[name]] for name in (PLAIN, OURS) if name in ready}
    found.data["calls"].append(call)


def _references(case: Case, job: Job) -> dict[str, Factory]:
    """Return the factories of the references that are wanted, by name."""
    out: dict[str, Factory] = {}

    def compiled(mode: str | None) -> Factory:
        def prepare(*arguments: Any) -> Callable[[], Any]:
            torch._dynamo.reset()  # noqa: SLF001 - the documented way to start anew
            return plain_call(torch.compile(case.eager, mode=mode, dynamic=False))(*arguments)

        return prepare

    if "eager" in job.kinds and case.timed:
        out[case.label] = plain_call(case.eager)
    if "others" in job.kinds:
        out.update(case.others)
    if "compile" in job.kinds and case.compiled:
        out[COMPILED] = compiled(None)
    if job.max_autotune and case.compiled:
        # CUDA graphs only hide the host's launches, of which no time here has any.
        out[MAX_AUTOTUNE] = compiled("max-autotune-no-cudagraphs")
    return out


def _compare(case: Case, functions: dict[str, Callable[..., Any]], job: Job, found: Found) -> None:
    """Run the comparators on the first call, then time what they found beside the plain version and ours."""
    arguments = case.make(case.full[0], Draw("cuda", 0))
    assert job.space is not None
    space = pickle.loads(Path(job.space).read_bytes())
    folder = Path(job.space).parent / "versions"
    runs: list[tuple[Progress, Versions]] = []
    if job.autotune:
        versions = Versions(space, folder / "autotune", case.function)
        runs.append((triton_autotune(versions, arguments, job.budget_s, job.grid), versions))
    if job.ablation:
        versions = Versions(space, folder / "unguided", case.function)  # of this one nothing is compiled yet either
        runs.append((unguided(versions, arguments, job.budget_s), versions))
    for progress, versions in runs:
        steps = progress.steps[-6:]
        functions_now = {name: plain_call(function)(*arguments) for name, function in functions.items()}
        functions_now |= {f"step {i}": plain_call(versions[n])(*arguments) for i, (_, n) in enumerate(steps)}
        for function in functions_now.values():
            function()
        times = time_side_by_side(functions_now, 30, job.timing_s)
        medians = {name: _summary(row)["median"] for name, row in times.samples.items()}
        ours = medians.get(OURS, medians[PLAIN])
        reached = [at for i, (at, _) in enumerate(steps) if medians[f"step {i}"] <= SAME * ours]
        found.data["comparators"][progress.name] = {
            "grid": progress.grid,
            "tried": progress.tried,
            "failed": progress.failed,
            "seconds": round(progress.seconds, 2),
            "stopped": progress.stopped,
            "final_us": medians.get(f"step {len(steps) - 1}"),
            "ours_us": ours,
            "plain_us": medians[PLAIN],
            "config": dict(versions.configs[progress.best]) if progress.best is not None else None,
            "same_speed_after_s": round(reached[0], 2) if reached else None,
        }
        found.save()


def _summary(samples: Sequence[float]) -> dict[str, Any]:
    one = summarise(samples)
    return {"median": round(one.median, 3), "ci95": [round(v, 3) for v in one.ci95], "samples": one.samples}


def serve() -> None:
    """Fork a process for every job; answer with a line that says how it ended."""
    adopt_orphans()  # what a job leaves behind is found and ended with it
    for line in sys.stdin:
        request = json.loads(line)
        limit = float(request.pop("limit_s"))
        server = os.getpid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                die_with_parent(server)
                os.setsid()
                os.dup2(2, 1)  # what is printed meanwhile is no answer
                work(Job(**request))
                code = 0
            except BaseException:  # noqa: BLE001 - it must not come back into the loop
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps({"ended": _wait(child, limit)}), flush=True)


def _wait(child: int, limit_s: float) -> str:
    """Wait for a job, and end its processes: those that it left behind too, and all of them once its time is over."""
    ends = time.monotonic() + limit_s
    ended = f"measuring took longer than {limit_s:g} s"
    try:
        while time.monotonic() < ends:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                ended = "" if code == 0 else f"the measuring process ended with {code}"
                break
            time.sleep(0.05)
    finally:
        _end_children()
    return ended


def _end_children() -> None:
    """Kill what is left of a job, generation by generation: a child's own children become this process's."""
    here = os.getpid()
    while left := Path(f"/proc/{here}/task/{here}/children").read_text(encoding="ascii").split():
        for one in map(int, left):
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(one, signal.SIGKILL)
                os.waitpid(one, 0)


if __name__ == "__main__":
    serve()
