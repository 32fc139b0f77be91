"""The launches that were labelled by construction: their labels, and the evidence of a measured run judged anew."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from diagnosis_h200 import DATA

from tritonforge.domain.finding import BottleneckClass

ROOT = Path(__file__).parents[2]
EVIDENCE = DATA / "h200" / "labelled.json.xz"
FIRST_TRY = ROOT / "benchmarks" / "results" / "classification_labelled.json"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_classify", ROOT / "benchmarks" / "classify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_enough_labels_and_they_cover_the_classes(benchmark: ModuleType):
    labels = list(benchmark.labels())
    assert len(labels) >= 20
    assert len({label.function for label in labels}) == len(labels)
    covered = {kind for label in labels for kind in label.classes}
    assert covered == set(get_args(BottleneckClass)) - {"unknown"}


def test_every_label_names_a_kernel_and_a_host_function_of_its_file(benchmark: ModuleType):
    for label in benchmark.labels():
        text = (benchmark.LABELLED / label.file).read_text(encoding="utf-8")
        assert label.kernel in benchmark.kernels_of(label.file)
        assert f"def {label.function}():" in text
        assert label.why


def test_evidence_of_a_split_run_is_put_together(benchmark: ModuleType):
    first = benchmark.Kept("H200", "sm_90", (), None, (("a", benchmark.Seen(problem="1")), ("b", benchmark.Seen())))
    second = benchmark.Kept("H200", "sm_90", (), None, (("a", benchmark.Seen(problem="2")),))
    both = dict(benchmark.merged(first, second).seen)
    assert set(both) == {"a", "b"}
    assert both["a"].problem == "2"
    other = benchmark.Kept("B200", "sm_100", (), None, ())
    assert benchmark.merged(first, other) == other


@pytest.mark.skipif(not EVIDENCE.exists(), reason="no measured run of the labelled launches is kept")
def test_classes_are_no_worse_than_at_the_first_try(benchmark: ModuleType):
    kept = benchmark.load_evidence(EVIDENCE)
    measured = {name for name, _ in kept.seen}
    score = benchmark.table(kept, [label for label in benchmark.labels() if label.function in measured])["score"]
    before = json.loads(FIRST_TRY.read_text(encoding="utf-8"))["score"]
    assert {level: found["right"] for level, found in score.items() if found["right"] < before[level]["right"]} == {}
