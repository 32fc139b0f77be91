"""What `check` decides: a suspect is measured beside the recorded version, and the machine is never taken for the code."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace

import pytest
import regression_fakes as fakes
from regression_fakes import CHANGED, SLOWER, SOURCE, FakeGpu, baseline_of, checked, compared

from tritonforge.domain.baseline import Baseline, GpuState
from tritonforge.domain.messages import Time
from tritonforge.pytest_plugin.laboratory import Laboratory
from tritonforge.regression.baseline_file import read_baseline, write_baseline
from tritonforge.regression.checking import Check
from tritonforge.regression.comparisons import gone
from tritonforge.regression.compiled import compare_compiled
from tritonforge.regression.judging import Options
from tritonforge.regression.machine import busy, disturbed
from tritonforge.regression.merging import differences, merged

COMMENT = SOURCE.replace("import torch\n", "import torch  # another comment\n")
SLOW = SOURCE + SLOWER + "\n"


def check(gpu, one, baseline=None, **options):
    async def both():
        made = baseline or await baseline_of(FakeGpu(seed=99))
        return await compared(made, gpu, one, **options)

    return asyncio.run(both())


def timed(gpu):
    return [len(request.programs) for request in gpu.asked if isinstance(request, Time)]


def test_an_unchanged_kernel_is_ok_after_three_runs():
    gpu = FakeGpu(seed=1)
    found = check(gpu, checked())
    assert (found.status, found.changes) == ("ok", {})
    assert found.ratio == pytest.approx(1.0, abs=0.01)
    assert timed(gpu) == [1, 1, 1]


def test_a_slower_version_is_measured_side_by_side_and_has_regressed():
    gpu = FakeGpu(seed=2)
    found = check(gpu, checked(SLOW))
    assert found.status == "regressed"
    assert timed(gpu) == [1, 1, 1, 2, 2, 2]
    assert found.ratio == pytest.approx(1.05, abs=0.01)
    assert found.ratio_ci95[0] > 1.03
    assert "side by side" in found.reasons[0]


@pytest.mark.parametrize(
    ("text", "machine", "programs", "where"), [(SLOW, 1.0, 2, {(0, 2), (1, 2)}), (SOURCE, 1.08, 1, {(0, 2)})]
)
def test_two_gpus_share_what_is_measured_side_by_side_and_nothing_that_is_set_beside_earlier_times(
    text, machine, programs, where
):
    gpu = FakeGpu(seed=2, machine=machine)

    async def both():
        check = Check(fakes.session(gpu, gpus=2), None, await baseline_of(FakeGpu(seed=99)), Options(gate=False))
        check.kernels = [checked(text), checked(text)]
        await fakes.measure(check, 3)
        assert (set(gpu.on), gpu.at_once) == ({None}, 1), "the times of a run are those of one GPU"
        gpu.on.clear()
        gpu.asked.clear()
        gpu.answered = 0
        return await check.compare()

    found = asyncio.run(both())
    assert {one.status for one in found} == ({"regressed"} if text == SLOW else {"error"})
    assert {on for on, asked in zip(gpu.on, gpu.asked, strict=True) if isinstance(asked, Time)} == where
    assert {len(asked.programs) for asked in gpu.asked if isinstance(asked, Time)} == {programs}
    assert gpu.at_once == 2


def test_a_change_of_host_code_alone_is_seen():
    found = check(FakeGpu(seed=3, slowdown=1.2), checked(CHANGED + SLOWER, block=512))
    assert found.status == "regressed"
    assert found.changes["config.BLOCK"] == (1024, 512)
    assert found.changes["grid"] == ("1024×1×1", "2048×1×1")
    assert "site_hash" in found.changes
    assert "code_hash" not in found.changes


def test_a_slower_machine_is_not_taken_for_slower_code():
    """The code changed, and the GPU is 8 % slower today: the recorded version is as slow, which says it all."""
    found = check(FakeGpu(seed=4, machine=1.08), checked(COMMENT))
    assert found.status == "ok"
    assert "the machine differs" in " ".join(found.notes)


def test_unchanged_code_on_a_slower_machine_says_nothing_and_fails_nothing():
    gpu = FakeGpu(seed=5, machine=1.08)
    found = check(gpu, checked())
    assert (found.status, found.doubtful) == ("error", True)
    assert "it is the machine" in found.reasons[0]
    assert timed(gpu) == [1] * 6


def test_unchanged_code_that_another_triton_makes_slower_has_regressed():
    found = check(FakeGpu(seed=6, machine=1.08), checked(), triton="3.8.0")
    assert found.status == "regressed"
    assert "since triton 3.8.0 (was 3.7.1)" in found.reasons[0]


def test_changed_code_that_another_triton_makes_slower_names_the_versions():
    found = check(FakeGpu(seed=6, machine=1.08), checked(COMMENT), triton="3.8.0")
    assert found.status == "regressed"
    assert "the code is not what changed" in found.reasons[0]


def test_a_faster_version_has_improved():
    found = check(FakeGpu(seed=7, slowdown=0.9), checked(SLOW))
    assert found.status == "improved"
    assert found.ratio < 0.95


def test_without_the_recorded_text_the_present_version_is_measured_again():
    async def both():
        made = dataclasses.replace(await baseline_of(FakeGpu(seed=99)), sources={})
        gpu = FakeGpu(seed=8)
        return await compared(made, gpu, checked(SLOW)), gpu

    found, gpu = asyncio.run(both())
    assert found.status == "regressed"
    assert timed(gpu) == [1] * 6
    assert "measured 6 times" in found.reasons[0]


def test_a_hot_gpu_makes_it_doubtful_where_nothing_can_be_measured_side_by_side():
    async def both():
        made = dataclasses.replace(await baseline_of(FakeGpu(seed=99)), sources={})
        hot = GpuState(1500, 1980, 2619, 88, 0.0, 0, ("its temperature",))
        return await compared(made, FakeGpu(seed=9, state=hot), checked(SLOW))

    found = asyncio.run(both())
    assert (found.status, found.doubtful) == ("error", True)
    assert "slowed down by its temperature (88 °C)" in found.reasons[0]
    assert "SM clock is 1500 MHz" in found.reasons[0]


def test_a_version_that_does_not_run_is_an_error_with_the_reason():
    found = check(FakeGpu(seed=10, error="RuntimeError: no"), checked(SLOW))
    assert (found.status, found.doubtful) == ("error", False)
    assert found.reasons == ("RuntimeError: no",)


def test_what_no_longer_compiles_has_regressed():
    found = check(FakeGpu(seed=11), checked(SLOW, compiled={"error": "no such thing"}))
    assert found.status == "regressed"
    assert "no longer compiles" in found.reasons[0]


def test_another_problem_is_new_and_the_old_one_missing():
    async def both():
        made = await baseline_of(FakeGpu(seed=99))
        (entry,) = made.entries
        made = Baseline((dataclasses.replace(entry, problem="feedfeedfeed"),), made.sources)
        session = fakes.session(FakeGpu(seed=12))
        check = Check(session, None, made, Options(gate=False))
        check.kernels = [checked()]
        await fakes.measure(check, 3)
        return await check.compare()

    assert sorted(one.status for one in asyncio.run(both())) == ["missing", "new"]


def test_kernels_that_are_gone_are_missing():
    made = asyncio.run(baseline_of(FakeGpu(seed=99)))
    assert [one.status for one in gone(made, set(), {"k.py"}, fakes.GPU)] == ["missing"]
    assert gone(made, {("k.py", "scale")}, {"k.py"}, fakes.GPU) == []
    assert gone(made, set(), {"other.py"}, fakes.GPU) == []


def test_a_simulated_week_of_checks_has_no_false_alarm_and_finds_five_per_cent():
    """A simulation of 200 A/A checks (another comment each time) and 100 of a version that takes 5 % longer."""

    async def all_of_it():
        made = await baseline_of(FakeGpu(seed=99))
        alarms = found = 0
        for seed in range(200):
            machine = 1.0 + 0.006 * ((seed % 7) - 3) / 3
            alarms += (await compared(made, FakeGpu(seed=seed, machine=machine), checked(COMMENT))).status != "ok"
        for seed in range(100):
            machine = 1.0 + 0.006 * ((seed % 7) - 3) / 3
            found += (await compared(made, FakeGpu(seed=seed, machine=machine), checked(SLOW))).status == "regressed"
        return alarms, found

    alarms, found = asyncio.run(all_of_it())
    assert alarms <= 1
    assert found >= 95


def entry(**compiled):
    (one,) = checked(compiled=compiled).entries.values()
    return one


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({"spill_bytes": 0}, {"spill_bytes": 128}, "spills more registers"),
        ({"spill_bytes": 0}, {"spill_bytes": 8}, ""),
        ({"shared_bytes": 65536}, {"shared_bytes": 300_000}, "shared memory"),
        ({"occupancy": 0.5, "registers": 90}, {"registers": 255}, "no program of it fits"),
        ({"predicted_us": 100.0}, {"predicted_us": 115.0}, "1.15x as long"),
        ({"predicted_us": 100.0}, {"predicted_us": 108.0}, ""),
        ({"registers": 60, "occupancy": 0.5}, {"registers": 90, "occupancy": 0.375}, ""),
        ({"registers": 60}, {"error": "out of resource"}, "no longer compiles for sm_90"),
        ({"error": "out of resource"}, {"error": "out of resource"}, ""),
    ],
)
def test_what_counts_as_a_regression_without_a_gpu(before, after, says):
    reasons = compare_compiled(entry(**before), entry(**after)).reasons
    assert [says in reason for reason in reasons] == ([True] if says else [])


def test_a_new_error_is_a_regression_and_a_new_hint_is_none():
    before = entry(registers=1)
    worse = dataclasses.replace(before, findings={"TF501": "error"})
    assert "TF501 is a new finding" in compare_compiled(before, worse).reasons[0]
    assert compare_compiled(worse, worse).reasons == ()
    assert compare_compiled(before, dataclasses.replace(before, findings={"TF103": "hint"})).reasons == ()


def test_what_the_recorded_version_suffers_too_is_the_compilers_or_the_models_doing():
    before, after = entry(predicted_us=100.0), entry(predicted_us=130.0)
    judged = compare_compiled(before, after, {"predicted_us": 129.0})
    assert judged.reasons == ()
    assert "the model changed" in judged.notes[0]
    newer = dataclasses.replace(after, versions={"triton": "3.8.0"})
    assert "since Triton 3.8.0 (was 3.7.1)" in compare_compiled(before, newer, {"predicted_us": 129.0}).reasons[0]
    spilling = dataclasses.replace(entry(spill_bytes=64), versions={"triton": "3.8.0"})
    assert (
        "the same to the recorded version"
        in compare_compiled(entry(spill_bytes=0), spilling, {"spill_bytes": 64}).reasons[0]
    )


def test_the_state_of_the_gpu_is_judged_in_sentences():
    assert busy(GpuState(utilisation=0.4, others=2)) == "another process keeps the GPU 40 % busy (2 other processes)"
    assert busy(GpuState(utilisation=0.01)) == ""
    assert busy(GpuState()) == ""
    cool = GpuState(1980, 1980, 2619, 45, held_back=("its power limit",))
    assert disturbed(cool, cool) == ()
    assert disturbed(None, cool) == ()
    assert disturbed(cool, None) == ()
    assert disturbed(cool, dataclasses.replace(cool, memory_clock=1300)) == (
        "the memory clock is 1300 MHz, and was 2619 MHz for the baseline",
    )
    assert disturbed(cool, dataclasses.replace(cool, held_back=("the power brake",)))[0].endswith(
        "the power brake (45 °C)"
    )


def test_a_busy_gpu_is_waited_for_and_then_told(monkeypatch):
    from tritonforge.regression import measuring

    monkeypatch.setattr(measuring, "_WAIT_S", 0.0)
    gpu = FakeGpu(seed=13, state=GpuState(1980, utilisation=0.9))
    assert asyncio.run(measuring.wait_until_idle(fakes.session(gpu))).startswith("another process keeps the GPU 90 %")
    assert len(gpu.asked) == 3


def test_an_update_replaces_what_was_measured_and_leaves_other_gpus_alone():
    made = asyncio.run(baseline_of(FakeGpu(seed=99)))
    (mine,) = made.entries
    other = dataclasses.replace(mine, gpu="NVIDIA A100-SXM4-80GB", arch="sm_80")
    stale = dataclasses.replace(mine, problem="000000000000", describes="gone")
    elsewhere = dataclasses.replace(mine, file="z.py", kernel="k")
    before = Baseline((mine, other, stale, elsewhere), {"k.py": "old", "z.py": "z"})
    fresh = dataclasses.replace(mine, time=fakes.runs(33.0, 33.0), config={"BLOCK": 256})
    after = merged(before, [fresh], {("k.py", "scale")}, {"k.py": "new"})
    assert sorted(one.key for one in after.entries) == sorted(one.key for one in (fresh, other, elsewhere))
    assert fresh in after.entries
    assert after.sources == {"k.py": "new", "z.py": "z"}
    said = differences(before, after)
    assert [one[0] for one in said] == ["-", "~"]
    assert "config.BLOCK 1024 → 256" in said[1]
    assert "30" in said[1]
    assert "→ 33" in said[1]
    assert differences(after, after) == ()


def test_what_another_process_writes_while_an_update_measures_stays(tmp_path):
    file = tmp_path / "baseline.json"
    laboratory = Laboratory(tmp_path, None, file, update=True)
    mine = fakes.checked()
    (entry,) = mine.entries.values()
    theirs = dataclasses.replace(entry, kernel="theirs")
    check = Check(SimpleNamespace(measures=False), None, laboratory.baseline)
    check.kernels.append(mine)
    write_baseline(file, Baseline((theirs,), {"k.py": "x"}))  # after the update began, before it writes
    laboratory.keep(check)
    assert {one.kernel for one in read_baseline(file).entries} == {entry.kernel, "theirs"}


def test_what_is_left_out_of_a_baseline_is_told_with_the_reason():
    broken = fakes.checked(compiled={"error": "no such function"})
    check = Check(SimpleNamespace(measures=False), None, Baseline())
    check.kernels.append(broken)
    assert check.updated().entries == ()
    assert check.left_out() == ["k.py::scale: it does not compile for sm_90: no such function"]
    check.times.errors[broken.scope] = "it hung"
    assert check.left_out() == ["k.py::scale: it hung"]
