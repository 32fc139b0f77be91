"""`profile --format json`; the schema is `docs/json/profile.schema.json`."""

from __future__ import annotations

from tritonforge.domain.profile import Profile, Roofline, TimeDistribution
from tritonforge.domain.results import ProfileResult
from tritonforge.report.json_parts import (
    SCHEMA,
    Json,
    bottleneck_json,
    finding_json,
    interval,
    kernel_json,
    launch_json,
    number,
    numbers,
    target_json,
)


def profile_json(result: ProfileResult) -> Json:
    """Return the report of `profile` as one JSON object.

    A predicted time is never put where a measured one belongs: `time_us` is null when nothing was measured, and
    `missing` says why.
    """
    return {"schema": SCHEMA, "profiles": [_profile(profile) for profile in result.profiles]}


def _profile(profile: Profile) -> Json:
    missing = list(profile.missing)
    if profile.time_us is None and not missing:
        missing.append(f"time: target {profile.target.name} cannot measure")
    return {
        "kernel": kernel_json(profile.kernel),
        "target": target_json(profile.target),
        "launch": launch_json(profile.launch),
        "time_us": _time(profile.time_us),
        "roofline": _roofline(profile.roofline),
        "stalls": numbers(profile.stalls),
        # Shares of stall samples only: a predicted share is never put where a measured one belongs.
        "lines": {
            str(line): {"share": number(heat.share), "stalls": numbers(heat.stalls)}
            for line, heat in sorted(profile.lines.items())
            if profile.lines_provenance == "measured"
        },
        "counters_source": profile.counters_source,
        "missing": missing,
        "bottleneck": bottleneck_json(profile.bottleneck),
        "findings": [finding_json(finding) for finding in profile.findings],
    }


def _time(time: TimeDistribution | None) -> Json | None:
    if time is None:
        return None
    return {"median": number(time.median), "ci95": interval(time.ci95), "samples": time.samples}


def _roofline(roofline: Roofline | None) -> Json | None:
    if roofline is None:
        return None
    # What the caches hold can run above a memory ceiling; achieved and ceiling still show that.
    fraction = None if roofline.fraction is None else min(roofline.fraction, 1.0)
    return {
        "bytes": number(roofline.bytes),
        "flops": number(roofline.flops),
        "achieved_gbps": number(roofline.achieved_gbps),
        "achieved_tflops": number(roofline.achieved_tflops),
        "ceiling_gbps": number(roofline.ceiling_gbps),
        "ceiling_tflops": number(roofline.ceiling_tflops),
        "fraction": number(fraction),
        "bound": roofline.bound,
    }
