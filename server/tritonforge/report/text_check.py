"""`check` for people."""

from __future__ import annotations

from tritonforge.domain.baseline import CheckResult, Comparison, Status
from tritonforge.report import check_wording, wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, indent, line, wrap
from tritonforge.report.text_ignored import ignored_text

_STYLES: dict[Status, Style] = {
    "ok": "good", "regressed": "bad", "improved": "good", "new": "title", "missing": "warn", "error": "bad",
}  # fmt: skip


def check_text(result: CheckResult, *, width: int = WIDTH, show_ignored: bool = False) -> list[Line]:
    """Return the report of `check`, at most `width` columns wide; `show_ignored` lists what is ignored on purpose."""
    out: list[Line] = []
    if result.target is not None:
        out += [line(Span("Target  ", "muted"), wording.target(result.target)), BLANK]
    for one in result.comparisons:
        out += _comparison(one, width)
    if result.comparisons:
        out.append(BLANK)
    for note in result.notes:
        out += wrap([Span(_sentence(note), "warn")], width=width, hanging=4)
    if result.compared == "compiled":
        archs = f" Architectures: {', '.join(result.archs)}." if result.archs else ""
        out += wrap([Span(check_wording.ONLY_COMPILED + archs, "warn")], width=width)
    if result.updated is not None:
        out += _updated(result.updated, result.baseline, width)
    if result.updated is None:
        out += wrap([check_wording.summary(result)], width=width)
    if any(one.status == "new" for one in result.comparisons) and result.updated is None:
        out += wrap(["What is new is compared from the next ", Span("--update", "code"), " on."], width=width)
    return [*out, *ignored_text(result.ignored, result.lapsed, listed=show_ignored, width=width)]


def _sentence(note: str) -> str:
    """Return a note as a sentence; one that begins with the name of a file keeps it as it is."""
    first = note.partition(" ")[0]
    return (note if "::" in note or "." in first else note[:1].upper() + note[1:]).rstrip(".") + "."


def _comparison(one: Comparison, width: int) -> list[Line]:
    head: list[Span | str] = [
        Span(
            f"{one.status:<9}".replace(" ", "\N{NO-BREAK SPACE}"), "good" if one.status == "ok" else _STYLES[one.status]
        ),
        " ",
        Span(f"{one.file}:{one.line}", "muted"),
        f" {check_wording.kernel_and_problem(one)} ",
        Span(f"({check_wording.where(one)})", "muted"),
    ]
    lines = wrap(head, width=width, hanging=12)
    inner = width - 10
    details: list[Line] = []
    if time := check_wording.times(one):
        details += wrap([Span(time, "number")], width=inner)
    for reason in one.reasons:
        details += wrap([Span(reason, _STYLES[one.status])], width=inner, hanging=2)
    if facts := check_wording.changed(one):
        details += wrap([f"changed: {', '.join(facts)}"], width=inner, hanging=2)
    for note in one.notes:
        details += wrap([Span(note, "muted")], width=inner, hanging=2)
    return [*lines, *indent(details, 10)]


def _updated(changes: tuple[str, ...], baseline: str, width: int) -> list[Line]:
    if not changes:
        return wrap([f"{baseline} is as it was."], width=width)
    styles: dict[str, Style] = {"+": "add", "-": "remove"}
    lines = [
        one
        for change in changes
        for one in wrap([Span(change, styles.get(change[:1], "plain"))], width=width, hanging=4)
    ]
    return [*wrap([f"{baseline} was written:"], width=width), *indent(lines), BLANK]
