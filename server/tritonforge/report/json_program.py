"""`profile --format json -- COMMAND`; the schema is `docs/json/program.schema.json`."""

from __future__ import annotations

from tritonforge.domain.program import OtherKernel, ProgramResult, RankedKernel
from tritonforge.report.json_parts import SCHEMA, Json, bottleneck_json, kernel_json, launch_json, number


def program_json(result: ProgramResult) -> Json:
    """Return the ranking of a program's kernels as one JSON object.

    `clock` says where times come from: `cupti`, `sampled` or `predicted`. A predicted time is never called GPU time:
    `gpu_time_us` is null then, and shares are of the predicted time of Triton's kernels.
    """
    measured = result.clock != "predicted"
    return {
        "schema": SCHEMA,
        "program": {
            "command": list(result.command),
            "exit_code": result.exit_code,
            "wall_s": number(result.wall_s),
            "gpu": result.gpu,
            "clock": result.clock,
            "predicted_for": result.predicted_for,
            "processes": result.processes,
            "gpu_time_us": number(result.gpu_time_us) if measured else None,
            "triton_share": number(result.triton_share),
            "other_share": number(result.other_share),
            "kernels": [_kernel(kernel) for kernel in result.kernels],
            "other": [_other(kernel) for kernel in result.other],
        },
        "missing": list(result.missing),
    }


def _kernel(kernel: RankedKernel) -> Json:
    return {
        "kernel": kernel_json(kernel.kernel) if kernel.kernel is not None else None,
        "name": kernel.name,
        "share": number(kernel.share),
        "time_us": number(kernel.time_us),
        "count": kernel.count,
        "launches": [launch_json(launch) for launch in kernel.launches],
        "bottleneck": bottleneck_json(kernel.bottleneck),
        "headroom": number(kernel.headroom),
        "program_gain": number(kernel.program_gain),
        "note": kernel.headroom_note,
    }


def _other(kernel: OtherKernel) -> Json:
    return {
        "name": kernel.name,
        "share": number(kernel.share),
        "time_us": number(kernel.time_us),
        "count": kernel.count,
    }
