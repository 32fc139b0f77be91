"""What a version that the gate refuses had made look hopeless is taken up again, on a target that pretends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from optimize_pretended import Blocks, PretendedGate

from tritonforge.optimize import choosing
from tritonforge.optimize.exploring import overtaken
from tritonforge.optimize.search import NOT_MEASURED

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

MICROSECONDS = {64: 150.0, 256: 80.0, 1024: 5.0}


def test_what_looked_hopeless_beside_a_version_that_is_refused_is_measured_after_all(
    fresh_examples, search, monkeypatch
):
    monkeypatch.setattr(choosing, "AT_ONCE", 1)
    engine = Blocks(1024, 256, fused=(1024,))
    result, target = search(
        fresh_examples(),
        PretendedGate(refuses=[1024]),
        engine=engine,
        held=256,
        times=lambda _t, b, _c: MICROSECONDS[b],
    )
    log = target.log
    assert log.index(("verdict", 1024)) < log.index(("Time", 256)), "it was not worth measuring beside 1024"
    assert result.best.trial.candidate.title == "BLOCK_SIZE=256"
    refused, best = result.trials
    assert refused.reason.startswith("refused: ")
    assert best.accepted


def test_what_looks_hopeless_beside_a_version_that_stands_stays_unmeasured(fresh_examples, search, monkeypatch):
    monkeypatch.setattr(choosing, "AT_ONCE", 1)
    engine = Blocks(1024, 256, fused=(1024,))
    result, target = search(
        fresh_examples(), PretendedGate(), engine=engine, held=256, times=lambda _t, b, _c: MICROSECONDS[b]
    )
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
    assert {trial.reason for trial in result.trials if not trial.accepted} == {NOT_MEASURED}
    assert 256 not in target.blocks("Time")


def test_with_what_carries_a_refused_rewrite_nothing_is_taken_up():
    def version(reason, *rewrites, accepted=None):
        verdict = None if accepted is None else SimpleNamespace(accepted=accepted)
        trial = SimpleNamespace(reason=reason, verdict=verdict)
        return SimpleNamespace(candidate=SimpleNamespace(rewrites=rewrites), trial=trial)

    fused, other = ("fused", ()), ("launch-parameters", (("BLOCK", "64"),))
    versions = [
        version("refused: it differs", fused, accepted=False),
        version(NOT_MEASURED, fused, other),
        version(NOT_MEASURED, other),
        version("not faster than the best", ("fused", (("by", "2"),))),
    ]
    search = SimpleNamespace(attempts=dict(enumerate(versions)), overtaken=True)
    assert overtaken(search) == [versions[2]]
    search.overtaken = False
    assert overtaken(search) == []
