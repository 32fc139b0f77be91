"""`doctor` for people: each check with what was seen, and how to mend what is not in place."""

from __future__ import annotations

from tritonforge.domain.results import DoctorResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, indent, wrap


def doctor_text(result: DoctorResult, *, width: int = WIDTH) -> list[Line]:
    """Return the report of `doctor`, at most `width` columns wide."""
    out = [*wrap([Span("Target", "muted"), " ", Span(wording.target(result.target), "title")], width=width), BLANK]
    column = max((len(check.name) for check in result.checks), default=0)
    for check in result.checks:
        mark = Span("✓", "good") if check.ok else Span("–", "warn") if check.optional else Span("✗", "bad")
        first, *rest = wrap([check.detail], width=width - 6 - column) or [Line()]
        name = Span(f" {check.name.ljust(column)}  ", "plain" if check.ok or check.optional else "bad")
        out.append(Line((mark, name, *first.spans)))
        out += indent(rest, column + 4)
        if not check.ok and check.mend:
            out += indent(wrap([Span("→ ", "title"), check.mend], width=width - 6 - column, hanging=2), column + 4)
    return [*out, BLANK, *wrap([_summary(result)], width=width)]


def _summary(result: DoctorResult) -> Span:
    failed = sum(not check.ok and not check.optional for check in result.checks)
    total = wording.plural(len(result.checks), "check")
    if failed:
        return Span(f"{failed} of {total} failed.", "bad")
    upgrades = sum(not check.ok for check in result.checks)
    if upgrades:
        return Span(f"All that is needed works; {wording.plural(upgrades, 'upgrade')} missing (–).", "good")
    return Span(f"All {total} passed.", "good")
