"""Performance findings that an H200 judged (`benchmarks/score_findings.py`): what was right stays, what was wrong is gone.

`tests/data/findings/performance.json.xz` has the counters and times of 83 findings, and what a rule sees of the 69
launches that they are about, as `benchmarks/score_sample.py` wrote it. The rules were mended by this very sample, so
that what passes here says nothing of other kernels; the score of the first try is in `benchmarks/results/README.md`.
`performance_fla.json.xz` has 109 findings of fla-core, which were scored after that and changed nothing.
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

FOLDER = Path(__file__).parents[1] / "data" / "findings"


def load(name: str) -> score_sample.Sample:
    return decode(score_sample.Sample, json.loads(lzma.decompress((FOLDER / name).read_bytes())))


FIRST, FLA = load("performance.json.xz"), load("performance_fla.json.xz")
ROWS = (*FIRST.kept.rows, *FLA.kept.rows)
LOWERED = {
    # Nothing that is known before a launch runs tells it from three that were wrong.
    "TF303 benchmarks/labelled/memory.py::sums_of_all:73": "hint",
    # The kernel is autotuned, and the recorded configuration need not be the one that is chosen.
    "TF304 benchmarks/proof/kernels/swiglu.py::swiglu_kernel:17": "information",
}
"""Right at the first try, and told with less weight since."""
OTHERWISE_COMPILED = {
    "TF106 fla/ops/attn/parallel.py::parallel_attn_bwd_kernel_dkv:473",
    "TF106 fla/ops/attn/parallel.py::parallel_attn_bwd_kernel_dkv:475",  # nor is its launch among those of the sample
    "TF106 fla/ops/based/fused_chunk.py::fused_chunk_based_fwd_kernel:88",
    "TF106 fla/ops/generalized_delta_rule/iplr/fused_recurrent.py::fused_recurrent_bwd_kernel:226",
    "TF301 fla/ops/delta_rule/wy_fast.py::recompute_w_u_fwd_kernel:38",
    "TF301 fla/ops/generalized_delta_rule/iplr/wy_fast.py::wu_fwd_kernel:183",
    "TF401 fla/ops/common/chunk_scaled_dot_kkt.py::chunk_scaled_dot_kkt_fwd_kernel:33",
}
"""Measured as triton 3.6 compiles it; the version that compiled the sample spills less and needs fewer registers."""
STILL_WRONG = {
    # A launch of 2.6 µs, predicted to take 10: that it is too short to be worth anything cannot be seen.
    "TF302 fla/ops/log_linear_attn/chunk.py::copy_last_chunk_kernel:1336",
}


def found(seen: score_sample.Seen) -> dict[str, Finding]:
    """Return the gravest finding of each rule on a launch."""
    case = score_sample.case_of(seen)
    findings = sorted(diagnose(seen.kernel, [case], select=FAMILIES), key=lambda f: -SEVERITIES.index(f.severity))
    return {finding.code: finding for finding in findings}


def severity_of(row: Row) -> str | None:
    finding = TODAY[ROWS.index(row)][1].get(row.finding.code)
    return finding.severity if finding is not None else None


LATER = len(FIRST.kept.rows)
TODAY = {number: (seen, found(seen)) for seen in FIRST.seen for number in seen.rows}
TODAY |= {LATER + number: (seen, found(seen)) for seen in FLA.seen for number in seen.rows}


def test_every_finding_was_measured_and_has_its_launch():
    assert (LATER, len(ROWS)) == (83, 192)
    assert all(row.verdict()[0] is not None for row in ROWS)
    assert {row.id for n, row in enumerate(ROWS) if n not in TODAY} <= OTHERWISE_COMPILED


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.verdict()[0] and r.id not in OTHERWISE_COMPILED], ids=lambda r: r.id
)
def test_what_was_right_is_still_found(row: Row):
    severity = severity_of(row)
    if row.id in LOWERED:
        assert severity == LOWERED[row.id]
        return
    assert severity in SEVERITIES[: SEVERITIES.index(row.finding.severity) + 1]
    # What is graver than it was is held to what a graver finding needs.
    assert dataclasses.replace(row, finding=dataclasses.replace(row.finding, severity=severity)).verdict()[0]


@pytest.mark.parametrize("row", [r for r in ROWS if not r.verdict()[0] and r.id not in STILL_WRONG], ids=lambda r: r.id)
def test_what_was_wrong_claims_nothing_any_more(row: Row):
    assert severity_of(row) in {None, "hint"}


def test_warnings_that_come_anew_are_right_by_the_counters_of_their_launches():
    judged = {(TODAY[n][0].kernel.name, row.finding.code) for n, row in enumerate(ROWS) if n in TODAY}
    new = {
        (seen.kernel.name, code): dataclasses.replace(ROWS[n], finding=one, lines=lines_of(seen.kernel, one))
        for n, (seen, findings) in TODAY.items()
        for code, one in findings.items()
        if one.severity == "warning" and code in CHECKS and (seen.kernel.name, code) not in judged
    }
    assert {place: row.verdict() for place, row in new.items() if not row.verdict()[0]} == {}


@pytest.mark.parametrize(("rows", "count"), [(FIRST.kept.rows, 59), (FLA.kept.rows, 64)], ids=["first", "fla"])
def test_nine_in_ten_warnings_were_right(rows: tuple[Row, ...], count: int):
    verdicts = Counter(row.verdict()[0] for row in rows if row.finding.severity == "warning")
    assert verdicts.total() == count
    assert verdicts[True] >= 0.9 * count
