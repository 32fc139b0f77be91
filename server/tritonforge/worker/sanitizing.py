"""The `Sanitize` job: run a call under NVIDIA's compute-sanitizer, in a process of its own, and say what it found."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.messages import Failure, Sanitize, SanitizeResult
from tritonforge.worker.counting_tool import find_ncu, version_of
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.sanitizer_report import errors_of, refusal_in
from tritonforge.worker.sanitizing_child import FAILURE, REQUEST
from tritonforge.worker.watched import program_of, run_to_end

NOT_INSTALLED = "compute-sanitizer is not installed"
_NAME = "compute-sanitizer"
_OPTIONS = {"memcheck": ("--report-api-errors", "no"), "racecheck": ("--racecheck-report", "analysis")}


def find_sanitizer() -> str | None:
    """Return the `compute-sanitizer` command: on PATH, in a CUDA toolkit, or beside ncu; None when there is none."""
    found = shutil.which(_NAME)
    if found is not None:
        return found
    ncu = find_ncu()
    beside = [Path(ncu).resolve().parent] if ncu else []
    folders = [Path("/usr/local/cuda/bin"), *sorted(Path("/usr/local").glob("cuda*/bin"), reverse=True), *beside]
    for folder in folders:
        for tool in (folder / _NAME, folder.parent / _NAME / _NAME):
            if tool.is_file() and os.access(tool, os.X_OK):
                return str(tool)
    return None


def sanitize(request: Sanitize, context: JobContext) -> SanitizeResult:
    """Answer a `Sanitize` request.

    That the tool is missing, refuses or takes too long is no failure of the job: the result says so.

    Raises:
        JobFailed: `unsupported` without a GPU; `user-error`, `cuda-error` or `memory` when the program itself fails and
            the tool found nothing that would explain it.
    """
    tool = find_sanitizer()
    if tool is None:
        return SanitizeResult(skipped=NOT_INSTALLED)
    deadline = time.monotonic() + request.budget_s
    errors: list[str] = []
    checked: list[str] = []
    skipped: list[str] = []
    for i, check in enumerate(request.checks):
        context.progress(f"Running the candidate under {check}", i / len(request.checks))
        found, why = _run(tool, check, request, deadline)
        errors += found
        if why:
            skipped.append(f"{check}: {why}")
        else:
            checked.append(check)
    name = f"compute-sanitizer {version_of(tool)}".rstrip()
    return SanitizeResult(tuple(errors), tuple(checked), "; ".join(skipped), name)


def _run(tool: str, check: str, request: Sanitize, deadline: float) -> tuple[tuple[str, ...], str]:
    """Run one check; returns the errors as sentences, and why it did not come to its end."""
    left = deadline - time.monotonic()
    if left <= 0:
        return (), "no time was left for it"
    with tempfile.TemporaryDirectory(prefix="tritonforge-sanitize-") as name:
        folder, log = Path(name), Path(name, "log")
        (folder / REQUEST).write_text(json.dumps(encode(request)), encoding="utf-8")
        options = ("--target-processes", "application-only", "--print-limit", "100", *_OPTIONS.get(check, ()))
        command = [tool, "--tool", check, *options, "--log-file", str(log)]
        status, output = run_to_end([*command, sys.executable, "-u", "-c", program_of("sanitizing_child"), name], left)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        errors = errors_of(said, check)
        failure = _failure(folder)
    if errors:
        return errors, ""
    if status is None:
        return (), "it did not end in time"
    if failure is not None:
        raise JobFailed(failure.kind, failure.message, file=failure.file, line=failure.line, detail=failure.detail)
    return (), refusal_in(said + output, status)


def _failure(folder: Path) -> Failure | None:
    try:
        failure: Failure = decode(Failure, json.loads((folder / FAILURE).read_text(encoding="utf-8")))
    except (OSError, ValueError, CodecError):
        return None
    return failure
