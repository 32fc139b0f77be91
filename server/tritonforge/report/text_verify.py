"""`verify` for people: the verdict, every check, and where a refused candidate differs."""

from __future__ import annotations

from collections.abc import Mapping

from tritonforge.domain.messages import Difference
from tritonforge.domain.results import VerifyResult
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, indent, line, table, wrap
from tritonforge.report.text_findings import section
from tritonforge.report.text_profile import LABEL, labelled, next_steps
from tritonforge.report.verdict_inputs import inputs_text


def verify_text(result: VerifyResult, *, width: int = WIDTH, every: bool = False) -> list[Line]:
    """Return the report of `verify`, at most `width` columns wide; `every`: with each input."""
    inner = width - LABEL
    verdict = result.verdict
    style: Style = "good" if verdict.accepted else "bad"
    word = "accepted" if verdict.accepted else "refused"
    candidate = result.candidate or "the candidate"
    against = wording.kernel_path(result.kernel) if result.kernel else (verdict.oracle or "the original")
    said = (
        f"{candidate} {'computes the same as' if verdict.accepted else 'is not shown to compute the same as'} {against}"
    )
    out = wrap([Span(word, style), " ", said], width=width, hanging=2)
    if verdict.reason:
        out += indent(wrap([verdict.reason], width=width - 4))
    out += section("Checks", _checks(verdict.checks, width))
    if verdict.lower_precision:
        said = "It is less precise than the original, which is all that was found against it."
        out += indent(wrap([said], width=width - 4))
    if result.difference is not None or result.failing_input:
        out += section("First difference", _difference(result, width))
    out += section(*inputs_text(verdict.inputs, width=width - 4, every=every))
    out += [BLANK]
    if verdict.oracle:
        out += labelled("Oracle", wrap([verdict.oracle], width=inner))
    if verdict.tolerance:
        out += labelled("Tolerance", wrap([verdict.tolerance], width=inner))
    out += labelled("Worst error", [_errors(result)])
    if verdict.replay:
        kernel = wording.kernel_path(result.kernel) if result.kernel else "PATH::KERNEL"
        reference = f" --reference {result.reference}" if result.reference else ""
        command = f"tritonforge verify {kernel} --candidate {result.candidate or 'PATH'}{reference}"
        what = "repeat this check, the input above first" if result.failing_input else "repeat this very check"
        out += next_steps([(f"{command} --replay {verdict.replay}", what)], width)
    return out


def _checks(checks: Mapping[str, str], width: int) -> list[Line]:
    """Return a line for each check; a reason goes on below itself where it is long."""
    names = max((len(name) for name in checks), default=0)
    out: list[Line] = []
    for name, outcome in checks.items():
        mark, label, why = _check(name, outcome)
        head, *rest = wrap([why], width=width - 8 - names) or [line()]
        out.append(line(mark, "  ", label, " " * (names - len(name) + 2), *head.spans))
        out += indent(rest, names + 5)
    return out


def _check(name: str, outcome: str) -> tuple[Span, Span, Span]:
    state, _, why = outcome.partition(": ")
    marks: dict[str, tuple[str, Style]] = {"passed": ("✓", "good"), "failed": ("✗", "bad")}
    mark, style = marks.get(state, ("-", "muted"))
    return Span(mark, style), Span(name), Span(f"{state}: {why}" if why else state, style)


def _difference(result: VerifyResult, width: int) -> list[Line]:
    out = (
        wrap(["input ", Span(result.failing_input, "title")], width=width - 4, hanging=2)
        if result.failing_input
        else []
    )
    if (difference := result.difference) is not None:
        out += table(
            [
                (Span("element", "muted"), Span(_element(difference), "title")),
                (Span("expected", "muted"), Span(f"{difference.expected!r}", "good")),
                (Span("got", "muted"), Span(f"{difference.got!r}", "bad")),
                (Span("allowed", "muted"), Span(_allowed(difference))),
                (Span("differ", "muted"), Span(f"{difference.count:,} of {difference.elements:,} elements")),
            ]
        )
    return out


def _allowed(difference: Difference) -> str:
    if difference.allowed is None:
        return "no other value"
    return f"± {wording.error(difference.allowed)}" if difference.allowed else "exactly that"


def _element(difference: Difference) -> str:
    return f"{difference.output}[{', '.join(str(i) for i in difference.index)}]"


def _errors(result: VerifyResult) -> Line:
    own = result.verdict.baseline_error
    remark = f"  (the original's own: {wording.error(own)})" if own is not None else ""
    return line(Span(wording.error(result.verdict.worst_error), "number"), Span(remark, "muted"))
