"""The inputs of a verdict in a few lines: how many of each kind, and what was left out and why.

A verdict holds a line for each input, `call, seed N: outcome (what is special about it)`, and `skipped, why (what)` for
one that was not tried. The kinds are read off what is special about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tritonforge.domain.candidate import was_tried
from tritonforge.report import wording
from tritonforge.report.text import Line, Span, indent, line, wrap

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("NaN and infinities", r"\bNaN\b|\bInf\b"),
        ("empty tensors", r"^empty"),
        ("other types", r"\w instead of \w"),
        ("layouts in memory", r"\bgaps\b|\bmemory\b|expanded|transposed|overlap"),
        ("other arguments", r"^arguments? |factors|=(True|False)|left out|integers"),
        (
            "kinds of values",
            r"family of values|values|magnitudes|subnormals|zeros|sorted|offset|cancel|maxima|ties|below zero",
        ),
        ("sizes", r"size|tile|tail|element|loop|program|recorded"),
    )
)
_OTHERS = "others"
_SKIPPED = "skipped, "
_LONGEST = 90
"""Characters of a reason for which inputs were left out."""


def inputs_text(inputs: Sequence[str], *, width: int, every: bool = False) -> tuple[str, list[Line]]:
    """Return a title that counts `inputs`, and below it their kinds; one that shows a difference has its own line.

    `every`: list each of them instead.
    """
    tried = [one for one in inputs if was_tried(one)]
    left = [one for one in inputs if not was_tried(one)]
    title = wording.plural(len(tried), "input") + (f", {len(left)} skipped" if left else "")
    if every:
        return title, [one for text in inputs for one in wrap([text], width=width, hanging=2)]
    equal = [one for one in tried if _outcome(one).startswith("equal")]
    lines = [one for text in tried if text not in equal for one in wrap([text], width=width, hanging=2)]
    lines += _kinds(equal, width)
    for reason, about in _reasons(left):
        what = f" ({about})" if about else ""
        lines += wrap([Span("skipped: ", "muted"), f"{reason}{what}"], width=width, hanging=8)
    if len(inputs) > 1:
        lines.append(line(Span("--verbose lists each of them", "muted")))
    return title, lines


def _kinds(inputs: Sequence[str], width: int) -> list[Line]:
    """Return a line for each kind: how many, and what was special about them, each thing once."""
    by_kind: dict[str, list[str]] = {}
    for one in inputs:
        about = _about(one)
        by_kind.setdefault(_kind(about), []).append(about)
    digits = max((len(str(len(found))) for found in by_kind.values()), default=0)
    out: list[Line] = []
    for kind, found in sorted(by_kind.items(), key=lambda item: -len(item[1])):
        said = [part for about in found for part in about.split("; ") if part]
        words = "; ".join(dict.fromkeys([part for part in said if _kind(part) == kind] or said))
        parts: list[Span | str] = [kind, *([Span(f": {words}", "muted")] if words else [])]
        first, *rest = wrap(parts, width=width - digits - 1, hanging=2)
        out += [Line((Span(f"{len(found):>{digits}} "), *first.spans)), *indent(rest, digits + 1)]
    return out


def _kind(about: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(about)), _OTHERS)


def _reasons(skipped: Iterable[str]) -> list[tuple[str, str]]:
    """Return each reason with what was left out for it; what one of them says beyond that is for the full list."""
    by_reason: dict[str, list[str]] = {}
    for one in skipped:
        about = _about(one)
        reason = one.removesuffix(f" ({about})").rpartition(_SKIPPED)[2].partition(": ")[0]
        by_reason.setdefault(reason[:_LONGEST], []).append(about)
    return [(reason, "; ".join(dict.fromkeys(filter(None, about)))) for reason, about in by_reason.items()]


def _outcome(text: str) -> str:
    """Return what follows the call: after the bracket that closes its arguments, what it was run on, and a colon."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign in ")]}" and depth == 0:
            return text[place + 1 :].partition(": ")[2]
    return ""


def _about(text: str) -> str:
    """Return what stands in the brackets at the end."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if depth == 0:
            return text[place + 1 : -1] if text.endswith(")") else ""
    return ""
