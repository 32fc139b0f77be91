"""What is read from /proc, with and without the kernel's list of children, and what is said of how a process ended."""

import os
import subprocess
import sys

import pytest

from tritonforge.domain.frames import Frame
from tritonforge.worker import endings, processes
from tritonforge.worker.schedule import Job

JOB = Job(1, "Compile", "compile", 30, 8 << 30, Frame({}))
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


@pytest.fixture
def parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.stdin.close()


@pytest.mark.parametrize("listed", [True, False])
def test_descendants_are_found_parents_first(parent, listed, monkeypatch):
    monkeypatch.setattr(processes, "_KNOWS_CHILDREN", listed)
    below = processes.descendants(os.getpid())
    order = list(below)
    (child,) = [pid for pid in order if below[pid].parent == parent.pid]
    assert order.index(parent.pid) < order.index(child)
    assert below[child].resident > 1 << 20


def test_a_process_in_the_middle_of_an_exec_still_tells_its_environment(tmp_path):
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o755)
    with subprocess.Popen([again], env={"MARK": "me"}) as process:
        told = [b"MARK=me" in processes.environment(process.pid) for _ in range(2000)]
        process.kill()
    assert all(told)


def test_a_process_that_has_ended_or_has_no_environment_has_an_empty_one():
    process = subprocess.Popen(["sleep", "60"], env={})
    assert not processes.environment(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.environment(process.pid)
    process.wait()
    assert not processes.environment(process.pid)


def test_an_ended_process_is_not_counted(parent):
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert processes.read(process.pid).ended
    assert process.pid not in processes.descendants(os.getpid())
    process.wait()
    assert processes.read(process.pid) is None


def test_a_name_with_parentheses_and_spaces_is_read():
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b') (R 1 2 '); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = processes.read(process.pid)
        process.stdin.close()
    assert (found.name, found.parent) == (") (R 1 2 ", os.getpid())


def test_a_kill_by_the_kernel_for_lack_of_memory_is_told_from_one_by_the_user():
    assert endings.died(JOB, 9, "", oom_killed=True).kind == "memory"
    by_hand = endings.died(JOB, 9, "", oom_killed=False)
    assert (by_hand.kind, "SIGKILL" in by_hand.message) == ("crashed", True)


def test_a_crash_names_the_innermost_line_that_faulthandler_saw():
    output = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "/home/me/kernels.py", line 12 in launch\n  File "/home/me/main.py", line 3 in <module>\n'
    )
    failure = endings.died(JOB, 11, output, oom_killed=False)
    assert (failure.file, failure.line) == ("/home/me/kernels.py", 12)
    assert failure.message.endswith("was killed by SIGSEGV before it was done at /home/me/kernels.py:12.")
    assert failure.detail == output


def test_a_crash_without_a_traceback_quotes_the_last_line():
    failure = endings.died(JOB, 6 << 8, "loading\nterminate called\n\n", oom_killed=False)
    assert failure.message.endswith("exited with status 6 before it was done (it said: terminate called).")
