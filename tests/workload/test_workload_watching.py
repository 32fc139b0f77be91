"""Watching a workspace: whatever way an editor saves in, one save is one set of paths, and nothing else is heard of."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.workload.index import WorkspaceIndex
from tritonforge.workload.watching import watching
from tritonforge.workload.watching_places import network_type, observed

SOON, NEVER = 5.0, 0.5


@pytest.fixture
def root(tmp_path):
    for name in ("a/b/k.py", "a/plain.py", "lib.py", ".git/hook.py", ".venv/x.py", "node_modules/y/y.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def heard(root, *saves, files=(), poll=None, roots=None):
    """Return the set of paths that each save led to, relative to `root`; None where nothing was heard."""

    async def listen():
        found = []
        async with watching(roots or [root], files, poll=poll) as watch:
            for save in saves:
                save()
                waits = SOON if save.__name__ != "unheard" else NEVER
                try:
                    paths = await asyncio.wait_for(watch.changed(), waits)
                    found.append(paths)
                except TimeoutError:
                    found.append(None)
        return found

    return [paths and {os.path.relpath(path, root) for path in paths} for paths in asyncio.run(listen())]


def written(path, text="x = 2\n"):
    return lambda: path.write_text(text)


def replaced(path):
    """Save as most editors do: write another file, then rename it."""

    def save():
        beside = path.with_name(f"{path.name}.tmp~")
        beside.write_text("x = 3\n")
        beside.replace(path)

    return save


def kept_aside(path):
    """Save as vim does: move the file away, write it anew, delete the old one; emacs locks it with a dangling link."""

    def save():
        (path.parent / f".#{path.name}").symlink_to("user@host.1234")
        path.rename(path.with_name(f"{path.name}~"))
        path.write_text("x = 4\n")
        path.with_name(f"{path.name}~").unlink()
        (path.parent / f".#{path.name}").unlink()

    return save


def test_one_save_is_one_set_however_the_editor_writes(root):
    file = root / "a/b/k.py"

    def in_pieces():
        with file.open("w") as out:
            for _ in range(50):
                out.write("y = 1\n")
                out.flush()

    assert heard(root, written(file), replaced(file), kept_aside(file), in_pieces) == [{"a/b/k.py"}] * 4


def test_files_that_come_and_go_are_heard_of(root):
    new = root / "a/new.py"
    assert heard(root, written(new), new.unlink, written(new)) == [{"a/new.py"}] * 3


def test_folders_made_moved_and_removed_give_the_files_in_them(root):
    def made():
        (root / "c/d").mkdir(parents=True)
        (root / "c/d/n.py").write_text("n = 1\n")

    assert heard(
        root,
        made,
        written(root / "c/d/n.py"),
        lambda: (root / "c").rename(root / "e"),
        written(root / "e/d/n.py", "n = 3\n"),
        lambda: shutil.rmtree(root / "e"),
    ) == [{"c/d/n.py"}, {"c/d/n.py"}, {"c/d/n.py", "e/d/n.py"}, {"e/d/n.py"}, {"e/d/n.py"}]


def test_what_is_not_the_users_code_is_not_heard_of(root):
    def unheard():
        for name in (".git/hook.py", ".venv/x.py", "node_modules/y/y.py", "a/notes.txt", "a/.hidden.py", "a/k.pyc"):
            (root / name).write_text("z = 1\n")
        (root / "a/b/k.py").read_text()

    assert heard(root, unheard) == [None]


def test_settings_of_the_workspace_are_heard_of_and_those_below_it_are_not(root):
    def unheard():
        (root / "a/pyproject.toml").write_text("")

    assert heard(root, written(root / "tritonforge.toml", ""), unheard) == [{"tritonforge.toml"}, None]


def test_a_named_file_outside_the_workspace_and_one_behind_a_link(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "far.py").write_text("x = 1\n")
    (outside / "real.py").write_text("x = 1\n")
    link = root / "link.py"
    link.symlink_to(outside / "real.py")
    far, real = (os.path.relpath(outside / name, root) for name in ("far.py", "real.py"))
    found = heard(root, written(outside / "far.py"), replaced(outside / "real.py"), files=[outside / "far.py", link])
    assert found == [{far}, {real, "link.py"}]


def test_polling_hears_the_same(root):
    file = root / "a/b/k.py"
    found = heard(
        root, replaced(file), lambda: shutil.rmtree(root / "a/b"), written(root / "tritonforge.toml", ""), poll=True
    )
    assert found == [{"a/b/k.py"}, {"a/b/k.py"}, {"tritonforge.toml"}]


def test_a_checkout_of_many_files_is_one_set(root):
    def checkout():
        for number in range(300):
            (root / f"m{number}.py").write_text(f"x = {number}\n")

    (found,) = heard(root, checkout)
    assert found == {f"m{number}.py" for number in range(300)}


def test_nothing_runs_on_after_the_block(root):
    import threading

    before = set(threading.enumerate())
    heard(root, written(root / "lib.py"))
    assert {thread for thread in set(threading.enumerate()) - before if thread.name != "asyncio_0"} == set()


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/u/local xfs rw 0 0
u@gpu1: /home/u/local/my\\040code fuse.sshfs rw 0 0
//nas/share /mnt/nas cifs rw 0 0
C:\\134 /mnt/c 9p rw 0 0
tmpfs /homework tmpfs rw 0 0
//nas/other /covered smb3 rw 0 0
/dev/sdc1 /covered ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/x.py", ""),
        ("/home/u/x.py", "nfs4"),
        ("/home", "nfs4"),
        ("/home/u/local/x.py", ""),
        ("/home/u/local/my code/x.py", "fuse.sshfs"),
        ("/mnt/nas", "cifs"),
        ("/mnt/c/Users/x.py", "9p"),
        ("/homework/x.py", ""),
        ("/covered/x.py", ""),
    ],
)
def test_a_network_file_system_is_known_by_the_mount_that_holds_the_path(path, kind):
    assert network_type(Path(path), MOUNTS) == kind


def test_folders_that_hold_nothing_of_the_users_take_no_watch(root):
    (root / "a/__pycache__").mkdir()
    assert observed(root) == {root: False, root / "a": True}
    assert observed(root / "a") == {root / "a": True}


LIMITED = """
import asyncio, sys
from pathlib import Path
from tritonforge.workload.watching import watching

async def main(root):
    async with watching([root]) as watch:
        print(watch.polls, watch.note)
        (root / "a/b/k.py").write_text("x = 5\\n")
        print([path.name for path in await asyncio.wait_for(watch.changed(), 10)])

asyncio.run(main(Path(sys.argv[1])))
"""


def test_where_the_system_has_no_watches_left_files_are_looked_at_instead(root):
    limits = "/proc/sys/user/max_inotify_watches"
    ours = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*ours, f"echo 2 > {limits}"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs a user namespace whose limit of watches can be lowered")
    command = f'echo 2 > {limits} && exec "$@"'
    done = subprocess.run(
        [*ours, command, "sh", sys.executable, "-c", LIMITED, str(root)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    said, changed = done.stdout.splitlines()
    assert said.startswith("True Changes cannot be watched, because the system's limit of watched folders is reached")
    assert said.count(". ") == 0
    assert changed == "['k.py']"


def test_the_index_of_the_workspace_stays_true_by_what_is_heard(root):
    """A test that appears is offered, and one that is gone is not, without the workspace being walked again."""
    kernel = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\ndef launch(x):\n    k[(1,)](x)\n"
    (root / "kernels.py").write_text(kernel)
    index = WorkspaceIndex(root)
    (found,) = analyze(kernel.encode(), "kernels.py").kernels
    test = root / "test_k.py"

    async def follow():
        names = []
        async with watching([root]) as watch:
            index.changed(())
            names.append([way.name for way in index.ways(found)])
            for save in (written(test, "from kernels import launch\n\ndef test_it():\n    launch(1)\n"), test.unlink):
                save()
                index.changed(await asyncio.wait_for(watch.changed(), SOON))
                names.append([way.name for way in index.ways(found)])
        return names

    assert asyncio.run(follow()) == [[], ["test_it of test_k.py"], []]
