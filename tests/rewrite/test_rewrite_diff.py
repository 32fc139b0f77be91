"""Diffs are what git and patch accept: each is really applied by both."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite import unified_diff


def _replace(file: str, text: str, old: str, new: str) -> Edit:
    start = text.index(old)
    return Edit(file, start, start + len(old), new)


def _apply_with(tool: str, root: Path, before: dict[str, str], diff: str) -> dict[str, str]:
    for file, text in before.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    command = (
        ["git", "apply", "--whitespace=nowarn", "-"] if tool == "git" else ["patch", "-p1", "--binary", "--silent"]
    )
    if tool == "git":
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    done = subprocess.run(command, cwd=root, input=diff.encode(), capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode() + diff
    return {file: (root / file).read_bytes().decode() for file in before}


tools = pytest.mark.parametrize(
    "tool",
    [
        pytest.param(t, marks=pytest.mark.skipif(shutil.which(t) is None, reason=f"no {t} here"))
        for t in ("git", "patch")
    ],
)

TEXTS = {
    "plain": "a = 1\nb = 2\nc = 3\n",
    "no newline at the end": "a = 1\nb = 2\nc = 3",
    "carriage returns": "a = 1\r\nb = 2\r\nc = 3\r\n",
    "mixed newlines": "a = 1\r\nb = 2\nc = 3\r\n",
    "form feed and line separator": "a = 1\f\nb = 2\u2028 # x\nc = 3\n",
    "wide characters": "a = '🚀'\nb = 2  # é\nc = 3\n",
}


@tools
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("old", "new"), [("b = 2", "b = 20"), ("c = 3", "c = 30"), ("c = 3", "c = 3; d = 4"), ("b", "x\nb")]
)
def test_a_diff_applies_to_every_kind_of_text(tool, name, old, new, tmp_path):
    text = TEXTS[name]
    edits = (_replace("f.py", text, old, new),)
    got = _apply_with(tool, tmp_path, {"f.py": text}, unified_diff({"f.py": text}, edits))
    assert got["f.py"] == apply_edits(text, edits)


@tools
def test_a_newline_at_the_end_can_be_added_and_removed(tool, tmp_path):
    for number, (before, after) in enumerate([("a\nb", "a\nb\n"), ("a\nb\n", "a\nb")]):
        root = tmp_path / str(number)
        root.mkdir()
        diff = unified_diff({"f.py": before}, (Edit("f.py", 0, len(before), after),))
        assert _apply_with(tool, root, {"f.py": before}, diff)["f.py"] == after


@tools
@pytest.mark.parametrize("file", ["deep/er/f.py", "with space.py", "é.py", 'qu"ote.py', "back\\slash.py"])
def test_a_diff_finds_files_with_odd_names(tool, file, tmp_path):
    text = TEXTS["plain"]
    edits = (_replace(file, text, "2", "22"),)
    assert _apply_with(tool, tmp_path, {file: text}, unified_diff({file: text}, edits))[file] == apply_edits(
        text, edits
    )


@tools
def test_one_diff_changes_several_files(tool, tmp_path):
    texts = {"b.py": TEXTS["plain"], "a.py": TEXTS["no newline at the end"]}
    edits = tuple(_replace(f, t, "c = 3", "c = 4") for f, t in texts.items())
    diff = unified_diff(texts, edits)
    assert diff.index("a/a.py") < diff.index("a/b.py")
    got = _apply_with(tool, tmp_path, texts, diff)
    assert got == {f: t.replace("c = 3", "c = 4") for f, t in texts.items()}


def test_edits_that_change_nothing_give_no_diff():
    assert not unified_diff({"f.py": "a\n"}, (Edit("f.py", 0, 1, "a"),))
    assert not unified_diff({"f.py": "a\n"}, ())


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_git_applies_any_diff(tmp_path_factory, data):
    text = data.draw(st.text(alphabet="ab \t\r\n\fé", max_size=40))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edits = (Edit("f.py", start, end, data.draw(st.text(alphabet="ab\r\n", max_size=8))),)
    after = apply_edits(text, edits)
    diff = unified_diff({"f.py": text}, edits)
    if not text or not after:
        return  # creating and deleting files is nothing that a rewrite does
    if diff:
        assert _apply_with("git", tmp_path_factory.mktemp("d"), {"f.py": text}, diff)["f.py"] == after
    else:
        assert after == text
