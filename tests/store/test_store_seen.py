"""What a list of kernels shows is kept between runs, and a prediction never stands in for a measurement."""

from dataclasses import replace

from tritonforge.store import open_store
from tritonforge.store.seen import Seen

MEASURED = Seen("code", ("b", "a"), "local (H200)", time_us=12.0, provenance="measured", interval=(11.0, 13.0))
PREDICTED = Seen("code", ("a", "b"), "offline", time_us=10.0)


def test_what_was_seen_of_each_kernel_is_there_the_next_time_with_its_time(tmp_path):
    with open_store(tmp_path) as store:
        store.put_seen("ops/k.py", "Outer.k", MEASURED)
        store.put_seen("k.py", "k", PREDICTED)
    with open_store(tmp_path) as store:
        found = store.seen()
    assert set(found) == {("ops/k.py", "Outer.k"), ("k.py", "k")}
    assert replace(found["k.py", "k"], at=0.0) == PREDICTED
    assert found["k.py", "k"].at > 1e9


def test_a_prediction_replaces_a_measurement_only_when_the_code_has_changed(tmp_path):
    with open_store(tmp_path) as store:
        store.put_seen("k.py", "k", MEASURED)
        store.put_seen("k.py", "k", PREDICTED)
        assert store.seen()["k.py", "k"].provenance == "measured"
        store.put_seen("k.py", "k", replace(PREDICTED, code_hash="other"))
        assert store.seen()["k.py", "k"].provenance == "predicted"
        store.put_seen("k.py", "k", MEASURED)
        store.put_seen("k.py", "k", replace(MEASURED, time_us=11.5))
        assert store.seen()["k.py", "k"].time_us == 11.5


def test_kernels_with_recorded_calls_are_told_from_others(tmp_path):
    with open_store(tmp_path) as store:
        store.put_calls("a/k.py", "A.k", code_hash="", site_hashes=(), calls=(), origin="main")
        assert store.subjects_with_calls() == {("a/k.py", "A.k")}


def test_calls_of_a_file_whose_name_is_no_text_are_kept_like_any_others(tmp_path):
    file = "a\udcff.py"
    with open_store(tmp_path) as store:
        store.put_calls(file, "k", code_hash="", site_hashes=(), calls=(), origin=f"run:{file}::main")
        assert store.kernels_with_calls(file) == ("k",)
        assert [one.origin for one in store.calls_for(file, "k")] == [f"run:{file}::main"]
        store.forget_calls(file, "k", f"run:{file}::main")
        assert store.calls_for(file, "k") == ()
