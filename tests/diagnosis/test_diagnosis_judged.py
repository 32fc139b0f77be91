"""Findings on real kernels that two readers judged by reading them: they stay, and nothing comes that was not read.

The kernels are those of the packages that `requirements/kernels.txt` pins; without them, or with other versions, there is
nothing to compare. What needs a compiled launch is scored by `benchmarks/score_correctness.py`.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tritonforge.analysis import analyze
from tritonforge.diagnosis import diagnose

JUDGED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "findings" / "correctness.json").read_text())
ROWS: list[dict[str, Any]] = JUDGED["findings"]
FAMILY = ("TF501", "TF503", "TF504", "TF505", "TF506", "TF507", "TF508", "TF6")
OUTDATED = sorted({row["file"] for row in ROWS if row["evidence"] == "source" and row["code"] == "TF601"})
OTHERS = {row["file"] for row in ROWS if row["evidence"] == "source" and row["code"] != "TF601"}
FILES = sorted(OTHERS | set(OUTDATED[::5]))
"""Of the many files that differ in nothing but where they say allow_tf32, one in five is enough."""


def path_of(file: str) -> Path:
    package = "fla-core" if file.startswith("fla/") else "liger-kernel"
    try:
        found = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if found.version != JUDGED["packages"][package]:
        pytest.skip(f"{package} {found.version} is installed, and {JUDGED['packages'][package]} was judged")
    return Path(str(found.locate_file(file)))


@pytest.mark.parametrize("file", FILES)
def test_source_gives_the_findings_that_were_judged_and_no_others(file: str):
    kernels = analyze(path_of(file).read_text(encoding="utf-8"), file).kernels
    found = {
        (f.code, kernel.name, f.range.start.line, f.severity)
        for kernel in kernels
        for f in diagnose(kernel, select=FAMILY)
    }
    rows = [row for row in ROWS if row["file"] == file and row["evidence"] == "source"]
    assert found == {(row["code"], row["kernel"], row["line"], row["severity"]) for row in rows}


@pytest.mark.parametrize("code", sorted({row["code"] for row in ROWS}))
def test_at_least_nine_in_ten_of_the_findings_of_a_rule_were_judged_right(code: str):
    verdicts = Counter(row["verdict"] for row in ROWS if row["code"] == code)
    assert verdicts["right"] >= 0.9 * verdicts.total(), verdicts


@pytest.mark.parametrize("code", sorted({row["code"] for row in ROWS}))
def test_a_second_reader_agrees(code: str):
    rows = [row for row in ROWS if row["code"] == code]
    assert sum(row["review"] == "right" for row in rows) >= 0.9 * len(rows)


def test_each_verdict_has_its_reason():
    assert all(row["verdict"] in {"right", "wrong"} and row["reason"] for row in ROWS)
    assert all(row["review"] in {"right", "wrong"} and row["review_reason"] for row in (*ROWS, *JUDGED["withdrawn"]))


def test_what_the_second_reader_found_wrong_is_no_claim_any_more():
    claims = {(row["code"], row["kernel"], row["line"], row["evidence"]): row["severity"] for row in ROWS}
    for row in JUDGED["withdrawn"]:
        assert row["review"] == "wrong"
        assert claims.get((row["code"], row["kernel"], row["line"], row["evidence"]), "hint") == "hint"
