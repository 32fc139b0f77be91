"""The `Count` job: repeat launches under a profiler, in a process of its own, and bring home what it counted."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.messages import Count, CountResult, Failure
from tritonforge.worker.counting_child import FAILURE, LAUNCHES, REQUEST, SAMPLES
from tritonforge.worker.counting_refusals import NO_NCU, Refusal, refusal_of
from tritonforge.worker.counting_tool import PAGES, find_ncu, ncu_command, version_of
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.watched import program_of
from tritonforge.worker.watched import run_to_end as _run

_REPORT = "report"
_PAGE_SECONDS = 60.0


def count(request: Count, context: JobContext) -> CountResult:
    """Answer a `Count` request.

    What a profiler refuses is no failure of the job: the result says why, and a lesser level can be tried.

    Raises:
        JobFailed: `unsupported` without a GPU; `user-error`, `cuda-error` or `memory` when the program itself fails.
    """
    ncu = find_ncu() if request.level == "ncu" else None
    if request.level == "ncu" and ncu is None:
        return _refused(NO_NCU)
    _let_go_of_memory()
    with tempfile.TemporaryDirectory(prefix="tritonforge-count-") as name:
        folder = Path(name)
        (folder / REQUEST).write_text(json.dumps(encode(request)), encoding="utf-8")
        child = [sys.executable, "-u", "-c", program_of("counting_child"), name]
        log = folder / "log"
        command = child if ncu is None else [*ncu_command(ncu, folder / _REPORT, log), *child]
        context.progress("Counting with Nsight Compute" if ncu else "Sampling program counters", 0.1)
        status, output = _run(command, request.budget_s)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        tool = f"Nsight Compute {version_of(ncu)}" if ncu else "Proton"
        found = _found(folder, request, ncu)
        if found is not None and found.launches:
            context.progress("Reading what was counted", 0.9)
            return CountResult(found.launches, found.report, found.pages, found.samples, tool, output=output)
        failure = _failure(folder)
        if failure is not None and not failure.message.startswith("Proton"):
            raise JobFailed(failure.kind, failure.message, file=failure.file, line=failure.line, detail=failure.detail)
        refused = refusal_of(said + (failure.message if failure else "") + output, status, tool)
        return CountResult(
            (), tool=tool, refused=refused.sentence, mend=refused.mend, lasting=refused.lasting, output=output
        )


def _refused(refusal: Refusal) -> CountResult:
    return CountResult(refused=refusal.sentence, mend=refusal.mend, lasting=refusal.lasting)


def _let_go_of_memory() -> None:
    """Return what this lane keeps of the GPU's memory, which the profiled process needs."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


def _found(folder: Path, request: Count, ncu: str | None) -> CountResult | None:
    try:
        launches = decode(tuple[RecordedLaunch, ...], json.loads((folder / LAUNCHES).read_text(encoding="utf-8")))
    except (OSError, ValueError, CodecError):
        return None
    if ncu is None:
        try:
            return CountResult(launches, samples=(folder / SAMPLES).read_text(encoding="utf-8"))
        except OSError:
            return None
    report = folder / f"{_REPORT}.ncu-rep"
    if not report.is_file():
        return None
    pages = {name: _page(ncu, report, options) for name, options in PAGES.items()} if request.pages else {}
    return CountResult(launches, report.read_bytes(), pages)


def _page(ncu: str, report: Path, options: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [ncu, "--import", str(report), *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PAGE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _failure(folder: Path) -> Failure | None:
    try:
        failure: Failure = decode(Failure, json.loads((folder / FAILURE).read_text(encoding="utf-8")))
    except (OSError, ValueError, CodecError):
        return None
    return failure
