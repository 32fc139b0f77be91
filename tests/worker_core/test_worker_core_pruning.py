"""The worker's disk cache stays below its bound: the oldest entries go, whole ones, and never those of the last hour."""

import os
import time

import pytest

from tritonforge.worker import pruning


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path))

    def entry(name, age_s, size=1000):
        folder = tmp_path / "triton" / "0a1b" / name
        folder.mkdir(parents=True)
        for file in ("k.cubin", "k.json"):
            (folder / file).write_bytes(bytes(size // 2))
        os.utime(folder, (time.time() - age_s,) * 2)
        return folder

    return entry


def test_the_oldest_entries_go_as_a_whole_until_there_is_air(cache, tmp_path):
    entries = [cache(f"e{age}", age * 10_000) for age in range(1, 11)]
    text = tmp_path / "artefacts" / "ff" / "x.sass"
    text.parent.mkdir(parents=True)
    text.write_bytes(bytes(1000))
    os.utime(text, (0, 0))
    before = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    gone = pruning.prune(before - 1000)
    assert not text.exists()
    kept = [entry for entry in entries if entry.exists()]
    assert kept == entries[: len(kept)]
    assert 0 < len(kept) < 10
    assert gone >= 1000
    assert all(len(list(entry.iterdir())) == 2 for entry in kept)
    assert not list((tmp_path / "triton" / "0a1b").glob(".*"))


def test_below_the_bound_and_within_the_hour_nothing_goes(cache):
    entry = cache("young", 60)
    assert pruning.prune(1 << 30) == 0
    assert pruning.prune(10) == 0
    assert entry.exists()


def test_it_is_looked_after_once_a_day(cache, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(pruning, "prune", asked.append)
    pruning.prune_now_and_then()
    pruning.prune_now_and_then()
    assert len(asked) == 1
    os.utime(tmp_path / "pruned", (0, 0))
    pruning.prune_now_and_then()
    assert len(asked) == 2
