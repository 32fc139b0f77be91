"""The committed file: the same text for the same baseline, whole or not at all, and one sentence for whatever is wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import threading
from pathlib import Path

import pytest
from regression_fakes import checked, runs

from tritonforge.domain.baseline import Baseline, GpuState
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Config, Scalar
from tritonforge.regression import baseline_file
from tritonforge.regression.baseline_file import SCHEMA, baseline_text, read_baseline, write_baseline
from tritonforge.regression.subjects import config_facts


@pytest.fixture
def baseline():
    (entry,) = checked().entries.values()
    timed = dataclasses.replace(
        entry, time=runs(30.123, 30.25), state=GpuState(1980, temperature=44, held_back=("its power limit",))
    )
    offline = dataclasses.replace(entry, gpu=None, arch="sm_80", findings={"TF203": "warning"})
    return Baseline((offline, timed), {"k.py": "x = 'ü'\n"})


def test_what_is_written_is_read_back_and_written_alike(tmp_path, baseline):
    path = tmp_path / ".tritonforge" / "baseline.json"
    write_baseline(path, baseline)
    again = read_baseline(path)
    assert again == dataclasses.replace(baseline, entries=tuple(sorted(baseline.entries, key=lambda one: one.key)))
    assert baseline_text(again) == path.read_text(encoding="utf-8")
    shuffled = Baseline(tuple(reversed(baseline.entries)), baseline.sources)
    assert baseline_text(shuffled) == baseline_text(baseline)


def test_one_changed_number_changes_one_line(baseline):
    before = baseline_text(baseline).splitlines()
    entries = tuple(
        dataclasses.replace(one, compiled={**one.compiled, "registers": 99}) for one in baseline.entries[:1]
    )
    after = baseline_text(Baseline((*entries, *baseline.entries[1:]), baseline.sources)).splitlines()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_numbers_have_five_digits_and_nothing_is_infinite(baseline):
    entry = dataclasses.replace(baseline.entries[0], compiled={"occupancy": 1 / 3, "predicted_us": float("inf")})
    (kernel,) = json.loads(baseline_text(Baseline((entry,))))["kernels"]
    assert kernel["entries"][0]["compiled"] == {"occupancy": 0.33333, "predicted_us": None}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, baseline, monkeypatch):
    path = tmp_path / "baseline.json"
    write_baseline(path, baseline)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(baseline_file.os, "fsync", full)
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        write_baseline(path, Baseline())
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["baseline.json"]


def test_a_link_stays_a_link_and_rights_stay_as_they_are(tmp_path, baseline):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    write_baseline(real, baseline)
    real.chmod(0o664)
    link.symlink_to(real)
    write_baseline(link, Baseline())
    assert link.is_symlink()
    assert read_baseline(real) == Baseline()
    assert real.stat().st_mode & 0o777 == 0o664


def test_no_file_is_no_baseline(tmp_path):
    assert read_baseline(tmp_path / "none.json") is None


GOOD = {"schema": SCHEMA, "kernels": [], "sources": {}}
ENTRY = {
    "problem": "p",
    "describes": "",
    "gpu": None,
    "arch": "sm_90",
    "config": {},
    "grid": [1, 1, 1],
    "time_us": None,
}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is damaged: it is not valid JSON (line 1)"),
        ('{"schema":\n"trit', "is damaged: it is not valid JSON (line 2)"),
        ("[" * 100_000, "is damaged"),
        ("[]", "is not a TritonForge baseline"),
        ('{"schema": "tritonforge/1", "results": []}', "is not a TritonForge baseline"),
        (
            '{"schema": "tritonforge-baseline/2"}',
            "was written by a newer TritonForge (tritonforge-baseline/2, this one knows",
        ),
        (json.dumps({"schema": SCHEMA}), "is damaged: 'kernels' is missing"),
        (
            json.dumps({**GOOD, "kernels": [{"file": "k.py", "name": "k", "entries": [ENTRY]}]}),
            "'code_hash' is missing",
        ),
        (json.dumps({**GOOD, "kernels": 7}), "is damaged"),
        (json.dumps({**GOOD, "sources": {"k.py": "%%%"}}), "is damaged"),
        ('{\n<<<<<<< HEAD\n "a": 1\n=======\n "a": 2\n>>>>>>> other\n}', "has an unresolved merge conflict"),
        ("\x00\xff", None),
    ],
)
def test_what_is_no_baseline_is_told_in_one_sentence(tmp_path, text, says):
    path = tmp_path / "baseline.json"
    path.write_bytes(b"\xff\xfe" if says is None else text.encode())
    with pytest.raises(UsageError) as caught:
        read_baseline(path)
    assert (says or "is not UTF-8") in str(caught.value)
    assert caught.value.mend
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [1e400]])
def test_times_that_cannot_be_are_damage(tmp_path, baseline, bad):
    path = tmp_path / "baseline.json"
    data = json.loads(baseline_text(baseline))
    data["kernels"][0]["entries"][-1]["time_us"]["runs"] = bad
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=r"are not above 0|is not valid JSON"):
        read_baseline(path)


def damaged(baseline, change):
    data = json.loads(baseline_text(baseline))
    change(data["kernels"][0]["entries"][-1])
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: e.update(grid=[1e999, 1, 1]), "it is not valid JSON"),
        (lambda e: e["time_us"].update(samples=float("nan")), "it is not valid JSON"),
        (lambda e: e["time_us"].update(runs=[10**400]), "is damaged: int too large"),
        (lambda e: e["compiled"].update(predicted_us=10**400), "compiled has no plain value for predicted_us"),
        (lambda e: e["compiled"].update(registers=[1]), "compiled has no plain value for registers"),
        (lambda e: e.update(config=[["BLOCK", {}]]), "config is no object"),
        (lambda e: e.update(findings={"TF203": "catastrophe"}), "TF203 has no known severity"),
        (lambda e: e.update(time_us="x" * 5000), "is damaged: "),
    ],
)
def test_numbers_that_are_none_are_damage_told_in_short(tmp_path, baseline, change, says):
    path = tmp_path / "baseline.json"
    path.write_text(damaged(baseline, change))
    with pytest.raises(UsageError) as caught:
        read_baseline(path)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_number_that_overflows_is_damage_however_it_is_written(tmp_path, baseline):
    path = tmp_path / "baseline.json"
    text = baseline_text(baseline)
    assert '"samples": ' in text
    path.write_text(re.sub(r'"samples": \d+', '"samples": 1e999', text))
    with pytest.raises(UsageError, match="is damaged: cannot convert float infinity"):
        read_baseline(path)


def test_sources_that_unpack_to_more_than_anybody_writes_are_not_unpacked(tmp_path, baseline, monkeypatch):
    path = tmp_path / "baseline.json"
    monkeypatch.setattr(baseline_file, "_LARGEST", 10_000)
    write_baseline(path, dataclasses.replace(baseline, sources={"k.py": "a" * 9_000}))
    assert read_baseline(path).sources == {"k.py": "a" * 9_000}
    for sources in ({"k.py": "a" * 1_000_000}, {"a.py": "a" * 6_000, "b.py": "b" * 6_000}):
        write_baseline(path, dataclasses.replace(baseline, sources=sources))
        with pytest.raises(UsageError, match="its sources are too large"):
            read_baseline(path)


def test_what_a_merge_left_twice_counts_once_and_a_byte_order_mark_not_at_all(tmp_path, baseline):
    path = tmp_path / "baseline.json"
    (one, *_) = baseline.entries
    older = dataclasses.replace(one, date="2026-01-01", grid=(1, 1, 1))
    newer = dataclasses.replace(one, date="2026-02-01", grid=(2, 1, 1))
    path.write_text("\ufeff" + baseline_text(Baseline((newer, older))), encoding="utf-8")
    assert [entry.grid for entry in read_baseline(path).entries] == [(2, 1, 1)]


def test_a_file_may_have_any_name(tmp_path, baseline):
    odd = dataclasses.replace(baseline.entries[0], file='a\nb\udcff "c".py')
    write_baseline(tmp_path / "baseline.json", Baseline((odd,), {odd.file: "x"}))
    assert read_baseline(tmp_path / "baseline.json") == Baseline((odd,), {odd.file: "x"})


def test_a_config_that_holds_no_number_can_be_written():
    config = config_facts(Config((("LOWEST", Scalar(float("-inf"))), ("BLOCK", Scalar(64))), (), (1, 1, 1)))
    assert config == {"LOWEST": "-inf", "BLOCK": 64}


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="there is no such device here")
def test_a_device_is_told_and_a_pipe_is_read(tmp_path, baseline):
    with pytest.raises(UsageError, match="is a device and no baseline"):
        read_baseline(Path("/dev/zero"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(baseline_text(baseline),), daemon=True)
    writer.start()
    assert read_baseline(pipe).sources == baseline.sources
    writer.join(30)


def test_a_file_that_is_longer_than_any_baseline_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(baseline_file, "_LARGEST", 100)
    (tmp_path / "baseline.json").write_text(" " * 101)
    with pytest.raises(UsageError, match="is too large for a baseline"):
        read_baseline(tmp_path / "baseline.json")


def test_a_folder_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_baseline(tmp_path)
