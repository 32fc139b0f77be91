"""`tritonforge profile PATH --report FILE.ncu-rep`: somebody's Nsight Compute report, with no GPU and no worker."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritonforge.profiling.nsight.finding import find_ncu
from tritonforge.profiling.nsight.isolated import has_module

DATA = Path(__file__).parents[1] / "data" / "h200"
SCHEMA = Path(__file__).parents[2] / "docs" / "json" / "profile.schema.json"

pytestmark = pytest.mark.skipif(
    not has_module() and find_ncu() is None, reason="nothing here reads Nsight Compute reports"
)


def profile(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    # A python that does not exist shows that no worker is started.
    return subprocess.run(
        [sys.executable, "-m", "tritonforge", "profile", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    (folder / "tritonforge.toml").write_text('default-target = "gone"\n[targets.gone]\npython = "/does/not/exist"\n')
    (folder / "k.py").write_text((DATA / "two_kernels.py").read_text())
    (folder / "two.ncu-rep").write_bytes(lzma.decompress((DATA / "two_kernels.ncu-rep.xz").read_bytes()))
    return folder


@pytest.fixture(scope="module")
def profiles(workspace):
    done = profile("k.py", "--report", "two.ncu-rep", "--format", "json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["profiles"]


def test_every_launch_of_the_report_is_profiled_in_order(profiles):
    assert [one["kernel"]["name"] for one in profiles] == ["rowsum", "mm"]
    softmax, product = profiles
    assert softmax["time_us"] == {
        "median": pytest.approx(61.3, abs=0.1),
        "ci95": pytest.approx([61.3, 61.3], abs=0.1),
        "samples": 1,
    }
    assert softmax["launch"]["grid"] == [8192, 1, 1]
    assert product["launch"]["config"] == {"num_warps": 4}
    assert softmax["target"]["gpu"] == "NVIDIA H200"
    assert {one["counters_source"] for one in profiles} == {"ncu"}


def test_the_json_keeps_to_its_schema(profiles):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate({"schema": "tritonforge/1", "profiles": profiles}, json.loads(SCHEMA.read_text()))


def test_the_roofline_is_of_counted_bytes_and_operations_under_the_reports_gpu(profiles):
    softmax, product = (one["roofline"] for one in profiles)
    assert softmax["bound"] == "memory"
    assert softmax["bytes"] == pytest.approx(2 * 4 * 8192 * 4000, rel=0.1)
    assert softmax["ceiling_gbps"] == pytest.approx(4814, rel=0.01)
    assert softmax["fraction"] == pytest.approx(0.8, abs=0.03)
    assert product["bound"] == "compute"
    assert product["flops"] == 2 * 2048**3


def test_heat_is_on_the_users_lines_with_library_code_charged_to_them(profiles):
    softmax, product = profiles
    assert sum(line["share"] for line in softmax["lines"].values()) == pytest.approx(1.0)
    assert max(softmax["lines"].items(), key=lambda item: item[1]["share"])[0] == "9"
    assert set(softmax["lines"]) <= {str(n) for n in range(3, 10)}
    assert set(product["lines"]) <= {str(n) for n in range(11, 20)}
    assert max(softmax["stalls"], key=softmax["stalls"].get) == "long_scoreboard"


def test_each_has_a_class_from_measurement(profiles):
    softmax, product = (one["bottleneck"] for one in profiles)
    assert (softmax["class"], softmax["provenance"]) == ("dram-bandwidth", "measured")
    assert product["class"] in {"tile-too-small", "l2-bandwidth", "tensor-core"}


def test_one_kernel_may_be_named_and_the_others_are_listed(workspace):
    done = profile("k.py::mm", "--report", "two.ncu-rep", "--format", "json", cwd=workspace)
    (one,) = json.loads(done.stdout)["profiles"]
    assert one["kernel"]["name"] == "mm"
    assert any("launches of other kernels in the report: rowsum" in sentence for sentence in one["missing"])


def test_a_folder_is_searched_and_the_file_of_the_report_wins(workspace):
    (workspace / "copies").mkdir(exist_ok=True)
    (workspace / "copies" / "k.py").write_text((DATA / "two_kernels.py").read_text())
    (workspace / "copies" / "other.py").write_text("\n" * 50 + (DATA / "two_kernels.py").read_text())
    done = profile("copies", "--report", "two.ncu-rep", "--format", "json", cwd=workspace)
    assert {one["kernel"]["file"] for one in json.loads(done.stdout)["profiles"]} == {"copies/k.py"}


def test_lines_of_another_version_of_the_file_are_not_shown(workspace):
    (workspace / "moved.py").write_text("\n" * 40 + (DATA / "two_kernels.py").read_text())
    done = profile("moved.py", "--report", "two.ncu-rep", "--format", "json", cwd=workspace)
    for one in json.loads(done.stdout)["profiles"]:
        assert one["lines"] == {}
        assert one["stalls"]
        assert any("other lines of moved.py" in sentence for sentence in one["missing"])


def test_the_screen_shows_time_roofline_class_heat_and_where_they_come_from(workspace):
    done = profile("k.py::rowsum", "--report", "two.ncu-rep", cwd=workspace)
    assert done.returncode == 0, done.stderr
    for part in (
        "61.3",
        "Roofline",
        "dram-bandwidth",
        "long scoreboard",
        "tl.store(o + r * N + i",
        "under Nsight Compute",
    ):
        assert part in done.stdout, part


@pytest.mark.parametrize(
    ("report", "part"),
    [
        ("none.ncu-rep", "No such file"),
        ("k.py", "not an Nsight Compute report"),
        ("half.ncu-rep", "cut off"),
        (".", "Cannot read"),
    ],
)
def test_a_wrong_report_is_one_sentence(workspace, report, part):
    whole = (workspace / "two.ncu-rep").read_bytes()
    (workspace / "half.ncu-rep").write_bytes(whole[: len(whole) // 2])
    done = profile("k.py", "--report", report, cwd=workspace)
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_report_of_other_kernels_names_them(workspace):
    (workspace / "stranger.py").write_text("import triton\n\n@triton.jit\ndef stranger(x):\n    pass\n")
    done = profile("stranger.py", "--report", "two.ncu-rep", cwd=workspace)
    assert done.returncode == 2
    assert "it holds rowsum, mm" in done.stderr
    assert "stranger" in done.stderr
