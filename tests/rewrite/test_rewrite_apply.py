"""Writing edits to disk: everything or nothing, and only over what was read."""

import stat
from pathlib import Path

import pytest

from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import Edit
from tritonforge.rewrite import ChangedOnDisk, apply_to_disk


def _edit(file: str, text: str, old: str = "64", new: str = "128") -> Edit:
    return Edit(file, text.index(old), text.index(old) + len(old), new)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"B = 64\n", "B = 64\n"),
        (b"B = 64", "B = 64"),
        (b"B = 64\r\nC = 1\r\n", "B = 64\r\nC = 1\r\n"),
        (b"\xef\xbb\xbfB = 64\n", "B = 64\n"),
        (b"# -*- coding: latin-1 -*-\ns = '\xe9'; B = 64\n", "# -*- coding: latin-1 -*-\ns = 'é'; B = 64\n"),
        ("s = '🚀'; B = 64\r".encode(), "s = '🚀'; B = 64\r"),
    ],
    ids=["plain", "no final newline", "CRLF", "byte-order mark", "latin-1 cookie", "emoji and CR"],
)
def test_only_the_bytes_of_the_edit_change(tmp_path, data, text):
    (tmp_path / "f.py").write_bytes(data)
    assert apply_to_disk(tmp_path, [_edit("f.py", text)], {"f.py": text}) == ("f.py",)
    assert (tmp_path / "f.py").read_bytes() == data.replace(b"64", b"128")
    assert [p.name for p in tmp_path.iterdir()] == ["f.py"]


def test_the_mode_of_a_file_stays(tmp_path):
    path = tmp_path / "f.py"
    path.write_text("B = 64\n")
    path.chmod(0o754)
    apply_to_disk(tmp_path, [_edit("f.py", "B = 64\n")], {"f.py": "B = 64\n"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f.py").write_text("B = 64\n")
    (tmp_path / "f.py").symlink_to("real/f.py")
    apply_to_disk(tmp_path, [_edit("f.py", "B = 64\n")], {"f.py": "B = 64\n"})
    assert (tmp_path / "f.py").is_symlink()
    assert (tmp_path / "real" / "f.py").read_text() == "B = 128\n"


def test_nothing_is_written_when_one_of_several_files_has_changed(tmp_path):
    (tmp_path / "a.py").write_text("B = 64\n")
    (tmp_path / "b.py").write_text("B = 64  # edited meanwhile\n")
    texts = {"a.py": "B = 64\n", "b.py": "B = 64\n"}
    with pytest.raises(ChangedOnDisk, match=r"b\.py has changed"):
        apply_to_disk(tmp_path, [_edit(f, t) for f, t in texts.items()], texts)
    assert (tmp_path / "a.py").read_text() == "B = 64\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py"]


def test_renames_already_made_are_undone_when_a_later_one_fails(tmp_path, monkeypatch):
    texts = {"a.py": "B = 64\n", "b.py": "B = 64\n"}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if Path(target).name == "b.py":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(UsageError, match="nothing was changed"):
        apply_to_disk(tmp_path, [_edit(f, t) for f, t in texts.items()], texts)
    assert {f: (tmp_path / f).read_text() for f in texts} == texts
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py"]


def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "f.py"
    path.write_text("B = 64\n")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="read-only"):
        apply_to_disk(tmp_path, [_edit("f.py", "B = 64\n")], {"f.py": "B = 64\n"})
    assert path.read_text() == "B = 64\n"


@pytest.mark.parametrize("file", ["../f.py", "/etc/hosts", "a/../../f.py"])
def test_a_file_outside_the_workspace_is_refused(tmp_path, file):
    with pytest.raises(UsageError, match="outside the workspace"):
        apply_to_disk(tmp_path / "root", [Edit(file, 0, 0, "x")], {file: ""})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"gone\.py cannot be read"):
        apply_to_disk(tmp_path, [Edit("gone.py", 0, 0, "x")], {"gone.py": ""})


def test_a_character_that_the_encoding_lacks_is_refused(tmp_path):
    data = b"# coding: latin-1\nB = 64\n"
    (tmp_path / "f.py").write_bytes(data)
    with pytest.raises(UsageError, match="cannot hold"):
        apply_to_disk(tmp_path, [_edit("f.py", data.decode(), "64", "'€'")], {"f.py": data.decode()})
    assert (tmp_path / "f.py").read_bytes() == data
    assert len(list(tmp_path.iterdir())) == 1
