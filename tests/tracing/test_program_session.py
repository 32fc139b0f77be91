"""Counting device times inside a program, with a stand-in for Proton: here is no GPU that it could count on.

Each test runs in a process of its own, for what is tested is how processes end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch in this environment")
pytest.importorskip("triton", reason="needs triton in this environment")

from tritonforge.worker.tracing.gpu_time import Session  # noqa: E402

pytestmark = pytest.mark.triton


class Proton(ModuleType):
    """Starts and writes as Proton does, one session at a time."""

    def __init__(self) -> None:
        super().__init__("triton.profiler")
        self.sessions: dict[int, str] = {}
        self.flags = SimpleNamespace(profiling_on=False, command_line=False)
        self.events: list[str] = []

    def start(self, name: str, backend: str = "") -> int:
        if self.sessions:
            raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
        self.flags.profiling_on = True
        number = len(self.events)
        self.sessions[number] = name
        self.events.append(f"start {Path(name).name if 'mine' in name else 'ours'} {backend}".strip())
        return number

    def finalize(self, session: int) -> None:
        Path(self.sessions.pop(session) + ".hatchet").write_text("[]")
        self.events.append("finalize")


def in_child(scenario: Callable[[Session, Proton], object], spool: Path) -> int:
    """Run `scenario` in a fork, and return its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            proton = Proton()
            flags = ModuleType("triton.profiler.flags")
            flags.flags = proton.flags  # type: ignore[attr-defined]
            sys.modules["triton.profiler"] = sys.modules["triton"].profiler = proton  # type: ignore[attr-defined]
            sys.modules["triton.profiler.flags"] = flags
            session = Session(str(spool))
            code = 98 if scenario(session, proton) is False else 0
        except BaseException as error:  # noqa: BLE001 - whatever it is, the child must not go on as pytest
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            # As Python itself would end, without running what pytest left for its own end.
            session.finish()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def notes(spool: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(spool.glob("*.gputime"))]


def test_a_program_that_ends_leaves_its_times(tmp_path):
    assert in_child(lambda session, _: session.begin(), tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "complete"
    assert len(list(tmp_path.glob("*.hatchet"))) == 1


def test_a_killed_program_leaves_the_note_that_it_had_begun(tmp_path):
    def killed(session, _):
        session.begin()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(killed, tmp_path) == -signal.SIGKILL
    assert [note["state"] for note in notes(tmp_path)] == ["running"]


def test_os_exit_keeps_its_code_and_the_times(tmp_path):
    def leaves(session, _):
        session.begin()
        os._exit(5)

    assert in_child(leaves, tmp_path) == 5
    assert [note["state"] for note in notes(tmp_path)] == ["complete"]


def test_a_fork_after_the_beginning_leaves_its_parent_s_session_alone(tmp_path):
    def forks(session, proton):
        session.begin()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return len(proton.sessions) == 1 and not list(tmp_path.glob("*.hatchet"))

    assert in_child(forks, tmp_path) == 0
    assert [note["state"] for note in notes(tmp_path)] == ["complete"]


def test_a_program_that_starts_proton_gets_it_and_ours_has_ended_before(tmp_path):
    def profiles_itself(session, proton):
        session.begin()
        proton.start(str(tmp_path / "mine"))
        return [event.split()[0:2] for event in proton.events] == [["start", "ours"], ["finalize"], ["start", "mine"]]

    assert in_child(profiles_itself, tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "partial"
    assert "Proton" in str(note["reason"])


def test_a_program_that_starts_torch_s_profiler_on_the_device_gets_cupti(tmp_path):
    def profiles_itself(session, proton):
        session.begin()
        profiler = torch.autograd.profiler
        with profiler.profile(use_cpu=True):
            torch.ones(2).sum()
        if "finalize" in proton.events:  # the CPU's activities do not need it
            return False
        device = {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA}
        config = profiler.profile(use_cpu=True).config()
        profiler._prepare_profiler(config, device)
        return "finalize" in proton.events

    assert in_child(profiles_itself, tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "partial"
    assert "torch.profiler" in str(note["reason"])


def test_a_program_that_is_under_proton_already_is_left_alone(tmp_path):
    def under_proton(session, proton):
        proton.start(str(tmp_path / "mine"))
        session.begin()
        return len(proton.events) == 1

    assert in_child(under_proton, tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "refused"
    assert "Proton already" in str(note["reason"])


def test_a_driver_without_cupti_is_told_and_the_program_goes_on(tmp_path):
    def no_cupti(session, proton):
        proton.sessions[0] = "somebody else"
        session.begin()
        return session.proton is None

    assert in_child(no_cupti, tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "refused"
    assert "MULTIPLE_SUBSCRIBERS" in str(note["reason"])


def test_the_program_s_own_scopes_stay_off(tmp_path):
    def scopes(session, proton):
        session.begin()
        return proton.flags.profiling_on is False

    assert in_child(scopes, tmp_path) == 0


def test_nothing_starts_before_the_program_initialises_cuda(tmp_path, monkeypatch):
    monkeypatch.setattr("tritonforge.worker.tracing.recording.gpu_is_there", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")

    def initialises(session, proton):
        there = []
        torch.cuda.is_initialized = lambda: bool(there)
        original = torch.cuda._lazy_init = lambda: there.append(True)
        session.arm()
        if proton.events:
            return False
        torch.cuda._lazy_init()
        return proton.events == ["start ours cupti"] and torch.cuda._lazy_init is original

    assert in_child(initialises, tmp_path) == 0
    assert [note["state"] for note in notes(tmp_path)] == ["complete"]


def test_without_a_gpu_nothing_is_touched(tmp_path):
    def armed(session, _):
        before = torch.cuda._lazy_init
        session.arm()
        return torch.cuda._lazy_init is before

    if torch.version.cuda is not None:
        pytest.skip("this torch may have a GPU")
    assert in_child(armed, tmp_path) == 0
    assert not notes(tmp_path)


def test_a_gpu_that_hangs_does_not_keep_the_program_from_ending(tmp_path):
    def hangs(session, proton):
        session.begin()
        torch.cuda.synchronize = threading.Event().wait
        began = time.monotonic()
        session.finish(wait_s=0.2)
        return time.monotonic() - began < 5 and "finalize" not in proton.events

    assert in_child(hangs, tmp_path) == 0
    (note,) = notes(tmp_path)
    assert note["state"] == "refused"
    assert "still busy" in str(note["reason"])
