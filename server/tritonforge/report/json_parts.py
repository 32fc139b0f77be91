"""The pieces that several JSON reports share: K, L, F, V and the rest of the vocabulary in `docs/json`.

Lines and columns are 1-based, columns in code points; sizes in bytes; times in µs; shares and fractions 0–1. Numbers
that are not finite become null. Every function is pure and returns values that `json.dumps` accepts as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tritonforge.domain.candidate import Suggestion, Verdict
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, Entries, Items, Launch, Scalar, Symbol, Tensor, Value
from tritonforge.domain.profile import TargetInfo

SCHEMA = "tritonforge/1"

Json = dict[str, Any]


def number(value: float | None) -> float | None:
    """Return `value`, or None when it is not finite."""
    return value if value is not None and math.isfinite(value) else None


def numbers(values: Mapping[str, float]) -> Json:
    """Return `values` with None for what is not finite."""
    return {name: number(value) for name, value in values.items()}


def interval(bounds: tuple[float, float]) -> list[float | None]:
    """Return [low, high]."""
    return [number(bounds[0]), number(bounds[1])]


def kernel_json(kernel: Kernel) -> Json:
    """Return K."""
    return {
        "file": kernel.file,
        "name": kernel.name,
        "line": kernel.range.start.line,
        "end_line": kernel.range.end.line,
        "code_hash": kernel.code_hash,
    }


def launch_json(launch: Launch) -> Json:
    """Return L: `args` are runtime arguments and constexprs that carry meaning, `config` is what may be tuned."""
    problem = launch.problem
    return {
        "id": launch.id,
        "call_site": {
            "file": launch.call_site.file,
            "line": launch.call_site.line,
            "function": launch.call_site.function,
        },
        "args": {name: value_json(value) for name, value in (*problem.arguments, *problem.constexprs)},
        "config": config_json(launch.config),
        "grid": list(launch.config.grid),
        "count": launch.count,
        "rank": launch.rank,
        "time_us": number(launch.time_us),
    }


def config_json(config: Config | None) -> Json:
    """Return the tunable constexprs and options by name; empty when there is no config."""
    if config is None:
        return {}
    return {name: value_json(value) for name, value in (*config.constexprs, *config.options)}


def value_json(value: Value) -> Any:
    """Return an argument: a tensor as an object, a scalar as itself, a sequence as a list, anything else as text."""
    if isinstance(value, Tensor):
        return {"shape": list(value.shape), "strides": list(value.strides), "dtype": value.dtype}
    if isinstance(value, Scalar):
        return number(value.value) if isinstance(value.value, float) else value.value
    if isinstance(value, Items):
        return [value_json(item) for item in value.items]
    if isinstance(value, Entries):
        return [[name, value_json(item)] for name, item in value.items]
    return value.name if isinstance(value, Symbol) else value.repr


def bottleneck_json(bottleneck: Bottleneck | None) -> Json | None:
    """Return the class, how sure it is (0–1), and where that comes from."""
    if bottleneck is None:
        return None
    return {
        "class": bottleneck.kind,
        "confidence": number(bottleneck.confidence),
        "provenance": bottleneck.provenance,
    }


def finding_json(finding: Finding) -> Json:
    """Return F."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "line": finding.range.start.line,
        "column": finding.range.start.column,
        "end_line": finding.range.end.line,
        "end_column": finding.range.end.column,
        "message": finding.message,
        "provenance": finding.provenance,
        "evidence": {
            name: {
                "value": number(e.value) if isinstance(e.value, float) else e.value,
                "unit": e.unit,
                "provenance": e.provenance,
            }
            for name, e in finding.evidence.items()
        },
        "estimated_gain": number(finding.estimated_gain),
        "launch": finding.launch,
        "url": finding.url,
    }


def target_json(target: TargetInfo) -> Json:
    """Return what a target is; what is not known of it is null."""
    return {
        "name": target.name,
        "kind": target.kind,
        "gpu": target.gpu,
        "driver": target.driver,
        "torch": target.torch,
        "triton": target.triton,
    }


def change_json(best: Suggestion) -> Json:
    """Return what applying a suggestion changes, with the verdict on it: its edits, its diff, V.

    Raises:
        ValueError: when it was not verified: nothing becomes a suggestion without a passed verdict.
    """
    candidate, verdict = best.trial.candidate, best.trial.verdict
    if verdict is None or not verdict.accepted:
        raise ValueError(f"suggestion {candidate.title!r} has no passed verdict")
    return {
        "edits": [{"file": e.file, "start": e.start, "end": e.end, "text": e.text} for e in candidate.edits],
        "diff": best.diff,
        "verdict": verdict_json(verdict),
    }


def verdict_json(verdict: Verdict) -> Json:
    """Return V."""
    return {
        "accepted": verdict.accepted,
        "reason": verdict.reason,
        "inputs": list(verdict.inputs),
        "oracle": verdict.oracle,
        "tolerance": verdict.tolerance,
        "worst_error": number(verdict.worst_error),
        "baseline_error": number(verdict.baseline_error),
        "checks": dict(verdict.checks),
        "replay": verdict.replay,
    }


def error_json(error: TritonForgeError) -> Json:
    """Return why a command gave no result."""
    return {
        "schema": SCHEMA,
        "error": {"message": error.message, "mend": error.mend, "exit_code": error.exit_code},
    }
