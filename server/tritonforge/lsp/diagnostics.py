"""Diagnostics of a snapshot: from its source at once, and from what was compiled or measured before."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict

from lsprotocol import types

from tritonforge.config import Settings
from tritonforge.diagnosis.diagnose import diagnose, suppression_of
from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel import CommentProblem, Kernel
from tritonforge.domain.source import Range
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts, is_fresh, moved_finding
from tritonforge.workload.specified import spec_problems
from tritonforge.workload.specs import SpecError

SOURCE = "TritonForge"
SPEC = "launch-spec"
COMMENT = "comment-without-effect"
_WORD = re.compile(r"\w+")
STALE = "(stale: found before an edit)"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


@dataclasses.dataclass(frozen=True)
class Shown:
    """A finding at its place in the document now, and whether its code has changed since it was found."""

    kernel: Kernel
    finding: Finding
    stale: bool = False


def findings_of(snapshot: Snapshot, facts: Facts, settings: Settings, only: Kernel | None = None) -> tuple[Shown, ...]:
    """Return every finding to show, or those of one kernel.

    Fresh facts speak for their kernel, stale ones beside what the source shows.
    """
    shown: list[Shown] = []
    for kernel in snapshot.analysis.kernels if only is None else (only,):
        known = facts.of(snapshot.uri, kernel.name)
        if known is None:
            shown += [Shown(kernel, finding) for finding in _of_source(kernel)]
            continue
        fresh = is_fresh(known, kernel)
        found = [moved_finding(f, known, snapshot, kernel) for f in known.findings if fresh or f.provenance != "source"]
        if not fresh:
            now = _of_source(kernel)
            shown += [Shown(kernel, finding) for finding in now]
            seen = {(f.code, f.range.start.line) for f in now}
            found = [f for f in found if (f.code, f.range.start.line) not in seen]
        shown += [Shown(kernel, finding, not fresh) for finding in found if not _suppressed(finding, kernel)]
    return tuple(one for one in shown if settings.selects(one.finding.code, snapshot.file))


_known: OrderedDict[int, tuple[Kernel, tuple[Finding, ...]]] = OrderedDict()
_MOST_KNOWN = 512
_made: OrderedDict[tuple[int, bool], tuple[tuple[Finding, str, str, str], types.Diagnostic]] = OrderedDict()
_MOST_MADE = 4096


def _of_source(kernel: Kernel) -> tuple[Finding, ...]:
    """Return what the source alone shows; found once for each kernel object, which outlives edits elsewhere."""
    found = _known.get(id(kernel))
    if found is None or found[0] is not kernel:
        found = _known[id(kernel)] = kernel, tuple(diagnose(kernel))
        while len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
    _known.move_to_end(id(kernel))
    return found[1]


def diagnostics(snapshot: Snapshot, facts: Facts, settings: Settings) -> list[types.Diagnostic]:
    """Return the diagnostics of a snapshot: its findings, and the comments to this tool that cannot be read."""
    found = [diagnostic(one, snapshot) for one in findings_of(snapshot, facts, settings)]
    found += [_comment_diagnostic(problem, snapshot) for problem in snapshot.analysis.comment_problems]
    return [*found, *(_spec_diagnostic(problem, snapshot) for problem in spec_problems(snapshot.analysis))]


def _comment_diagnostic(problem: CommentProblem, snapshot: Snapshot) -> types.Diagnostic:
    return types.Diagnostic(
        range=snapshot.positions.range(problem.range),
        message=f"{COMMENT}: {problem.message}",
        severity=types.DiagnosticSeverity.Warning,
        code=COMMENT,
        source=SOURCE,
        data={"kernel": ""},  # no action of a kernel treats it
    )


def _spec_diagnostic(problem: SpecError, snapshot: Snapshot) -> types.Diagnostic:
    """Mark the word that begins at the character that is wrong; at the end of a line, its last character."""
    line, column = problem.position.line, problem.position.column
    text = snapshot.positions.line(line - 1)
    column = min(column, max(len(text.rstrip()), 1))
    word = _WORD.match(text, column - 1)
    end = word.end() + 1 if word else column + 1
    return types.Diagnostic(
        range=snapshot.positions.range(Range.of(line, column, line, end)),
        message=f"{SPEC}: {problem.reason} {problem.mend}".strip(),
        severity=types.DiagnosticSeverity.Error,
        code=SPEC,
        source=SOURCE,
        data={"kernel": ""},  # no action of a kernel treats it
    )


def diagnostic(one: Shown, snapshot: Snapshot) -> types.Diagnostic:
    """Turn a finding into a diagnostic. One of many lines marks its first: a whole loop underlined hides the code."""
    finding = one.finding
    # Of a whole file's findings a keystroke changes few, and a place depends on the text of its first line alone.
    line = snapshot.positions.line(finding.range.start.line - 1)
    now = finding, line, snapshot.positions.encoding, one.kernel.name
    key = id(finding), one.stale
    made = _made.get(key)
    if made is None or made[0][0] is not finding or made[0][1:] != now[1:]:
        made = _made[key] = now, _new_diagnostic(one, snapshot)
        while len(_made) > _MOST_MADE:
            _made.popitem(last=False)
    _made.move_to_end(key)
    return made[1]


def _new_diagnostic(one: Shown, snapshot: Snapshot) -> types.Diagnostic:
    finding = one.finding
    where = finding.range
    place = (
        snapshot.positions.range(where)
        if where.start.line == where.end.line
        else snapshot.positions.whole_line(where.start.line)
    )
    return types.Diagnostic(
        range=place,
        message=f"{finding.name}: {finding.message}" + (f" {STALE}" if one.stale else ""),
        severity=types.DiagnosticSeverity.Hint if one.stale else _SEVERITIES[finding.severity],
        code=finding.code,
        source=SOURCE,
        data={"kernel": one.kernel.name},
    )


def report(
    snapshot: Snapshot | None, facts: Facts, settings: Settings | None, previous: str | None
) -> types.DocumentDiagnosticReport:
    """Answer a pull; what has not changed since the client's `previous` result is not sent again."""
    if snapshot is None or settings is None:
        return types.RelatedFullDocumentDiagnosticReport(items=[])
    # The settings' own identity would do, but a hash of what they select is shorter and survives a restart. A cell that
    # is split in two leaves the notebook's text as it is.
    chosen = hash((settings.select, settings.ignore, settings.per_file_ignores, snapshot.cells))
    result = f"{snapshot.content[:16]}-{facts.generation}-{chosen & 0xFFFFFFFF:x}"
    if previous == result:
        return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return types.RelatedFullDocumentDiagnosticReport(items=diagnostics(snapshot, facts, settings), result_id=result)


def _suppressed(finding: Finding, kernel: Kernel) -> bool:
    """Tell whether a comment written since silences a finding; `diagnose` knows those that were there before."""
    return suppression_of(finding, kernel.suppressions) is not None
