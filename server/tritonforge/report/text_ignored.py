"""What is ignored on purpose, for people: how much, by what, and what ended."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.report import wording
from tritonforge.report.text import WIDTH, Line, Span, indent, wrap

_SAID = {"comment": "by comments", "per-file": "by per-file-ignores", "setting": "by select and ignore"}


def ignored_text(
    ignored: Sequence[Ignored], lapsed: Sequence[Lapsed], *, listed: bool = False, width: int = WIDTH
) -> list[Line]:
    """Return a line that counts what is ignored, with `listed` each of it, and one for each silence that has ended.

    Nothing where nothing is ignored and nothing has ended.
    """
    out: list[Line] = []
    if ignored:
        counts = [(said, sum(one.by == by for one in ignored)) for by, said in _SAID.items()]
        ways = ", ".join(f"{count} {said}" for said, count in counts if count)
        hint = "" if listed else "; --show-ignored lists them"
        out += wrap([Span(f"{wording.plural(len(ignored), 'finding')} ignored on purpose: {ways}{hint}.", "muted")],
                    width=width)  # fmt: skip
    if listed:
        for one in ignored:
            finding = one.finding
            until = f" until {one.until}" if one.until else ""
            place = f"{finding.file}:{finding.range.start.line}"
            parts: list[Span | str] = [
                Span(place, "title"), f" {finding.code} {finding.name} ", Span(f"({one.where}{until})", "muted"),
            ]  # fmt: skip
            out += indent(wrap(parts, width=width - 2, hanging=4))
    for ended in lapsed:
        until = ended.until or "a day that is not given"
        sentence = f"{ended.what} is no longer ignored: it was until {until}, and {ended.reason}."
        out += wrap([Span(ended.where, "title"), " ", Span(sentence, "warn")], width=width, hanging=4)
    return out
