"""`tritonforge watch`: what a save sets off and what it does not, what is seen of it, and that it ends without a trace."""

from __future__ import annotations

import os
import pty
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.cli.running import Progress, open_workspace
from tritonforge.cli.selecting import select as select_files
from tritonforge.cli.watch_files import Unreadable, WatchedFiles
from tritonforge.cli.watch_state import state_of, text_digest
from tritonforge.diagnosis.since import change_of
from tritonforge.domain.compilation import Prediction
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.launch import Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.profile import Profile, TargetInfo, TimeDistribution
from tritonforge.domain.results import ProfileResult
from tritonforge.report.text import plain
from tritonforge.report.text_watch import WatchRow, watch_line, watch_table

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """\
import triton
import triton.language as tl
from helpers import twice, unused

FACTOR = 2


# tritonforge: launch x_ptr=fp32[4096] out_ptr=fp32[4096] n=4096 BLOCK=64 grid=cdiv(n, BLOCK)
@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, twice(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def other(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


def launch(x, out):
    scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
"""
HELPERS = """\
import triton

@triton.jit
def twice(x):
    return x + x

def unused():
    pass
"""


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "tritonforge.toml").write_text("")
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path


def states_of(workspace):
    (one,) = select_files([str(workspace / "kernels.py")])
    workload = open_workspace(workspace).workload(one, allow_run=False, progress=Progress())
    return {kernel.name: state_of(workload, kernel) for kernel in one.kernels}


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("kernels.py", "    i = tl", "    # where\n    i  =  tl", set()),
        ("kernels.py", "FACTOR = 2", "FACTOR = 3", set()),
        ("kernels.py", "i < n)), mask", "i < n) + 1.0), mask", {"scale"}),
        ("kernels.py", "tl.arange(0, BLOCK), 0.0", "tl.arange(0, BLOCK), 1.0", {"other"}),
        ("kernels.py", "cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64", "cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128", {"scale"}),
        ("kernels.py", "fp32[4096] out", "fp16[4096] out", {"scale"}),
        ("helpers.py", "return x + x", "return 2 * x", {"scale"}),
        ("helpers.py", "return x + x", "return x + x  # the same", set()),
    ],
)  # fmt: skip
def test_an_edit_sets_off_the_kernels_that_it_changes_and_no_other(workspace, file, old, new, changes):
    before = states_of(workspace)
    text = (workspace / file).read_text()
    assert old in text
    (workspace / file).write_text(text.replace(old, new))
    after = states_of(workspace)
    assert {name for name in before if before[name] != after[name]} == changes


def test_files_of_a_folder_come_and_go_and_are_not_run(workspace):
    files = WatchedFiles([str(workspace)])
    assert [one.path.name for one in files.all()] == ["kernels.py"]
    (workspace / "new.py").write_text(KERNEL)
    (workspace / "plain.py").write_text("x = 1\n")
    new = files.again(workspace / "new.py")
    assert [kernel.name for kernel in new.kernels] == ["scale", "other"]
    assert not new.named
    assert files.again(workspace / "plain.py") is None
    assert files.again(workspace.parent / "elsewhere.py") is None
    (workspace / "new.py").write_text("import triton\ndef f(:\n")
    assert files.again(workspace / "new.py") == Unreadable(workspace / "new.py", "new.py:2: invalid syntax")


def test_a_pipe_that_appears_is_not_waited_for(workspace):
    os.mkfifo(workspace / "pipe.py")
    assert text_digest(workspace / "pipe.py") == ""
    assert WatchedFiles([str(workspace)]).again(workspace / "pipe.py") is None


def test_a_named_kernel_stays_the_only_one_and_may_go_missing(workspace):
    path = workspace / "kernels.py"
    files = WatchedFiles([f"{path}::scale"])
    (one,) = files.all()
    assert [kernel.name for kernel in one.kernels] == ["scale"]
    path.write_text(KERNEL.replace("def scale", "def scaled"))
    assert "no kernel 'scale'" in files.again(path).sentence
    path.unlink()
    assert "does not exist" in files.again(path).sentence


ROWS = [
    WatchRow("matmul_kernel", "matmul.py:12", "a_ptr float16[4096×4096], b_ptr float16[4096×4096]", 2, 482.4, "measured",
             0.41, "tile-too-small", 1.12, 2, "fresh"),
    WatchRow("softmax", "ops/softmax.py:7", "x float32[8192×1024]", 0, 31.0, "predicted", 0.83, "at-roofline", 1 / 1.25,
             0, "stale", "the file cannot be read as it stands"),
    WatchRow("scale", "scale.py:3", state="running"),
    WatchRow("lost", "lost.py:3", state="failed", note="no launch known: nothing in this file runs lost."),
]  # fmt: skip
PROBLEM = "softmax.py:3: invalid syntax"
TABLE = """\
kernel                           launch                            time             of roof  bottleneck      change        findings
matmul_kernel  matmul.py:12      a_ptr float16[4096×4096], … +2  482 µs  measured      41 %  tile-too-small  1.12x faster         2
softmax        ops/softmax.py:7  x float32[8192×1024]             31 µs  predicted     83 %  at-roofline     1.25x slower         0  stale
  the file cannot be read as it stands
scale          scale.py:3                                                                                                            running …
lost           lost.py:3                                                                                                             failed
  no launch known: nothing in this file runs lost.
softmax.py:3: invalid syntax

on local (NVIDIA H200)
"""


def test_the_table_says_of_each_kernel_how_fast_it_is_and_what_became_of_it():
    assert plain(watch_table(ROWS, [PROBLEM], "on local (NVIDIA H200)")) == TABLE


@pytest.mark.parametrize(("width", "without"), [(120, "launch"), (90, "matmul.py:12")])
def test_on_a_narrow_terminal_the_table_leaves_out_what_matters_least(width, without):
    shown = plain(watch_table(ROWS, [PROBLEM], width=width))
    assert max(map(len, shown.splitlines())) <= width
    assert without not in shown.replace("no launch known", "")
    for part in ("482 µs", "1.12x faster", "stale", "running …", "no launch known: nothing in this file runs lost."):
        assert part in shown


def profiled(microseconds, *, block="64", ci=0.0, size=4096):
    """Return a profile of one launch: measured with an interval of ± `ci`, or predicted where `ci` is None."""
    (kernel, *_) = analyze(KERNEL.encode(), "kernels.py").kernels
    tensor = Tensor((size,), (1,), "float32")
    launch = Launch(
        f"{block} {size}", "kernels.py", "scale", Problem((("x_ptr", tensor),)), Config((("BLOCK", Scalar(int(block))),), (), (1, 1, 1)), None,
    )  # fmt: skip
    time_us = None if ci is None else TimeDistribution(microseconds, (microseconds - ci, microseconds + ci), 100)
    info = TargetInfo("local", "gpu", "GPU", None, None, None)
    profile = Profile(kernel, info, launch, time_us, None, Bottleneck("unknown", 0.0, "measured"))
    prediction = {launch.id: Prediction(microseconds, (1.0, 9.0), {}, "dram", "GPU")} if ci is None else {}
    return ProfileResult((profile,), prediction)


@pytest.mark.parametrize(
    ("before", "after", "speedup"),
    [
        (profiled(100.0, ci=1), profiled(50.0, ci=1, block="128"), 2.0),
        (profiled(100.0, ci=3), profiled(97.0, ci=3), 1.0),
        (profiled(100.0, ci=1), profiled(125.0, ci=1), 0.8),
        (profiled(100.0, ci=None), profiled(80.0, ci=None), 1.25),
        (profiled(100.0, ci=None), profiled(100.0, ci=None, block="128"), 1.0),
        (profiled(100.0, ci=None), profiled(50.0, ci=1), None),
        (profiled(100.0, ci=1), profiled(50.0, ci=1, size=2048), None),
    ],
)
def test_a_change_is_one_of_the_same_work_measured_the_same_way_and_beyond_its_noise(before, after, speedup):
    assert change_of(before, after) == speedup


def test_a_log_has_one_line_for_each_thing_that_happens():
    assert [watch_line(row).text for row in ROWS] == [
        "matmul_kernel  matmul.py:12  482 µs measured · 41 % of the roof · tile-too-small · 1.12x faster · 2 findings",
        "softmax  ops/softmax.py:7  stale: the file cannot be read as it stands",
        "scale  scale.py:3  running",
        "lost  lost.py:3  no launch known: nothing in this file runs lost.",
    ]


# --- as a process -----------------------------------------------------------------------------------------------------


STARTED = []


@pytest.fixture(autouse=True)
def none_left():
    """A test that fails leaves no process either."""
    yield
    for process in STARTED:
        process.kill()
        process.wait(20)
    STARTED.clear()


class Watching:
    """A running `tritonforge watch`, its output line by line."""

    def __init__(self, *arguments, cwd):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tritonforge", "watch", *map(str, arguments)],
            cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        STARTED.append(self.process)
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, within=60):
        try:
            found = self._lines.get(timeout=within)
        except queue.Empty:
            self.process.kill()
            found = None
        if found is None:
            pytest.fail(f"nothing was said within {within} s; on stderr: {self.process.stderr.read()}")
        return found

    def ended(self, by=signal.SIGINT):
        """Signal it, and return its exit code and what stood on stderr, after checking that it left no process."""
        mine = descendants(self.process.pid)
        self.process.send_signal(by)
        _, said = self.process.communicate(timeout=20)
        deadline = time.monotonic() + 10
        while (left := [pid for pid in mine if alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left
        return self.process.returncode, said.strip()


def descendants(pid):
    children = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, within=60):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.triton
def test_a_session_of_edits_from_the_first_profile_to_ctrl_c(fresh_examples):
    """One worker does all of it; it is replaced when it dies."""
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    folder = fresh_examples()
    path = folder / "scale_shift.py"
    good = path.read_text()

    # A job that would take two minutes ends with the save that makes it pointless.
    slow = '    import time\n    open("began", "w").close()\n    time.sleep(120)\n    torch.manual_seed(0)\n'
    path.write_text(good.replace("    torch.manual_seed(0)\n", slow))
    watch = Watching("scale_shift.py", "--target", "offline", cwd=folder)
    wait_for(lambda: any(folder.rglob("began")))
    path.write_text(good)
    first = watch.line()
    assert first.startswith("scale_shift_kernel  scale_shift.py:11  ")
    assert "µs predicted · " in first
    assert "block-too-small" in first
    assert "faster" not in first
    assert "measured" not in first

    faster = good.replace("BLOCK = 64", "BLOCK = 1024")
    beside = folder / "scale_shift.py~"
    beside.write_text(faster)
    beside.replace(path)  # as editors save
    assert re.search(r" · \d\.\d\dx faster · ", watch.line())

    # Neither of these is worth a line, so the next one is about what does not parse.
    path.write_text(faster + "\n# a comment\n")
    time.sleep(0.3)
    os.utime(path)
    time.sleep(0.3)
    path.write_text(faster.replace("BLOCK = 1024", "  BLOCK = 1024"))
    assert watch.line() == "scale_shift.py:7: unexpected indent"
    path.write_text(faster)
    assert "µs predicted" in (again := watch.line())
    assert "faster" not in again

    # The worker dies; the next save gets another one.
    (guard, *_) = descendants(watch.process.pid)
    os.kill(guard, signal.SIGKILL)
    path.write_text(good.replace("BLOCK = 64", "BLOCK = 128"))
    assert re.search(r" · \d+\.\d\dx slower · ", watch.line())

    path.unlink()
    assert "scale_shift.py does not exist." in watch.line()
    assert watch.ended() == (130, "tritonforge: interrupted.")


@pytest.mark.gpu
def test_on_a_gpu_times_are_measured_and_a_difference_is_one_that_counts(fresh_examples):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no NVIDIA GPU here")
    folder = fresh_examples()
    path = folder / "scale_shift.py"
    good = path.read_text()
    watch = Watching("scale_shift.py", "--target", "local", cwd=folder)
    assert "µs measured · " in watch.line(120)
    path.write_text(good.replace("BLOCK = 64", "BLOCK = 1024"))
    assert re.search(r" measured .* · \d\.\d\dx faster · ", watch.line(120))
    # The same code in other words takes the same time.
    path.write_text(good.replace("BLOCK = 64", "BLOCK = 1024").replace("x * scale + y", "y + scale * x"))
    same = float(found[1]) if (found := re.search(r" · (\d\.\d\d)x (?:fast|slow)er · ", watch.line(120))) else 1.0
    assert same < 1.05
    assert watch.ended() == (130, "tritonforge: interrupted.")


def test_where_nothing_can_be_run_the_source_is_still_judged(workspace):
    (workspace / "tritonforge.toml").write_text('[targets.gone]\ncommand = ["false"]\n')
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "watch", "kernels.py", "--target", "gone"],
        cwd=workspace, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1

    (workspace / "tritonforge.toml").write_text('default-target = "gone"\n[targets.gone]\ncommand = ["false"]\n')
    watch = Watching("kernels.py::other", cwd=workspace)
    assert watch.line().startswith("no worker is available, so only the source is judged: ")
    assert watch.line() == "other  kernels.py:16  0 findings (source only)"
    text = (workspace / "kernels.py").read_text()
    (workspace / "kernels.py").write_text(text.replace("BLOCK), 0.0", "BLOCK), 2.0"))
    assert watch.line() == "other  kernels.py:16  0 findings (source only)"
    settings = (workspace / "tritonforge.toml").read_text()
    (workspace / "tritonforge.toml").write_text(settings + "[tragets.x]\n")
    assert "Did you mean 'targets'?" in watch.line()
    (workspace / "tritonforge.toml").write_text(settings.replace("[targets.gone]", "[targets.other]"))
    assert "gone" in watch.line()
    # With other targets it is tried again.
    (workspace / "tritonforge.toml").write_text(settings.replace('"false"', '"sh", "-c", "exit 3"'))
    assert "ended with status 3" in watch.line()
    assert watch.line() == "other  kernels.py:16  0 findings (source only)"
    assert watch.ended(signal.SIGTERM) == (143, "")


def test_a_file_that_has_no_kernel_yet_is_told_of(workspace):
    (workspace / "tritonforge.toml").write_text('[targets.gone]\ncommand = ["false"]\n')
    (workspace / "plain.py").write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "watch", "plain.py", "--target", "gone"],
        cwd=workspace, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "no Triton kernel in plain.py yet" in done.stderr


def test_wrong_paths_and_settings_are_one_sentence(workspace):
    for arguments, code, part in ((["nope.py"], 2, "nope.py does not exist"), ([], 2, "Missing argument")):
        done = subprocess.run(
            [sys.executable, "-m", "tritonforge", "watch", *arguments],
            cwd=workspace, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code
        assert part in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_terminal_gets_a_table_and_its_cursor_back(workspace, by):
    (workspace / "tritonforge.toml").write_text('[targets.slow]\ncommand = ["sh", "-c", "sleep 100"]\n')
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tritonforge", "watch", "kernels.py", "--target", "slow"],
        cwd=workspace, stdout=theirs, stderr=theirs, stdin=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    STARTED.append(process)
    os.close(theirs)
    shown = b""

    def read_until(condition):
        nonlocal shown
        deadline = time.monotonic() + 30
        while not condition() and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:
                    return

    read_until(lambda: b"kernels.py:16" in shown)
    wait_for(lambda: descendants(process.pid))
    mine = descendants(process.pid)
    process.send_signal(by)
    read_until(lambda: False if process.poll() is None else not select.select([ours], [], [], 0.2)[0])
    assert process.wait(20) == 128 + by
    os.close(ours)
    assert b"scale" in shown
    assert b"waiting" in shown
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") > 0
    wait_for(lambda: not any(map(alive, mine)), within=10)
