"""`optimize --format json`; the schema is `docs/json/optimize.schema.json`."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.domain.candidate import Suggestion, Trial
from tritonforge.domain.results import OptimizeResult
from tritonforge.report.json_parts import (
    SCHEMA,
    Json,
    change_json,
    config_json,
    interval,
    kernel_json,
    launch_json,
    number,
    numbers,
    target_json,
)


def optimize_json(results: Iterable[OptimizeResult]) -> Json:
    """Return the report of `optimize` as one JSON object, one entry for each kernel and target."""
    return {"schema": SCHEMA, "results": [_result(result) for result in results]}


def _result(result: OptimizeResult) -> Json:
    return {
        "kernel": kernel_json(result.kernel),
        "target": target_json(result.target),
        "launches": [launch_json(launch) for launch in result.launches],
        "baseline": {"time_us": numbers(result.baseline_us), "config": config_json(result.baseline_config)},
        "best": _best(result.best),
        "trials": [_trial(trial) for trial in result.trials],
        "bottlenecks": [bottleneck.kind for bottleneck in result.bottlenecks],
        "stopped_because": result.stopped_because,
        "elapsed_s": number(result.elapsed_s),
    }


def _best(best: Suggestion | None) -> Json | None:
    """Return the suggestion.

    Raises:
        ValueError: as `change_json` does.
    """
    if best is None:
        return None
    trial = best.trial
    return {
        "title": trial.candidate.title,
        "origin": trial.candidate.origin,
        "time_us": numbers(trial.time_us or {}),
        "speedup": number(best.speedup),
        "speedup_ci95": interval(best.speedup_ci95),
        "provenance": best.provenance,
        **change_json(best),
    }


def _trial(trial: Trial) -> Json:
    return {
        "title": trial.candidate.title,
        "origin": trial.candidate.origin,
        "time_us": None if trial.time_us is None else numbers(trial.time_us),
        "accepted": trial.accepted,
        "reason": trial.reason,
    }
