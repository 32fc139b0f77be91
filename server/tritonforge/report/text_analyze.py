"""`analyze` for people: each kernel with its launches, what the compiler made of them, and the findings."""

from __future__ import annotations

from tritonforge.domain.compilation import Compilation
from tritonforge.domain.finding import SEVERITIES, Severity
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult, Assessment
from tritonforge.report import wording
from tritonforge.report.text import BLANK, Line, Span, indent, line, shortened, wrap
from tritonforge.report.text_findings import SEVERITY_STYLE, bottleneck_spans, finding_text, section

_MANY = 4


def analyze_text(result: AnalyzeResult) -> list[Line]:
    """Return the report of `analyze`, at most 100 columns wide."""
    out: list[Line] = []
    for analyzed in result.kernels:
        out += _kernel(analyzed)
        out.append(BLANK)
    for error in result.errors:
        out += wrap(
            [Span(f"{error.file}:{error.line}", "title"), " ", Span("cannot be read:", "bad"), " ", error.message],
            hanging=4,
        )
    if result.errors:
        out.append(BLANK)
    return [*out, _summary(result)]


def launch_text(launch: Launch, width: int = 96) -> list[Line]:
    """Return a launch in two parts, at most `width` columns wide: what it computes, and how."""
    times = f" ×{launch.count}" if launch.count > 1 else ""
    how = f"{wording.config(launch.config)} · grid {wording.grid(launch)}"
    return [
        *wrap([Span(launch.id, "title"), Span(times, "muted"), "  ", wording.problem(launch)], width=width, hanging=4),
        *indent(wrap([Span(how, "muted")], width=width - 4), 4),
    ]


def _kernel(analyzed: AnalyzedKernel) -> list[Line]:
    kernel = analyzed.kernel
    out = [line(Span(kernel.name, "title"), "  ", Span(wording.place(kernel), "muted")), _static(kernel).indented(2)]
    if analyzed.launches:
        shown = analyzed.launches[:_MANY]
        lines = [one for launch in shown for one in launch_text(launch)]
        if len(analyzed.launches) > _MANY:
            lines.append(line(Span(f"and {len(analyzed.launches) - _MANY} more", "muted")))
        out += section(f"{wording.plural(len(analyzed.launches), 'launch')}", lines)
    else:
        out += section("No launch known", wrap([analyzed.launch_note], width=96))
    for arch in dict.fromkeys(a.compilation.arch for a in analyzed.assessments):
        chosen = [a for a in analyzed.assessments if a.compilation.arch == arch][:_MANY]
        out += section(f"Compiled for {arch}", [one for a in chosen for one in _assessment(a)])
    findings = [one for finding in analyzed.findings for one in finding_text(finding)]
    return out + section("Findings", findings)


def _static(kernel: Kernel) -> Line:
    loads = sum(access.kind == "load" for access in kernel.accesses)
    counts = [
        wording.plural(count, noun)
        for count, noun in (
            (len(kernel.loops), "loop"),
            (loads, "load"),
            (len(kernel.accesses) - loads, "store"),
            (len(kernel.dots), "dot"),
            (len(kernel.reductions), "reduction"),
            (len(kernel.scans), "scan"),
            (len(kernel.atomics), "atomic"),
        )
        if count
    ]
    if kernel.autotune is not None:
        counts.append("autotuned")
    return line(Span(" · ".join(counts) or "no memory access", "muted"))


def _assessment(assessment: Assessment) -> list[Line]:
    compilation = assessment.compilation
    head = Span(f"{compilation.launch}  ", "title")
    if compilation.error is not None:
        return wrap([head, Span("does not compile: ", "bad"), shortened(compilation.error, 300)], width=96, hanging=4)
    out = wrap([head, *_resources(compilation)], width=96, hanging=4)
    if (prediction := assessment.prediction) is not None:
        spread = wording.time_range_us(prediction.interval)
        out.append(
            line(
                Span(wording.time_us(prediction.time_us), "number"),
                Span(f" predicted ({spread}, mostly {prediction.dominant}, as on {prediction.gpu})", "muted"),
            ).indented(4)
        )
    if assessment.bottleneck is not None:
        out += indent(wrap(bottleneck_spans(assessment.bottleneck), width=92), 4)
    return out


def _resources(compilation: Compilation) -> list[Span | str]:
    parts: list[Span | str] = []
    if (resources := compilation.resources) is not None:
        spills = f"{wording.size(resources.spill_bytes)} spilled" if resources.spill_bytes else "no spills"
        parts += [
            f"{wording.plural(resources.registers, 'register')} · ",
            Span(spills, "warn" if resources.spill_bytes else "plain"),
            f" · {wording.size(resources.shared_bytes)} shared",
        ]
    if (occupancy := compilation.occupancy) is not None:
        parts.append(f" · occupancy {wording.percent(occupancy.fraction)} (limited by {occupancy.limiter})")
    if compilation.tensor_path != "none":
        parts.append(f" · dots run as {compilation.tensor_path}")
    return parts


def _summary(result: AnalyzeResult) -> Line:
    findings = [finding for kernel in result.kernels for finding in kernel.findings]
    spans: list[Span | str] = [f"{wording.plural(len(result.kernels), 'kernel')}, "]
    counted = [(severity, sum(f.severity == severity for f in findings)) for severity in SEVERITIES]
    named = [(severity, count) for severity, count in counted if count]
    if not named:
        spans.append(Span("no findings", "good"))
    for position, (severity, count) in enumerate(named):
        spans += [", " if position else "", Span(_counted(severity, count), SEVERITY_STYLE[severity])]
    if result.errors:
        spans += [", ", Span(f"{wording.plural(len(result.errors), 'unreadable place')}", "bad")]
    return line(*spans, ".")


def _counted(severity: Severity, count: int) -> str:
    return f"{count} information" if severity == "information" else wording.plural(count, severity)
