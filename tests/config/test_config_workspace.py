"""Where a workspace begins."""

import pytest

from tritonforge.config import workspace_name, workspace_root


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", "tritonforge.toml"])
def test_the_nearest_marked_folder_is_the_root(tmp_path, marker):
    inner = tmp_path / "outer" / "inner"
    (inner / "deep").mkdir(parents=True)
    (tmp_path / "outer" / "pyproject.toml").touch()
    (inner / marker).touch()
    (inner / "deep" / "k.py").touch()
    assert workspace_root(inner / "deep" / "k.py") == inner
    assert workspace_root(inner) == inner
    assert workspace_root(tmp_path / "outer") == tmp_path / "outer"


def test_a_file_that_does_not_exist_yet_has_a_root(tmp_path):
    (tmp_path / ".git").mkdir()
    assert workspace_root(tmp_path / "new" / "k.py") == tmp_path


def test_without_a_marker_the_current_folder_is_the_root(tmp_path, monkeypatch):
    lonely = tmp_path / "a"
    lonely.mkdir()
    monkeypatch.chdir(lonely)
    assert workspace_root(lonely / "k.py") == lonely


def test_files_are_named_from_the_root_and_outside_it_in_full(tmp_path):
    assert workspace_name(tmp_path, tmp_path / "a" / "k.py") == "a/k.py"
    assert workspace_name(tmp_path / "a", tmp_path / "k.py") == (tmp_path / "k.py").as_posix()
