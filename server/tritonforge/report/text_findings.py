"""Findings and bottlenecks, as every text report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tritonforge.domain.finding import SEVERITIES, Bottleneck, Finding, Severity
from tritonforge.domain.provenance import Evidence
from tritonforge.domain.results import AnalyzeResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, Line, Span, Style, indent, line, shortened, table, wrap

SEVERITY_STYLE: dict[str, Style] = {"error": "bad", "warning": "warn", "information": "title", "hint": "muted"}

_PROVENANCE = 13
"""Columns of the longest provenance, and the gaps beside it."""


def finding_text(finding: Finding, *, with_evidence: bool = True, width: int = 98) -> list[Line]:
    """Return `file:line:col CODE name message`, then the evidence, one fact a row with where it comes from."""
    start = finding.range.start
    style = SEVERITY_STYLE[finding.severity]
    head: list[Span | str] = [
        Span(f"{finding.file}:{start.line}:{start.column}", "title"),
        " ",
        Span(f"{finding.code} {finding.name}", style),
        " ",
        finding.message,
    ]
    lines = wrap(head, width=width, hanging=4)
    if with_evidence:
        lines += indent(evidence_text(finding.evidence, width - 4), 4)
    footer: list[str] = [finding.severity, finding.provenance]
    if finding.estimated_gain is not None:
        footer.append(f"may gain {wording.factor(finding.estimated_gain)}")
    footer.append(finding.url)
    # Each fact of the footer stays in one piece.
    remark = " · ".join(footer[:-1]).replace(" ", "\N{NO-BREAK SPACE}").replace("\N{NO-BREAK SPACE}·", " ·")
    return [*lines, *indent(wrap([Span(f"{remark} · {footer[-1]}", "muted")], width=width - 4), 4)]


def finding_brief(finding: Finding, width: int = 98) -> list[Line]:
    """Return a finding under a heading that names its file already: code, line, message, and how it is known."""
    footer: list[str] = [finding.severity, finding.provenance]
    if finding.estimated_gain is not None:
        footer.append(f"may gain {wording.factor(finding.estimated_gain)}")
    footer.append(finding.url)
    remark = f"({', '.join(footer)})".replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
    head: list[Span | str] = [
        Span(f"{finding.code} {finding.name}", SEVERITY_STYLE[finding.severity]),
        Span(f" line\N{NO-BREAK SPACE}{finding.range.start.line}:", "muted"),
        f" {finding.message} ",
        Span(remark, "muted"),
    ]
    return wrap(head, width=width, hanging=4)


def evidence_text(evidence: Mapping[str, Evidence], width: int = 94) -> list[Line]:
    """Return one aligned row for each fact: name, value with unit, provenance."""
    names = max((len(name) for name in evidence), default=0)
    room = max(16, min(60, width - names - _PROVENANCE))
    return table(
        [
            (
                Span(name.replace("_", " "), "muted"),
                Span(shortened(wording.evidence(fact), room), "number"),
                Span(fact.provenance, "muted"),
            )
            for name, fact in evidence.items()
        ]
    )


def bottleneck_spans(bottleneck: Bottleneck, *, with_class: bool = True) -> list[Span | str]:
    """Return class, reason, and how sure that is, as one paragraph."""
    style: Style = "good" if bottleneck.kind == "at-roofline" else "warn"
    parts: list[Span | str] = [Span(bottleneck.kind, style)] if with_class or not bottleneck.reason else []
    if bottleneck.reason:
        reason = bottleneck.reason
        parts += [": ", reason] if parts else [reason[:1].upper() + reason[1:]]
    share = f", {wording.percent(bottleneck.confidence)} sure" if bottleneck.confidence else ""  # no guess was made
    sure = f"({bottleneck.provenance}{share})"
    # Words of the remark stay together: a line break inside it would read as two remarks.
    return [*parts, " ", Span(sure.replace(" ", "\N{NO-BREAK SPACE}"), "muted")]


def counted(severity: Severity, count: int) -> str:
    """Return `1 warning`, `2 warnings`, `3 information`."""
    return f"{count} information" if severity == "information" else wording.plural(count, severity)


def counts(result: AnalyzeResult) -> list[tuple[Severity, int]]:
    """Return how many of each severity there are, the gravest first; a comment that does nothing is a warning."""
    found = [finding.severity for kernel in result.kernels for finding in kernel.findings]
    found += ["warning"] * len(result.comment_problems)
    return [(severity, found.count(severity)) for severity in SEVERITIES if severity in found]


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: the gravest first, then the largest gain, then by place."""
    return sorted(
        findings,
        key=lambda f: (SEVERITIES.index(f.severity), -(f.estimated_gain or 0.0), f.range, f.code),
    )


def source_excerpt(
    source: str, lines: Sequence[int], *, around: int = 0, marked: Sequence[int] = (), width: int = 96
) -> list[Line]:
    """Return the numbered source `lines` with `around` lines of context; gaps show as ⋮, `marked` lines stand out."""
    texts = wording.source_lines(source)
    wanted = sorted(
        {n for at in lines for n in range(at - around, at + around + 1) if 1 <= n <= len(texts)},
    )
    digits = len(str(wanted[-1])) if wanted else 0
    out: list[Line] = []
    previous = None
    for number in wanted:
        if previous is not None and number != previous + 1:
            out.append(line(Span(f"{'⋮':>{digits}}", "muted")))
        text = shortened(texts[number - 1].expandtabs(4).rstrip(), width - digits - 3)
        out.append(
            line(Span(f"{number:>{digits}} │ ", "muted"), Span(text, "code" if number in marked else "plain")),
        )
        previous = number
    return out


def section(title: str, lines: list[Line]) -> list[Line]:
    """Return a titled, indented block with a blank line before it; nothing when there are no lines."""
    return [BLANK, line(Span(title, "title")), *indent(lines, 2)] if lines else []
