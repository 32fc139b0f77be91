"""`analyze --format html`: one page that stands alone, kernels → launches → source lines with heat and findings.

Nothing is loaded from anywhere and no script runs; what is long folds away by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from tritonforge.domain.finding import SEVERITIES, Finding
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult, Assessment
from tritonforge.report import wording
from tritonforge.report.html_style import STYLE
from tritonforge.report.text_compare import ROWS
from tritonforge.report.text_findings import counted, counts

_HOT = 0.02
"""The share of the time from which a line is coloured."""
_LAUNCHES = 8


def analyze_html(result: AnalyzeResult, sources: Mapping[str, str], *, version: str) -> str:
    """Return the page; `sources` holds the text of each file by its name in the workspace."""
    return "\n".join([*_page(result, sources, version), ""])


def _page(result: AnalyzeResult, sources: Mapping[str, str], version: str) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Whoever opens the page can be sure that it asks nobody for anything.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>TritonForge: {escape(wording.plural(len(result.kernels), 'kernel'))}</title>"
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>What the compiler made of the kernels</h1>"
    made = f"TritonForge {version}"
    if result.target is not None:
        made += f" · {wording.target(result.target)}"
    yield f'<p class="muted">{escape(made)}</p>\n<p>{_counts(result)}</p>'
    if result.errors:
        yield "<h3>Could not be judged</h3>\n<ul>"
        for error in result.errors:
            yield f"<li><code>{escape(error.file)}:{error.line}</code> {escape(error.message)}</li>"
        yield "</ul>"
    if result.comment_problems:
        yield "<h3>Comments without effect</h3>\n<ul>"
        for one in result.comment_problems:
            yield f"<li><code>{escape(one.file)}:{one.range.start.line}</code> {escape(one.message)}</li>"
        yield "</ul>"
    yield from _contents(result.kernels)
    for number, analyzed in enumerate(result.kernels):
        yield from _kernel(analyzed, number, sources.get(analyzed.kernel.file, ""))
    yield "</body>\n</html>"


def _counts(result: AnalyzeResult) -> str:
    parts = [wording.plural(len(result.kernels), "kernel")]
    parts += [f'<span class="{severity}">{counted(severity, count)}</span>' for severity, count in counts(result)]
    return ", ".join(parts if len(parts) > 1 else [*parts, "no findings"]) + "."


def _contents(kernels: Sequence[AnalyzedKernel]) -> Iterator[str]:
    if len(kernels) < 2:
        return
    archs = dict.fromkeys(one.compilation.arch for analyzed in kernels for one in analyzed.assessments)
    on = f" on {next(iter(archs))}" if len(archs) > 1 else ""
    names = ("kernel", "file", f"bottleneck{on}", f"predicted time{on}", "findings")
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    yield f'<div class="scroll"><table>\n<tr>{heads}</tr>'
    for number, analyzed in enumerate(kernels):
        kernel = analyzed.kernel
        first = next((one for one in analyzed.assessments if one.compilation.error is None), None)
        kind = first.bottleneck.kind if first and first.bottleneck else "—"
        time = wording.time_us(first.prediction.time_us) if first and first.prediction else "—"
        worst = min((SEVERITIES.index(finding.severity) for finding in analyzed.findings), default=None)
        count = f'<span class="{SEVERITIES[worst]}">{len(analyzed.findings)}</span>' if worst is not None else "—"
        yield (
            f'<tr><td><a href="#k{number}"><code>{escape(kernel.name)}</code></a></td>'
            f'<td class="muted">{escape(wording.place(kernel))}</td>'
            f"<td>{kind}</td><td>{escape(time)}</td><td>{count}</td></tr>"
        )
    yield "</table></div>"


def _kernel(analyzed: AnalyzedKernel, number: int, source: str) -> Iterator[str]:
    kernel = analyzed.kernel
    yield f'<section class="kernel" id="k{number}">\n<h2><code>{escape(kernel.name)}</code></h2>'
    yield f'<div class="muted">{escape(wording.place(kernel))}</div>'
    if not analyzed.launches:
        yield f"<p>No launch known: {escape(analyzed.launch_note)}</p>"
    for launch in analyzed.launches[:_LAUNCHES]:
        times = f" ×{launch.count}" if launch.count > 1 else ""
        yield f"<h3>Launch <code>{escape(launch.id)}</code>{times}</h3>\n<div>{escape(wording.problem(launch))}</div>"
        how = f"{wording.config(launch.config)} · grid {wording.grid(launch)}"
        yield f'<div class="muted">{escape(how)}</div>'
        own = [one for one in analyzed.assessments if one.compilation.launch == launch.id]
        yield from _compared(own)
    if len(analyzed.launches) > _LAUNCHES:
        yield f'<p class="muted">and {len(analyzed.launches) - _LAUNCHES} more launches</p>'
    yield from _sources(analyzed, source)
    yield "</section>"


def _compared(assessments: Sequence[Assessment]) -> Iterator[str]:
    whole = [one for one in assessments if one.compilation.error is None]
    if whole:
        heads = "".join(f"<th>{escape(one.compilation.arch)}</th>" for one in whole)
        yield f'<div class="scroll"><table>\n<tr><th></th>{heads}</tr>'
        for label, cell in ROWS:
            cells = [cell(one) for one in whole]
            if any(cells):
                kind = ' class="differs"' if len(set(cells)) > 1 else ""
                shown = "".join(f"<td{kind}>{escape(one or '—')}</td>" for one in cells)
                yield f'<tr><td class="muted">{label}</td>{shown}</tr>'
        yield "</table></div>"
    for one in assessments:
        arch = escape(one.compilation.arch)
        if one.compilation.error is not None:
            why = escape(wording.compile_error(one.compilation.error))
            yield f'<p><span class="error">{arch} does not compile:</span> {why}</p>'
        elif one.bottleneck is not None and one.bottleneck.reason:
            sure = f"({one.bottleneck.provenance}, {wording.percent(one.bottleneck.confidence)} sure)"
            yield (
                f'<p><span class="badge">{arch}</span> <b>{one.bottleneck.kind}</b>: {escape(one.bottleneck.reason)} '
                f'<span class="muted">{sure}</span></p>'
            )


def _sources(analyzed: AnalyzedKernel, source: str) -> Iterator[str]:
    """Yield the kernel's source: with the heat of the first compilation at once, with the others' behind a fold."""
    texts = wording.source_lines(source)
    heated = [one for one in analyzed.assessments if one.heat]
    if not texts:
        yield from _findings(analyzed.findings)
        return
    inside = range(analyzed.kernel.range.start.line, analyzed.kernel.range.end.line + 1)
    heat = {at: one.share for at, one in heated[0].heat.items()} if heated else {}
    title = (
        f"Source, with the share of the time that the model gives each line {_of(heated[0])}" if heated else "Source"
    )
    yield f'<h3>{escape(title)}</h3>\n<div class="source">'
    yield from _rows(texts, inside, heat, analyzed.findings)
    yield "</div>"
    elsewhere = [finding for finding in analyzed.findings if finding.range.start.line not in inside]
    if elsewhere:
        yield '<h3>Where it is launched</h3>\n<div class="source">'
        yield from _rows(texts, sorted({f.range.start.line for f in elsewhere}), {}, elsewhere)
        yield "</div>"
    for one in heated[1:_LAUNCHES]:
        yield f'<details><summary class="muted">Heat {escape(_of(one))}</summary>\n<div class="source">'
        yield from _rows(texts, inside, {at: line.share for at, line in one.heat.items()}, ())
        yield "</div></details>"


def _of(assessment: Assessment) -> str:
    return f"({assessment.compilation.launch} on {assessment.compilation.arch}, predicted)"


def _rows(
    texts: Sequence[str], numbers: Iterable[int], heat: Mapping[int, float], findings: Sequence[Finding]
) -> Iterator[str]:
    for number in numbers:
        if not 1 <= number <= len(texts):
            continue
        share = heat.get(number, 0.0)
        shown = f'<i style="--share:{share:.3f}"></i>{wording.percent(share)}' if share >= _HOT else ""
        hot = f' hot" style="--share:{share:.3f}' if share >= _HOT else ""
        text = escape(texts[number - 1].expandtabs(4).rstrip()) or " "
        yield (
            f'<div class="row{hot}"><span class="heat">{shown}</span><span class="number">{number}</span>'
            f'<span class="text">{text}</span></div>'
        )
        yield from _findings([finding for finding in findings if finding.range.start.line == number])


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        gain = f" · may gain {wording.factor(finding.estimated_gain)}" if finding.estimated_gain is not None else ""
        yield (
            f'<div class="finding {finding.severity}"><p><b class="{finding.severity}">'
            f"{finding.code} {escape(finding.name)}</b> {escape(finding.message)}</p>"
        )
        yield f'<div class="muted">{finding.severity} · {finding.provenance}{gain} · {escape(finding.url)}</div>'
        if finding.evidence:
            yield "<details><summary>evidence</summary><dl>"
            for name, fact in finding.evidence.items():
                yield (
                    f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(wording.evidence(fact))}</dd>"
                    f'<dd class="from">{fact.provenance}</dd>'
                )
            yield "</dl></details>"
        yield "</div>"
