"""What is sent of a workspace that is large, odd, or changes meanwhile, and what waits for what. Without a far side."""

import asyncio
import json
import os
import subprocess

import pytest
from remote_support import job

from tritonforge.config.settings import SendingSettings
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import message
from tritonforge.domain.launch import Call, ExactValues, Tensor
from tritonforge.domain.messages import Compile, Program
from tritonforge.domain.parts import WHOLE
from tritonforge.jobs.shipping import Shipping
from tritonforge.jobs.workspace import WorkspaceFiles
from tritonforge.jobs.workspace.ignoring import Ignored


class Other:
    """A far side that has nothing: it notes what arrives, and answers at once unless `slow` says otherwise."""

    files = "/far"

    def __init__(self, slow=None):
        self.came, self.trees, self.under_way, self.most_under_way, self.cancelled = {}, [], 0, 0, 0
        self._slow = slow

    async def exchange(self, make, on_progress=None, seconds=60.0):
        frame = make(1)
        if frame.kind == "lacks":
            return message("files", id=1, lacks=json.loads(frame.payload))
        if frame.kind == "tree":
            self.trees.append({name: digest for name, digest, *_ in json.loads(frame.payload)})
            return message("files", id=1)
        size = len(frame.payload)
        self.under_way += size
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self._slow is not None and size >= WHOLE:
                await self._slow.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= size
        self.came.setdefault(frame.header["name"], []).append(frame.payload)
        return message("files", id=1)


def send(other, shipping, request):
    async def run():
        shipment = await shipping.send(other, request)
        await shipment.arrived()
        return shipment

    return run()


def names(other):
    return sorted(other.trees[-1])


def with_values(root, size):
    values = Tensor((size,), (1,), "int8", values=ExactValues(bytes(range(256)) * (size // 256)))
    return Compile(Program(str(root), "kernels.py"), Call("c", "kernels.py", "f", (values,)), "sm_90")


@pytest.mark.parametrize("size", [10, 3 * WHOLE])
def test_a_file_that_is_written_while_it_is_sent_is_sent_as_it_is_then(workspace, monkeypatch, size):
    (workspace / "kernels.py").write_text("W = 'weights.bin'\n")
    weights = workspace / "weights.bin"
    weights.write_bytes(b"a" * size)
    reads = []
    read = WorkspaceFiles.read

    def changing(self, name):
        if name == "weights.bin":
            reads.append(name)
            if len(reads) == 2:  # the first was for the hash
                weights.write_bytes(b"b" * size)
                os.utime(weights, ns=(1, 1))
        return read(self, name)

    monkeypatch.setattr(WorkspaceFiles, "read", changing)
    other = Other()
    asyncio.run(send(other, Shipping(), job(workspace, "echo")))
    assert other.came[other.trees[-1]["weights.bin"]] == [b"b" * size]


def test_a_file_that_never_stands_still_is_named(workspace, monkeypatch):
    read = WorkspaceFiles.read
    counted = iter(range(1000))
    monkeypatch.setattr(WorkspaceFiles, "read", lambda self, name: read(self, name) + b"%d" % next(counted))
    with pytest.raises(TargetUnreachable, match=r"kernels\.py changes whenever it is read"):
        asyncio.run(send(Other(), Shipping(), job(workspace, "echo")))


def test_what_takes_the_place_of_a_file_at_the_last_moment_is_not_read(workspace, tmp_path):
    (tmp_path / "outside.txt").write_text("mine alone")
    (workspace / "inside.txt").write_text("x" * 11)
    files = WorkspaceFiles(workspace, SendingSettings(file_bytes=10))
    (workspace / "link.txt").symlink_to(tmp_path / "outside.txt")
    (workspace / "round.txt").symlink_to("round.txt")
    os.mkfifo(workspace / "pipe.txt")
    (workspace / "folder.txt").mkdir()
    for name in ("link.txt", "round.txt", "pipe.txt", "folder.txt", "gone.txt", "inside.txt", "../outside.txt"):
        assert files.read(name) is None, name
    assert files.read("kernels.py") == b"VALUE = 1\n"


def test_a_workspace_full_of_odd_things_sends_what_is_needed(workspace):
    (workspace / "data" / "sub").mkdir(parents=True)
    (workspace / "data" / "sub" / "round").symlink_to(workspace / "data", target_is_directory=True)
    os.mkfifo(workspace / "data" / "pipe")
    (workspace / "data" / "real.txt").write_text("r")
    (workspace / "data" / "odd \udcff\n name").write_text("o")
    (workspace / ".gitignore").write_text("node_modules\n")
    (workspace / "data" / "node_modules").mkdir()
    (workspace / "data" / "node_modules" / "x.txt").write_text("x")
    (workspace / "kernels.py").write_text("A = ['data/pipe', 'data/sub/round', 'data/real.txt']\n")
    other, shipping, request = Other(), Shipping(), job(workspace, "echo")

    async def run():
        await send(other, shipping, request)
        before = names(other)
        said = f"FileNotFoundError: [Errno 2] No such file or directory: '{workspace}/data'"
        more = await shipping.missing(request, said, again=False)
        await send(other, shipping, request)
        return before, more, names(other)

    before, more, after = asyncio.run(run())
    assert before == ["data/real.txt", "kernels.py"]
    assert more == (True, "")
    assert after == ["data/odd \udcff\n name", "data/real.txt", "kernels.py"]


def test_more_files_than_may_go_are_said_and_not_cut_off_silently(workspace):
    (workspace / "data").mkdir()
    for number in range(30):
        (workspace / "data" / f"{number}.txt").write_text("")
    other, shipping = Other(), Shipping(SendingSettings(files=20))
    request = job(workspace, "echo")

    async def run():
        await send(other, shipping, request)
        await shipping.missing(request, f"No such file or directory: '{workspace}/data'", again=False)
        return await shipping.missing(request, f"No such file or directory: '{workspace}/data/9.txt'", again=False)

    more, note = asyncio.run(run())
    assert not more
    assert "data/9.txt was not sent there, because more than 20 files would be needed (`files` in [sending]" in note


def test_thousands_of_small_files_are_never_all_under_way(workspace):
    listed = [f"f{number}.bin" for number in range(200)]
    for number, name in enumerate(listed):
        (workspace / name).write_bytes(number.to_bytes(2, "big") * 10_000)
    (workspace / "kernels.py").write_text(f"A = {listed}\n")
    other = Other()
    asyncio.run(send(other, Shipping(), job(workspace, "echo")))
    assert len(other.came) == 201
    assert other.most_under_way < 1.2e6, "a cancel would wait behind all of them"


def test_a_large_value_on_its_way_holds_up_no_other_job(workspace):
    async def run():
        slow = asyncio.Event()
        other, shipping = Other(slow), Shipping()
        large = [asyncio.create_task(send(other, shipping, with_values(workspace, 4 * WHOLE))) for _ in range(2)]
        while not other.under_way:  # noqa: ASYNC110 - it takes some turns of the loop
            await asyncio.sleep(0)
        await asyncio.wait_for(send(other, shipping, job(workspace, "echo")), 30)
        large[0].cancel()
        await asyncio.wait(large[:1])
        assert not other.cancelled, "the second waits for the same bytes"
        slow.set()
        await large[1]
        assert [len(came) for came in other.came.values()] == [1, 1], "what two jobs want is sent once"
        slow.clear()
        given_up = asyncio.create_task(send(other, shipping, with_values(workspace, 8 * WHOLE)))
        while not other.under_way:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        await asyncio.sleep(0)
        return other.cancelled

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ("*.txt\n!keep.txt", {"keep.txt", "sub/keep.txt", "sub/a.py"}),
        ("sub/\n!sub/keep.txt", {"keep.txt", "b.txt"}),
        ("sub/*\n!sub/keep.txt", {"keep.txt", "b.txt", "sub/keep.txt"}),
        ("[[:alpha:]].txt", {"keep.txt", "sub/keep.txt", "sub/a.py"}),
        ("//b.txt\n[[a]*\n\\!x", {"keep.txt", "b.txt", "sub/keep.txt"}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_ignore_files_are_read_as_git_reads_them(tmp_path, lines, sent):
    (tmp_path / "sub").mkdir()
    for name in ("keep.txt", "b.txt", "sub/keep.txt", "sub/a.py"):
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text(f"{lines}\n.gitignore\n")
    ignored = Ignored(tmp_path)
    ours = {name for name in ("keep.txt", "b.txt", "sub/keep.txt", "sub/a.py") if ignored.reason(name) is None}
    assert ours == sent
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    listed = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "ls-files", "--others", "--exclude-standard"]
    assert set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()) == sent
