"""What is made of a profiler's answer: refusals in one sentence, samples of Proton, launches matched, lines aligned."""

import json
import lzma
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiling_nsight_golden import FOLDER

from tritonforge.compilation.sass import instruction_lines
from tritonforge.diagnosis.counting import _aligned
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar
from tritonforge.domain.messages import Count, CountResult, Program
from tritonforge.profiling.counting import _read
from tritonforge.profiling.nsight import counters_of
from tritonforge.profiling.nsight.pages import parse_pages
from tritonforge.profiling.sampling import counters_by_launch
from tritonforge.worker import counting, counting_tool
from tritonforge.worker.counting_refusals import refusal_of
from tritonforge.worker.failures import JobFailed

SAMPLES = (FOLDER / "two_kernels.pcsampling.json").read_text()


def page(name: str) -> str:
    return lzma.decompress((FOLDER / f"two_kernels.{name}.csv.xz").read_bytes()).decode()


def recorded(kernel: str, grid: tuple[int, int, int]) -> RecordedLaunch:
    return RecordedLaunch("k.py", kernel, 3, (), (), (("num_warps", Scalar(8)),), grid, CallSite("k.py", 30, "go"))


ROWSUM, MM = recorded("rowsum", (8192, 1, 1)), recorded("mm", (32, 32, 1))


@pytest.mark.parametrize(
    ("said", "status", "sentence", "mend", "lasting"),
    [
        (
            ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
            "the target device 0.\n==WARNING== No kernels were profiled."),
            1, "only administrators", "NVreg_RestrictProfilingToAdminUsers=0", True,
        ),
        ("Proton: Failed to execute with error CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", 1, "only administrators", "SYS_ADMIN", True),
        (
            ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
            "is concurrently collecting profiling data."),
            1, "Another tool", "dcgmi profile --pause", False,
        ),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", 1, "do not fit", "Install", True),
        ("==ERROR== An error: failed to open /tmp/nsight-compute-lock", 1, "lock file", "TMPDIR", False),
        ("==WARNING== No kernels were profiled.", 0, "saw no launch", "doctor", False),
        ("==ERROR== Something else went wrong.", 9, "exited with status 9: Something else went wrong.", "doctor", False),
        ("", None, "did not end in time", "--counters pcsampling", False),
        ("", -11, "was ended by signal 11", "doctor", False),
    ],
)  # fmt: skip
def test_what_a_profiler_says_becomes_one_sentence_with_the_mend(said, status, sentence, mend, lasting):
    refusal = refusal_of(said, status, "Nsight Compute 2025.3")
    assert sentence in refusal.sentence
    assert mend in refusal.mend
    assert refusal.lasting is lasting


def test_samples_of_a_kernel_become_shares():
    rowsum, mm = counters_by_launch(SAMPLES, ["rowsum", "mm"])
    assert (rowsum.source, mm.source) == ("pcsampling", "pcsampling")
    assert list(mm.stalls)[:2] == ["long_scoreboard", "barrier"]
    assert sum(mm.stalls.values()) == pytest.approx(1.0)
    assert rowsum.time_us == pytest.approx(64.8, abs=0.1)
    assert rowsum.lines == {}
    assert any("per line" in sentence for sentence in rowsum.missing)


def test_launches_of_one_kernel_are_told_apart_by_their_scopes():
    def node(name, children=(), **metrics):
        return {"frame": {"name": name, "type": "function"}, "children": list(children), "metrics": metrics}

    lined = node("/a/k.py:mm@16", stalled_wait=3)
    tree = [
        node(
            "ROOT",
            [node("launch0", [node("mm", stalled_wait=8, stalled_barrier=2)]), node("launch1", [node("mm", [lined])])],
        ),
        {"CUDA": {}},
    ]
    first, second, none = counters_by_launch(json.dumps(tree), ["mm", "mm", "mm"], file_of=["k.py"] * 3)
    assert first.stalls == {"wait": 0.8, "barrier": 0.2}
    assert second.lines[16].samples == 3
    assert none is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nonsense", '[{"frame": null}]', '[{"frame": {"name": "ROOT"}, "metrics": null}]']
)
def test_samples_that_cannot_be_read_are_none(text):
    assert counters_by_launch(text, ["mm"]) == [None]


def test_the_pages_that_a_worker_brings_are_matched_to_its_launches():
    pages = {"raw": page("raw"), "sass": page("sass"), "lines": page("lines")}
    counted = _read(CountResult((ROWSUM, MM), pages=pages, tool="Nsight Compute 2025.3.1"), "ncu")
    assert [counted.reported[i].name for i in (0, 1)] == ["rowsum", "mm"]
    assert counted.refused == ""


def test_other_kernels_in_between_do_not_shift_the_launches():
    pages = {"raw": page("raw"), "sass": page("sass"), "lines": page("lines")}
    counted = _read(CountResult((MM,), pages=pages), "ncu")
    assert {i: one.name for i, one in counted.reported.items()} == {0: "mm"}
    nothing = _read(CountResult((recorded("other", (1, 1, 1)),), pages=pages), "ncu")
    assert nothing.refused


@pytest.mark.triton
def test_reported_instructions_are_those_of_the_binary_line_by_line(tmp_path):
    """The report holds the binary: its disassembly must align, whatever predicates and modifiers are printed like."""
    pytest.importorskip("triton")
    from tritonforge.worker.artefacts import tool_path

    report = lzma.decompress((FOLDER / "two_kernels.ncu-rep.xz").read_bytes())
    starts = [found.start() for found in re.finditer(rb"\x7fELF", report)]
    launches = parse_pages(page("raw"), page("sass"), page("lines"))
    assert len(starts) == len(launches) == 2
    for start, launch in zip(starts, launches, strict=True):
        cubin = tmp_path / "one.cubin"
        cubin.write_bytes(report[start : start + 80_000])
        sass = subprocess.run(
            [tool_path("nvdisasm"), "-gi", "-c", cubin], capture_output=True, text=True, check=True
        ).stdout
        placed = instruction_lines(sass, "/home/user/kernel/k.py")
        lines = _aligned(launch, placed)
        assert lines is not None
        own = [
            (a, b.line) for a, b in zip(lines, launch.instructions, strict=True) if b.file and b.file.endswith("k.py")
        ]
        assert own
        assert all(first == second for first, second in own)
        assert _aligned(launch, [("NOP", 1), *placed]) is None


def test_ncu_is_asked_for_chosen_sections_of_the_program_itself(tmp_path):
    command = counting_tool.ncu_command("ncu", tmp_path / "report", tmp_path / "log")
    assert command[command.index("--target-processes") + 1] == "application-only"
    assert command[command.index("--profile-from-start") + 1] == "off"
    assert command[command.index("--clock-control") + 1] == "none"
    assert command.count("--section") == len(counting_tool.SECTIONS) == 9


def test_a_profiled_program_that_hangs_is_ended_with_what_it_started(tmp_path):
    script = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); open(r'{tmp_path}/pid', 'w').write(str(p.pid)); time.sleep(60)"
    began = time.monotonic()
    status, _ = counting._run([sys.executable, "-c", script], 2.0)
    assert status is None
    assert time.monotonic() - began < 20
    grandchild = int(Path(tmp_path, "pid").read_text())
    for _ in range(100):
        state = Path(f"/proc/{grandchild}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in {"Z", "X"}:
            break
        time.sleep(0.05)
    else:
        os.kill(grandchild, 9)
        pytest.fail("the grandchild still runs")


def test_what_a_program_prints_comes_back_cut_to_its_end():
    status, output = counting._run([sys.executable, "-c", "print('x' * 50_000); print('last words')"], 30.0)
    assert status == 0
    assert output.endswith("last words\n")
    assert len(output) <= 20_000


class Silent:
    def progress(self, message, fraction=None):
        pass

    def output(self):
        return ""


def stand_in(folder: Path, script: str) -> None:
    tool = folder / "ncu"
    tool.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "Version 2025.3.1.0 (build 1)"; exit 0; fi\n{script}\n'
    )
    tool.chmod(0o755)


def a_count(tmp_path: Path, level: str) -> Count:
    (tmp_path / "k.py").write_text("def go():\n    pass\n")
    return Count(Program(str(tmp_path), "k.py"), Call("c", "k.py", "go", ()), ("mm",), level, budget_s=60.0)


def test_a_driver_that_forbids_counters_is_a_typed_answer_and_no_failure(tmp_path, monkeypatch):
    find_log = 'while [ $# -gt 0 ]; do [ "$1" = --log-file ] && log=$2; shift; done'
    stand_in(
        tmp_path, f'{find_log}\necho "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission" > "$log"\nexit 1'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = counting.count(a_count(tmp_path, "ncu"), Silent())
    assert result.tool == "Nsight Compute 2025.3.1.0"
    assert "only administrators" in result.refused
    assert result.lasting
    assert result.report == b""


def test_without_nsight_compute_the_answer_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "find_ncu", lambda: None)
    result = counting.count(a_count(tmp_path, "ncu"), Silent())
    assert "no ncu on PATH" in result.refused
    assert "PATH" in result.mend
    assert result.tool == ""


@pytest.mark.triton
def test_the_profiled_process_says_when_there_is_no_gpu(tmp_path):
    """Started as a profiler starts it: by its own python, with the package on its path, speaking through a folder."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(JobFailed) as caught:
        counting.count(a_count(tmp_path, "pcsampling"), Silent())
    assert caught.value.failure.kind == "unsupported"
    assert "no GPU" in caught.value.failure.message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["frame", "name", "metrics", "children", "stalled_wait", "count", "time (ns)"]), inner
        )
    ),
    max_leaves=30,
)


@given(_JSON)
@settings(max_examples=200, deadline=None)
def test_no_tree_of_samples_is_a_bug(tree):
    (found,) = counters_by_launch(json.dumps(tree), ["mm"])
    assert found is None or sum(found.stalls.values()) == pytest.approx(1.0)


_CELL = st.sampled_from(
    [
        "ID",
        "Kernel Name",
        "Address",
        "Source",
        "0",
        "1",
        "0x10",
        "²",
        "-",
        "nan",
        "(1, 2, 3)",
        "mm",
        "9.0",
        "CC",
        "stall_wait",
    ]
)
_PAGE = st.lists(st.lists(_CELL, min_size=1, max_size=5), max_size=8).map(
    lambda rows: "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
)


@given(_PAGE, _PAGE, _PAGE)
@settings(max_examples=200, deadline=None)
def test_no_page_is_a_bug(raw, sass, lines):
    for launch in parse_pages(raw, sass, lines):
        counters_of(launch)
