"""Performance findings that an H200 judged (`benchmarks/score_findings.py`): what was right stays, what was wrong is gone.

`tests/data/findings/performance.json.xz` has the counters and times of 83 findings, and what a rule sees of the 69
launches that they are about, as `benchmarks/score_sample.py` wrote it. The rules were mended by this very sample, so
that what passes here says nothing of other kernels; the score of the first try is in `benchmarks/results/README.md`.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import sys
from collections import Counter
from pathlib import Path

import pytest

from tritonforge.diagnosis import diagnose
from tritonforge.domain.codec import decode
from tritonforge.domain.finding import SEVERITIES, Finding

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import score_sample
from score_checks import CHECKS
from score_collect import FAMILIES, lines_of
from score_findings import Row

FILE = Path(__file__).parents[1] / "data" / "findings" / "performance.json.xz"
SAMPLE = decode(score_sample.Sample, json.loads(lzma.decompress(FILE.read_bytes())))
ROWS = SAMPLE.kept.rows
LOWERED = {
    # Nothing that is known before a launch runs tells it from three that were wrong.
    "TF303 benchmarks/labelled/memory.py::sums_of_all:73": "hint",
    # The kernel is autotuned, and the recorded configuration need not be the one that is chosen.
    "TF304 benchmarks/proof/kernels/swiglu.py::swiglu_kernel:17": "information",
}
"""Right at the first try, and told with less weight since."""


def found(seen: score_sample.Seen) -> dict[str, Finding]:
    """Return the gravest finding of each rule on a launch."""
    case = score_sample.case_of(seen)
    findings = sorted(diagnose(seen.kernel, [case], select=FAMILIES), key=lambda f: -SEVERITIES.index(f.severity))
    return {finding.code: finding for finding in findings}


def severity_of(row: Row) -> str | None:
    finding = TODAY[ROWS.index(row)][1].get(row.finding.code)
    return finding.severity if finding is not None else None


TODAY = {number: (seen, found(seen)) for seen in SAMPLE.seen for number in seen.rows}


def test_every_finding_was_measured_and_has_its_launch():
    assert len(ROWS) == len(TODAY) == 83
    assert all(row.verdict()[0] is not None for row in ROWS)


@pytest.mark.parametrize("row", [r for r in ROWS if r.verdict()[0]], ids=lambda r: r.id)
def test_what_was_right_is_still_found(row: Row):
    severity = severity_of(row)
    if row.id in LOWERED:
        assert severity == LOWERED[row.id]
        return
    assert severity in SEVERITIES[: SEVERITIES.index(row.finding.severity) + 1]
    # What is graver than it was is held to what a graver finding needs.
    assert dataclasses.replace(row, finding=dataclasses.replace(row.finding, severity=severity)).verdict()[0]


@pytest.mark.parametrize("row", [r for r in ROWS if not r.verdict()[0]], ids=lambda r: r.id)
def test_what_was_wrong_claims_nothing_any_more(row: Row):
    assert severity_of(row) in {None, "hint"}


def test_warnings_that_come_anew_are_right_by_the_counters_of_their_launches():
    judged = {(TODAY[n][0].kernel.name, row.finding.code) for n, row in enumerate(ROWS)}
    new = {
        (seen.kernel.name, code): dataclasses.replace(ROWS[n], finding=one, lines=lines_of(seen.kernel, one))
        for n, (seen, findings) in TODAY.items()
        for code, one in findings.items()
        if one.severity == "warning" and code in CHECKS and (seen.kernel.name, code) not in judged
    }
    assert {place: row.verdict() for place, row in new.items() if not row.verdict()[0]} == {}


def test_nine_in_ten_warnings_were_right():
    verdicts = Counter(row.verdict()[0] for row in ROWS if row.finding.severity == "warning")
    assert verdicts.total() == 59
    assert verdicts[True] >= 0.9 * verdicts.total()
