"""`optimize` with several targets: when they are opened, and what one that cannot be reached costs."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tritonforge.cli.commands import optimize as command
from tritonforge.cli.main import run
from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs.session import Session

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def events(tmp_path, monkeypatch):
    """What happens to targets and searches, in order; there is no worker behind any of them."""
    (tmp_path / "scale_shift.py").write_text((EXAMPLES / "scale_shift.py").read_text())
    monkeypatch.chdir(tmp_path)
    said = []

    @asynccontextmanager
    async def target(workspace, name, progress, **_):
        if name == "gone":
            raise TargetUnreachable("Target 'gone' did not answer.")
        said.append(f"open {name}")
        described = WorkerInfo(1, "3", "python", "fake", "2", "3", 2, 1, ())
        yield Session(Target(name, arch="sm_90"), None, described, "sm_90", measures=False)
        said.append(f"close {name}")

    async def search(file, kernel, workspace, session, *_, **__):
        said.append(f"search {kernel.name} on {session.target.name}")
        raise NoLaunchKnown("nothing launches it.")

    monkeypatch.setattr(command, "target", target)
    monkeypatch.setattr(command, "_one", search)
    return said


def test_targets_stay_open_from_before_the_first_search_to_the_end(events):
    (Path.cwd() / "other.py").write_text((EXAMPLES / "scale_shift.py").read_text())
    run(["optimize", ".", "--target", "a", "--target", "b", "--target", "a"])
    kinds = [event.split()[0] for event in events]
    assert kinds == ["open", "open", *["search"] * (len(events) - 4), "close", "close"]
    assert len(events) >= 8
    assert events[:2] == ["open a", "open b"]


def test_a_target_that_cannot_be_reached_is_found_before_a_search_on_another(events, capsys):
    assert run(["optimize", "scale_shift.py", "--target", "a", "--target", "gone"]) == 3
    assert events == ["open a"]
    assert "Target 'gone' did not answer." in capsys.readouterr().err
