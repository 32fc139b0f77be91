"""From cases to the findings that a person sees: sorted, deduplicated, filtered."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Sequence

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.rules import RULES
from tritonforge.domain.finding import SEVERITIES, Finding
from tritonforge.domain.ignoring import Ignored, Lapsed, lapsed_because
from tritonforge.domain.kernel import Kernel, Suppression
from tritonforge.domain.source import Range


def diagnose(
    kernel: Kernel, cases: Iterable[Case] = (), *, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return what there is to know about `kernel`, the gravest first, then the largest gain, then the earliest line.

    `cases` holds one case for each launch (and architecture), the most important first; without any, the source alone
    is judged. `select` and `ignore` are prefixes of codes (`TF2` means every TF2xx); an empty `select` means all, and
    the longer prefix wins where both match. Suppression comments of the kernel are honoured. What several launches show
    at one place is said once, for the gravest of them.
    """
    return diagnose_all(kernel, cases, select=select, ignore=ignore)[0]


def diagnose_all(
    kernel: Kernel,
    cases: Iterable[Case] = (),
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    today: dt.date | None = None,
) -> tuple[tuple[Finding, ...], tuple[Ignored, ...]]:
    """Return what `diagnose` does, and beside it what comments in the source silence on that day."""
    day = today or current_day()
    seen: dict[tuple[str, Range], Finding] = {}
    silenced: dict[tuple[str, Range], Ignored] = {}
    known = tuple(cases) or (Case(kernel),)
    launches = tuple(case.launch for case in known if case.launch is not None)
    for case in (dataclasses.replace(case, launches=case.launches or launches) for case in known):
        for finding in _findings(case, select, ignore):
            key = finding.code, finding.range
            by = suppression_of(finding, kernel.suppressions, day)
            if by is not None:
                silenced.setdefault(key, Ignored(finding, "comment", f"{kernel.file}:{by.line}", by.until))
                continue
            if key not in seen or _weight(finding) < _weight(seen[key]):
                seen[key] = finding
    shown = tuple(sorted(seen.values(), key=lambda f: (*_weight(f), f.range.start, f.code)))
    return shown, tuple(silenced.values())


def lapsed(kernel: Kernel, today: dt.date | None = None) -> tuple[Lapsed, ...]:
    """Return the suppressions of `kernel` that no longer count on that day."""
    day = today or current_day()
    return tuple(
        Lapsed(", ".join(s.codes) or "everything", f"{kernel.file}:{s.line}", s.until or "", reason)
        for s in kernel.suppressions
        if (reason := lapsed_because(s.until, day))
    )


def current_day() -> dt.date:
    """Return today's date in UTC, so that all runners agree on when something lapses."""
    return dt.datetime.now(dt.UTC).date()


def is_selected(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    """Tell whether `code` is wanted: the longest matching prefix decides, `ignore` on a tie."""
    wanted = max((len(p) for p in select if code.startswith(p)), default=-1 if select else 0)
    unwanted = max((len(p) for p in ignore if p and code.startswith(p)), default=-1)
    return wanted > unwanted


def _findings(case: Case, select: Sequence[str], ignore: Sequence[str]) -> Iterable[Finding]:
    for rule in RULES:
        if is_selected(rule.code, select, ignore):
            yield from rule.check(case)


def _weight(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), -(finding.estimated_gain or 1.0)


def suppression_of(
    finding: Finding, suppressions: tuple[Suppression, ...], today: dt.date | None = None
) -> Suppression | None:
    """Return the comment that silences `finding` on that day; None where none does."""
    day = today or current_day()
    return next(
        (
            s
            for s in suppressions
            if (s.whole_kernel or s.line == finding.range.start.line)
            and (not s.codes or any(_matches(code, finding) for code in s.codes))
            and not lapsed_because(s.until, day)
        ),
        None,
    )


def _matches(code: str, finding: Finding) -> bool:
    wanted = code.strip()
    return wanted == finding.name or (bool(wanted) and finding.code.startswith(wanted))
