"""What tests of a far side share."""

import uuid

import pytest
from remote_support import MARK, running_sshd, why_no_sshd


@pytest.fixture
def mark(monkeypatch):
    """Mark every process that this test starts from here on."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return value


@pytest.fixture
def home(tmp_path):
    """The home folder of the far side."""
    folder = tmp_path / "far home"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path):
    """A workspace with one module."""
    root = tmp_path / "work space"
    root.mkdir()
    (root / "kernels.py").write_text("VALUE = 1\n")
    return root


@pytest.fixture(scope="session")
def sshd(tmp_path_factory):
    """An SSH server on this machine, whose sessions have a home of their own for caches."""
    if why := why_no_sshd():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("sshd")
    cache = folder / "far cache"
    own = uuid.uuid4().hex
    with running_sshd(folder, {"XDG_CACHE_HOME": cache, MARK: own}) as server:
        server.environment.update(cache=cache, mark=own)
        yield server
