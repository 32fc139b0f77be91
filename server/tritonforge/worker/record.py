"""The `Record` job."""

from __future__ import annotations

from dataclasses import replace

from tritonforge.domain.messages import Record, RecordResult
from tritonforge.worker.failures import JobContext
from tritonforge.worker.launching import taking_launches
from tritonforge.worker.recording_interpreted import record_interpreted
from tritonforge.worker.recording_run import STEERED, record_with


def record(request: Record, context: JobContext) -> RecordResult:
    """Run the entry point without launching anything, and describe the calls and launches it makes.

    When the program reads whole numbers that a kernel would have computed, its later launches may depend on them: it is
    then run once more with its kernels interpreted, and what that shows counts if it is not less.

    Raises:
        JobFailed: `user-error`, when the user's code raises before it launched anything.
    """
    result = record_with(request, context, taking_launches)
    place = _steered(result)
    if place is None:
        return result
    context.progress("Recording again with the kernels interpreted, because the program reads what they compute")
    deeper = record_interpreted(request)
    if deeper is not None and _launches(deeper) >= _launches(result):
        return replace(deeper, output=result.output)
    return result


def _steered(result: RecordResult) -> str | None:
    return next((why for kernel, why in result.failures if not kernel and why.startswith(STEERED)), None)


def _launches(result: RecordResult) -> int:
    return sum(len(call.launches) for call in result.calls)
