"""`analyze` for people: each kernel with its launches, what the compiler made of them, and the findings."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.compilation import Compilation, Occupancy
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult, Assessment
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, indent, line, shortened, wrap
from tritonforge.report.text_compare import compared
from tritonforge.report.text_findings import SEVERITY_STYLE, bottleneck_spans, counted, counts, finding_text, section
from tritonforge.report.text_ignored import ignored_text

_SPEC = "# tritonforge: launch "
_MANY = 4
"""Launches of a kernel that are shown."""
_EACH = 6
"""Kernels up to which each is told why no launch of it is known; of a whole repository that would be all there is."""


def analyze_text(result: AnalyzeResult, *, width: int = WIDTH, show_ignored: bool = False) -> list[Line]:
    """Return the report of `analyze`, at most `width` columns wide; `show_ignored` lists what is ignored on purpose."""
    out: list[Line] = []
    each = len(result.kernels) <= _EACH
    silent = []
    for analyzed in result.kernels:
        if each or analyzed.launches or analyzed.findings:
            out += [*_kernel(analyzed, width, why=each), BLANK]
        else:
            silent.append(analyzed)
    if silent:
        out += [*_without_launch(silent, width), BLANK]
    for error in result.errors:
        place = Span(f"{error.file}:{error.line}", "title")
        out += wrap([place, " ", Span("error:", "bad"), " ", error.message], width=width, hanging=4)
    for problem in result.comment_problems:
        at = problem.range.start
        place = Span(f"{problem.file}:{at.line}:{at.column}", "title")
        out += wrap([place, " ", Span("warning:", "warn"), " ", problem.message], width=width, hanging=4)
    if result.errors or result.comment_problems:
        out.append(BLANK)
    ignored = [one for kernel in result.kernels for one in kernel.ignored]
    lapsed = [*result.lapsed, *(one for kernel in result.kernels for one in kernel.lapsed)]
    return [*out, *_summary(result, width), *ignored_text(ignored, lapsed, listed=show_ignored, width=width)]


def launch_text(launch: Launch, width: int = 96) -> list[Line]:
    """Return a launch in two parts, at most `width` columns wide: what it computes, and how."""
    times = f" ×{launch.count}" if launch.count > 1 else ""
    how = f"{wording.config(launch.config)} · grid {wording.grid(launch)}"
    return [
        *wrap([Span(launch.id, "title"), Span(times, "muted"), "  ", wording.problem(launch)], width=width, hanging=4),
        *indent(wrap([Span(how, "muted")], width=width - 4), 4),
    ]


def _without_launch(kernels: Sequence[AnalyzedKernel], width: int) -> list[Line]:
    """Return many kernels of which there is nothing to say in a few lines: by file, then what would change that."""
    by_file: dict[str, list[str]] = {}
    for one in kernels:
        by_file.setdefault(one.kernel.file, []).append(one.kernel.name)
    out = [
        line(
            Span(wording.plural(len(kernels), "kernel"), "title"),
            " with no known launch and nothing to say about the source",
        )
    ]
    for file, names in by_file.items():
        listed = ", ".join(names)
        out += indent(wrap([Span(file, "muted"), f" {listed}"], width=width - 2, hanging=4), 2)
    first = wording.kernel_path(kernels[0].kernel)
    mend: list[Span | str] = [
        "To have them compiled, record what launches them (",
        Span("tritonforge trace -- COMMAND".replace(" ", "\N{NO-BREAK SPACE}"), "code"),
        ") or write launch specs: ",
        Span(f"tritonforge analyze {first}".replace(" ", "\N{NO-BREAK SPACE}"), "code"),
        " gives one to start with.",
    ]
    return [*out, *indent(wrap(mend, width=width - 2), 2)]


def _kernel(analyzed: AnalyzedKernel, width: int, *, why: bool) -> list[Line]:
    kernel = analyzed.kernel
    out = [line(Span(kernel.name, "title"), "  ", Span(wording.place(kernel), "muted")), _static(kernel).indented(2)]
    if analyzed.launches:
        shown = analyzed.launches[:_MANY]
        lines = [one for launch in shown for one in launch_text(launch, width - 4)]
        if len(analyzed.launches) > _MANY:
            lines.append(line(Span(f"and {len(analyzed.launches) - _MANY} more", "muted")))
        out += section(f"{wording.plural(len(analyzed.launches), 'launch')}", lines)
    elif why:
        out += section("No launch known", _note(analyzed.launch_note, width - 4))
    else:
        out.append(line(Span("no launch known", "muted")).indented(2))
    out += _compilations(analyzed, width)
    findings = [one for finding in analyzed.findings for one in finding_text(finding, width=width - 2)]
    return out + section("Findings", findings)


def _note(text: str, width: int) -> list[Line]:
    """Return why no launch is known; a spec to copy has a line to itself, however long."""
    said, mark, spec = text.partition(_SPEC)
    out = wrap([said.rstrip()], width=width)
    return [*out, line(Span(mark + spec, "code")).indented(2)] if mark else out


def _compilations(analyzed: AnalyzedKernel, width: int) -> list[Line]:
    """Return what the compiler made of the first launches; of several architectures, what differs between them."""
    archs = tuple(dict.fromkeys(one.compilation.arch for one in analyzed.assessments))
    if len(archs) == 1:
        shown = analyzed.assessments[:_MANY]
        return section(f"Compiled for {archs[0]}", [one for a in shown for one in _assessment(a, width - 4)])
    lines: list[Line] = []
    for launch in analyzed.launches[:_MANY]:
        own = [one for one in analyzed.assessments if one.compilation.launch == launch.id]
        if not own:
            continue
        if len(analyzed.launches) > 1:
            lines += [*([BLANK] if lines else []), line(Span(launch.id, "title"))]
        lines += compared(own, width - 4)
    return section(f"Compiled for {len(archs)} architectures", lines)


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


def _assessment(assessment: Assessment, width: int) -> list[Line]:
    compilation = assessment.compilation
    head = Span(f"{compilation.launch}  ", "title")
    if compilation.error is not None:
        why = shortened(wording.compile_error(compilation.error), 300)
        return wrap([head, Span("does not compile: ", "bad"), why], width=width, hanging=4)
    out = wrap([head, *_resources(compilation)], width=width, hanging=4)
    if (prediction := assessment.prediction) is not None:
        spread = wording.time_range_us(prediction.interval)
        time = [
            Span(wording.time_us(prediction.time_us), "number"),
            Span(f" predicted ({spread}, mostly {prediction.dominant}, as on {prediction.gpu})", "muted"),
        ]
        out += indent(wrap(time, width=width - 4), 4)
    if assessment.bottleneck is not None:
        out += indent(wrap(bottleneck_spans(assessment.bottleneck), width=width - 4), 4)
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
        limited = f"limited by {occupancy.limiter}{_next_step(occupancy)}"
        parts.append(f" · occupancy {wording.percent(occupancy.fraction)} ({limited})")
    if compilation.tensor_path != "none":
        parts.append(f" · dots run as {compilation.tensor_path}")
    return parts


def _next_step(occupancy: Occupancy) -> str:
    """Say what would make room for one more program on each SM, where something would."""
    step = occupancy.next_step
    if step is None or not step.exceeded:
        return ""
    limits = {
        "registers": f"at most {wording.plural(step.registers, 'register')}",
        "shared-memory": f"at most {wording.size(step.shared_bytes)} shared",
    }
    needed = " and ".join(limits[name] for name in step.exceeded)
    return f"; {needed} for {wording.percent(step.fraction)}"


def _summary(result: AnalyzeResult, width: int) -> list[Line]:
    spans: list[Span | str] = [f"{wording.plural(len(result.kernels), 'kernel')}, "]
    broken = sum(any(one.compilation.error for one in kernel.assessments) for kernel in result.kernels)
    if broken:
        spans += [Span(f"{broken} that {'does' if broken == 1 else 'do'} not compile", "bad"), ", "]
    named = counts(result)
    if not named:
        spans.append(Span("no findings", "good"))
    for position, (severity, count) in enumerate(named):
        spans += [", " if position else "", Span(counted(severity, count), SEVERITY_STYLE[severity])]
    if result.errors:
        spans += [", ", Span(wording.plural(len(result.errors), "place") + " that could not be judged", "bad")]
    return wrap([*spans, "."], width=width)
