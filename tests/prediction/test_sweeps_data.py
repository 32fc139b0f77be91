"""Recordings that are cut off, damaged, or no recordings: an error that says so, never a traceback."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from sweeps.data import Unreadable, lines_of, read_recording
from sweeps.fit import samples_of

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "benchmarks" / "results" / "2026-11-30-h200-sweeps-1.jsonl.xz"


@pytest.fixture(scope="module")
def lines():
    found = [line for line in lines_of(RECORDING) if line.get("kernel") in {None, "histogram", "scale_add"}]
    return [found[0], *[line for line in found[1:] if "about" in line or line["time"]][:8]]


@pytest.fixture
def write(tmp_path):
    def written(*streams, cut=None, name="one.jsonl.xz"):
        """Write each list of lines as an xz stream; `cut` bytes are kept."""
        path = tmp_path / name
        data = b"".join(lzma.compress("".join(json.dumps(x) + "\n" for x in some).encode()) for some in streams)
        path.write_bytes(data[:cut])
        return path

    return written


def test_what_was_written_before_the_cut_is_read(write, lines):
    path = write(lines[:4], lines[4:])
    first = len(lzma.compress("".join(json.dumps(x) + "\n" for x in lines[:4]).encode()))
    whole = len(read_recording(path).points)
    for cut in (first, first + 3, first + 20, path.stat().st_size - 1):
        found = read_recording(write(lines[:4], lines[4:], cut=cut, name="cut.jsonl.xz"))
        assert 0 < len(found.points) <= whole
        assert samples_of([found])


@pytest.mark.parametrize("content", [b"", b"no xz", b"\xfd7zXZ\x00", lzma.compress(b"\xff\n"), lzma.compress(b"{\n")])
def test_what_is_no_recording_says_so(tmp_path, content):
    path = tmp_path / "one.jsonl.xz"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=r"one\.jsonl\.xz"):
        read_recording(path)
    with pytest.raises(Unreadable):
        read_recording(tmp_path / "none.jsonl.xz")


def test_damage_inside_a_stream_says_so(write, lines):
    path = write(lines)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(Unreadable):
        read_recording(path)


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        (0, {"format": 2}),
        (0, {"arch": None}),
        (2, {"kernel": 3, "launch": "none"}),
        (2, {"compilation": {}}),
        (2, {"time": {"median": "fast"}}),
    ],
)
def test_lines_that_are_something_else_say_so(write, lines, place, changes):
    broken = [dict(line) for line in lines]
    broken[place] |= changes
    with pytest.raises(Unreadable):
        read_recording(write(broken))


@pytest.mark.parametrize("median", [0.0, -3.0, float("nan"), float("inf")])
def test_times_that_cannot_be_say_so(write, lines, median):
    broken = json.loads(json.dumps(lines))
    next(line for line in broken if line.get("time"))["time"]["median"] = median
    with pytest.raises(Unreadable, match="a time of"):
        read_recording(write(broken))


@pytest.mark.parametrize("line", [3, [], "text", None, {}])
def test_lines_that_are_no_objects_say_so(write, lines, line):
    with pytest.raises(Unreadable, match=f"line {len(lines) + 1} "):
        read_recording(write([*lines, line]))


def test_times_of_a_gpu_of_which_no_figures_are_known_are_not_judged_by_those_of_another(write, lines):
    with pytest.raises(Unreadable, match="NVIDIA H20 are known"):
        samples_of([read_recording(write([{**lines[0], "gpu": "NVIDIA H20"}, *lines[1:]]))])


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_the_benchmark_says_in_a_line_what_it_cannot_use(write, lines, kept):
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "bench_prediction.py"), str(write(lines[:kept]))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "Traceback" not in run.stderr
