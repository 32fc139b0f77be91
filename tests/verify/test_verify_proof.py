"""The mutation proof: its data are sound, and on a stratified tenth of it the gate accepts nothing that is wrong."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "proof"
QUICK = {"affine_clamp", "swiglu", "vector_add"}
"""Kernels of which a variant takes seconds in the interpreter, on every input; `make proof` judges all of them."""
SHARE = 0.1
ALONE = {"group_norm"}
"""Takes a quarter of the time of all; `make proof` judges it."""


@pytest.fixture(scope="module")
def proof():
    """The modules of the proof, which are imported by plain names from their folder."""
    sys.path.insert(0, str(HERE))
    try:
        yield {name: importlib.import_module(name) for name in ("corpus", "sampling", "tables")}
    finally:
        sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def subjects(proof):
    return proof["corpus"].load()


def test_the_corpus_is_large_enough(subjects):
    mutants = [one for subject in subjects for one in subject.mutants if not one.equivalent]
    variants = [one for subject in subjects for one in subject.variants]
    assert len(subjects) >= 25
    assert len(mutants) >= 400
    assert len(variants) >= 200


def test_every_kind_of_mistake_occurs(proof, subjects):
    assert {one.kind for subject in subjects for one in subject.mutants} == proof["corpus"].KINDS


def test_every_edit_applies_and_makes_another_program(subjects):
    for subject in subjects:
        texts = [subject.text, *(subject.edited(one) for one in subject.by_id.values())]
        for text in texts:
            compile(text, subject.name, "exec")
        assert len(set(texts)) == len(texts), subject.name


def test_an_edit_that_does_not_say_which_place_it_means_is_refused(proof):
    edit, error = proof["corpus"].Edit, proof["corpus"].CorpusError
    assert edit("a", "b", nth=2).apply("a a") == "a b"
    for wrong in (edit("a", "b"), edit("c", "b"), edit("a", "b", nth=3), edit("a", "a", nth=1)):
        with pytest.raises(error):
            wrong.apply("a a")


def test_what_was_seen_of_each_mutant_is_of_the_mutant_as_it_stands(subjects):
    known = json.loads((HERE / "witnessed.json").read_text())
    stale, seen = [], 0
    for subject in subjects:
        for one in subject.by_id.values():
            said = known.get(f"{subject.name}/{one.id}")
            if said is None:
                continue
            seen += hasattr(one, "witness")
            if said["digest"] != subject.digest(one):
                stale.append(f"{subject.name}/{one.id}")
    assert not stale, f"run `python benchmarks/proof/run.py witnesses`: {', '.join(stale)}"
    assert seen >= 400


def test_a_sample_has_every_kernel_and_is_spread_over_the_kinds(proof, subjects):
    subjects = [one for one in subjects if one.name in QUICK]
    sample = proof["sampling"].sample(subjects, SHARE, 0)
    chosen = [one for subject in subjects for one in subject.mutants if f"{subject.name}/{one.id}" in sample]
    assert {item.partition("/")[0] for item in sample} == {subject.name for subject in subjects}
    assert len(chosen) >= 2 * len(subjects)
    assert max(Counter(one.kind for one in chosen).values()) <= 4
    assert sample != proof["sampling"].sample(subjects, SHARE, 1)


@pytest.mark.triton
@pytest.mark.timeout(1200)
def test_the_gate_is_right_about_a_tenth(subjects, tmp_path):
    pytest.importorskip("triton")
    kernels = sorted({one.name for one in subjects} - ALONE)
    done = subprocess.run(
        [
            sys.executable, HERE / "run.py", "gate", *kernels,
            "--sample", str(SHARE), "--jobs", "2", "--results", tmp_path,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    results = json.loads((tmp_path / "gate.json").read_text())["items"]
    judged = {
        f"{subject.name}/{one.id}": one for subject in subjects for one in subject.by_id.values()
    }  # fmt: skip
    wrong = [
        f"{item} ({judged[item].kind}): {said['reason']}"
        for item, said in results.items()
        if said["accepted"] is hasattr(judged[item], "witness")
    ]
    assert sum(hasattr(judged[item], "witness") for item in results) >= 70
    assert sum(not hasattr(judged[item], "witness") for item in results) >= 10
    assert not wrong, "\n".join(wrong)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_counts_what_the_gate_got_wrong(proof):
    corpus, tables = proof["corpus"], proof["tables"]
    mutant = corpus.Mutant("m", "race", (), witness="w")
    variant = corpus.Variant("v", "tile size", ())
    subject = corpus.Subject("k", "k", "k", "", "", (mutant,), (variant,), {"m": mutant, "v": variant})
    gate = {"k/m": {"accepted": True, "reason": "same", "seconds": 1.0}, "k/v": {"accepted": False, "seconds": 3.0}}
    lines = list(tables.render([subject], gate, {"k/m": {"allclose": False, "assert_close": True}}))
    assert "| race | 1 | 1 | 0 | 1 |" in lines
    assert "| tile size | 1 | 1 | – | – |" in lines
    assert "| k/m | race | same |" in lines
