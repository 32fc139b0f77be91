"""The file that `trace` writes."""

from __future__ import annotations

from tritonforge.domain.trace import Trace
from tritonforge.report.json_parts import SCHEMA, Json, kernel_json, launch_json


def trace_json(trace: Trace) -> Json:
    """Return the report of `trace`; a call's `function` is its qualified name."""
    return {
        "schema": SCHEMA,
        "command": list(trace.command),
        "calls": [
            {"id": one.call.id, "function": one.call.function, "launches": list(one.launches)} for one in trace.calls
        ],
        "launches": [{**launch_json(one.launch), "kernel": kernel_json(one.kernel)} for one in trace.launches],
        "failures": [{"kernel": failure.kernel, "reason": failure.reason} for failure in trace.failures],
    }
