"""`analyze --format json`; the schema is `docs/json/analyze.schema.json`."""

from __future__ import annotations

from tritonforge.domain.codec import encode
from tritonforge.domain.compilation import Compilation, LineInstructions, LineWork
from tritonforge.domain.ignoring import Ignored
from tritonforge.domain.kernel import CommentProblem, Kernel
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult, Assessment
from tritonforge.report.json_parts import (
    SCHEMA,
    Json,
    bottleneck_json,
    finding_json,
    interval,
    kernel_json,
    launch_json,
    number,
)


def analyze_json(result: AnalyzeResult) -> Json:
    """Return the report of `analyze` as one JSON object."""
    return {
        "schema": SCHEMA,
        "kernels": [_kernel(kernel) for kernel in result.kernels],
        "errors": [{"file": e.file, "line": e.line, "message": e.message} for e in result.errors],
        "comment_problems": [_comment(one) for one in result.comment_problems],
    }


def _comment(one: CommentProblem) -> Json:
    start, end = one.range.start, one.range.end
    return {
        "file": one.file,
        "line": start.line,
        "column": start.column,
        "end_column": end.column,
        "message": one.message,
    }


def _kernel(analyzed: AnalyzedKernel) -> Json:
    out = {
        **kernel_json(analyzed.kernel),
        "static": _static(analyzed.kernel),
        "launches": [launch_json(launch) for launch in analyzed.launches],
        "compilations": [_assessment(assessment) for assessment in analyzed.assessments],
        "findings": [finding_json(finding) for finding in analyzed.findings],
    }
    if not analyzed.launches:
        out["launch_note"] = analyzed.launch_note
    if analyzed.ignored:
        out["ignored"] = [ignored_json(one) for one in analyzed.ignored]
    return out


def ignored_json(one: Ignored) -> Json:
    """Return a finding that is ignored on purpose: which, where it is silenced, by what, and up to which day."""
    line = one.finding.range.start.line
    return {"code": one.finding.code, "line": line, "by": one.by, "where": one.where, "until": one.until}


def _static(kernel: Kernel) -> Json:
    return {
        "loops": len(kernel.loops),
        "loads": sum(access.kind == "load" for access in kernel.accesses),
        "stores": sum(access.kind == "store" for access in kernel.accesses),
        "dots": len(kernel.dots),
        "reductions": len(kernel.reductions),
        "atomics": len(kernel.atomics),
        "constexprs": [p.name for p in kernel.parameters if p.constexpr],
        "launch_sites": [{"file": s.file, "line": s.range.start.line, "function": s.host} for s in kernel.launch_sites],
    }


def _assessment(assessment: Assessment) -> Json:
    compilation, prediction = assessment.compilation, assessment.prediction
    resources, occupancy, work = compilation.resources, compilation.occupancy, compilation.work
    lines = sorted({*compilation.instructions, *(work.lines if work else ())})
    return {
        "launch": compilation.launch,
        "arch": compilation.arch,
        "registers": resources.registers if resources else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "shared_bytes": resources.shared_bytes if resources else None,
        "occupancy": number(occupancy.fraction) if occupancy else None,
        "limiter": occupancy.limiter if occupancy else None,
        "static_shared_bytes": resources.static_shared_bytes if resources else None,
        "dynamic_shared_bytes": resources.dynamic_shared_bytes if resources else None,
        "next_step": encode(occupancy.next_step) if occupancy else None,
        "waves": encode(assessment.waves),
        "tensor_path": compilation.tensor_path,
        "blocks": _blocks(compilation),
        "lines": {
            str(line): _line(compilation.instructions.get(line), work.lines.get(line) if work else None)
            for line in lines
        },
        "predicted_time_us": (
            {"value": number(prediction.time_us), "interval": interval(prediction.interval)} if prediction else None
        ),
        "bottleneck": bottleneck_json(assessment.bottleneck),
        "error": compilation.error,
    }


_BLOCKS = ("accesses", "shared_accesses", "conversions", "dots", "atomics", "loops")


def _blocks(compilation: Compilation) -> Json | None:
    """Return what is known of block operations and loops, null where the compiler's IR with layouts was not read."""
    facts = {name: getattr(compilation, name) for name in _BLOCKS}
    return None if None in facts.values() else {name: encode(found) for name, found in facts.items()}


def _line(instructions: LineInstructions | None, work: LineWork | None) -> Json:
    """Return a line's static instruction counts, and what one program does on it (null where that is not known)."""
    return {
        "instructions": dict(instructions.instructions) if instructions else {},
        "access_bytes": list(instructions.access_bytes) if instructions else [],
        "functions": dict(instructions.functions) if instructions else {},
        "spills": instructions.spill_stores + instructions.spill_loads if instructions else 0,
        "executed": _executed(instructions),
        "executions": number(work.executions) if work else None,
        "load_bytes": number(work.load_bytes) if work else None,
        "store_bytes": number(work.store_bytes) if work else None,
        "dot_flops": number(work.dot_flops) if work else None,
    }


def _executed(instructions: LineInstructions | None) -> Json | None:
    if instructions is None or instructions.executed is None:
        return None
    return {kind: number(count) for kind, count in instructions.executed.items()}
