"""The files of a workspace on a machine that does not have them: what travels, once, and what stays at home."""

import asyncio
import os
import shutil
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from remote_support import elsewhere, far, job

from tritonforge.config.settings import SendingSettings
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import message
from tritonforge.domain.launch import Call, ExactValues, Scalar, Tensor
from tritonforge.domain.messages import Compile, Program
from tritonforge.jobs import JobError, shipping


@pytest.fixture
def there(home):
    """The cache over there."""
    return home / ".cache" / "tritonforge" / "files"


def do(home, root, *actions, file="kernels.py", overlays=(), most=None):
    """Run jobs on one connection and return what they said; a failure's sentence where one failed."""

    async def run():
        async with far(elsewhere(home), sending=most) as worker:
            said = []
            for action in actions:
                try:
                    said.append((await worker.run(job(root, action, file, *overlays))).output)
                except JobError as error:
                    said.append(error.failure)
            return said

    return asyncio.run(run())


def test_what_a_module_imports_and_names_travels_and_nothing_else(home, workspace):
    (workspace / "kernels.py").write_text(
        "from pathlib import Path\nimport json, os\nfrom package.inner import deep\nfrom . import beside\n"
        "HERE = Path(__file__).parent\nTABLE = HERE / 'data' / 'table.json'\n"
        "OTHER = os.path.join(os.path.dirname(__file__), 'data', 'other.bin')\nVALUE = 1\n"
    )
    for name in ("package/__init__.py", "package/inner/__init__.py", "package/inner/deep.py", "package/not_needed.py",
                 "beside.py", "data/table.json", "data/other.bin", "data/not_needed.json", "README.md"):  # fmt: skip
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("import package.helper\n" if name.endswith("deep.py") else "")
    (workspace / "package" / "helper.py").write_text("")
    (listed,) = do(home, workspace, "list")
    assert listed.split() == [
        "beside.py", "data/other.bin", "data/table.json", "kernels.py", "package/__init__.py", "package/helper.py",
        "package/inner/__init__.py", "package/inner/deep.py",
    ]  # fmt: skip


def test_only_what_has_changed_travels_again(home, workspace, there):
    (workspace / "kernels.py").write_text("import a, b\nVALUE = 1\n")
    (workspace / "a.py").write_text("VALUE = 'a'\n")
    (workspace / "b.py").write_text("VALUE = 'b'\n")
    assert do(home, workspace, "import b") == ["b"]
    before = {path: path.stat().st_ino for path in (there / "blobs").iterdir()}
    (workspace / "b.py").write_text("VALUE = 'changed'\n")
    assert do(home, workspace, "import b", "import a") == ["changed", "a"]
    after = {path: path.stat().st_ino for path in (there / "blobs").iterdir()}
    assert len(before) == 3
    assert len(after.keys() - before.keys()) == 1


def test_a_text_that_stands_in_for_a_file_decides_what_is_needed(home, workspace):
    (workspace / "late.py").write_text("VALUE = 5\n")
    assert do(home, workspace, "import late", overlays=[("kernels.py", "import late\n")]) == ["5"]


def test_what_could_not_be_foreseen_is_sent_when_it_is_missed(home, workspace):
    (workspace / "dynamic.py").write_text("import its_own\nVALUE = its_own.VALUE\n")
    (workspace / "its_own.py").write_text("VALUE = 'found'\n")
    (workspace / "tables").mkdir()
    (workspace / "tables" / "one.txt").write_text("one")
    assert do(home, workspace, "import dynamic", "read tables/one.txt") == ["found", "one"]


def test_ignored_files_and_secrets_stay_and_the_failure_says_so(home, workspace):
    (workspace / ".gitignore").write_text("# generated\n*.gen.txt\n/build/\n!kept.gen.txt\n")
    (workspace / "build").mkdir()
    (workspace / "sub").mkdir()
    (workspace / "sub" / ".gitignore").write_text("local.py\n")
    for name in ("a.gen.txt", "kept.gen.txt", "build/made.txt", "sub/local.py", ".env", "id_rsa"):
        (workspace / name).write_text("VALUE = 'secret'\n")
    (workspace / "kernels.py").write_text(
        "NAMES = ['a.gen.txt', 'kept.gen.txt', 'build/made.txt', 'sub/local.py', '.env', 'id_rsa']\n"
    )
    listed, ignored, secret = do(home, workspace, "list", "read build/made.txt", "read .env")
    assert listed.split() == ["kept.gen.txt", "kernels.py"]
    assert "build/made.txt was not sent there, because it is ignored (.gitignore:3: /build/)" in ignored.message
    assert ".env was not sent there, because files of that name may hold secrets" in secret.message
    assert not [path for path in home.rglob("*") if path.is_file() and "secret" in path.read_text(errors="replace")
                and path.name != "kept.gen.txt" and path.parent.name != "blobs" and "worker" not in path.parts]  # fmt: skip


def test_nothing_outside_the_workspace_is_read(home, workspace, tmp_path):
    (tmp_path / "outside.txt").write_text("mine alone")
    (workspace / "link.txt").symlink_to(tmp_path / "outside.txt")
    (workspace / "kernels.py").write_text("A = 'link.txt'\nB = '../outside.txt'\n")
    listed, through_link, above = do(home, workspace, "list", "read link.txt", "read ../outside.txt")
    assert listed.split() == ["kernels.py"]
    assert through_link.kind == above.kind == "user-error"
    assert not [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == b"mine alone"]


def test_a_file_that_is_too_large_is_named_with_its_size(home, workspace):
    (workspace / "weights.bin").write_bytes(bytes(3 << 20))
    (workspace / "kernels.py").write_text("W = 'weights.bin'\n")
    (failure,) = do(home, workspace, "read weights.bin", most=SendingSettings(file_bytes=1 << 20))
    assert "weights.bin was not sent there, because it has 3 MiB, more than the 1 MiB" in failure.message


def test_too_many_bytes_together_are_refused_too(home, workspace):
    for name in "ab":
        (workspace / f"{name}.bin").write_bytes(os.urandom(700_000))
    (workspace / "kernels.py").write_text("W = ['a.bin', 'b.bin']\n")
    listed, failure = do(home, workspace, "list", "read b.bin", most=SendingSettings(total_bytes=1 << 20))
    assert listed.split() == ["a.bin", "kernels.py"]
    assert "more than 1 MiB together" in failure.message


def test_failures_and_progress_speak_of_the_users_own_files(home, workspace):
    seen = []

    async def run():
        async with far(elsewhere(home)) as worker:
            with pytest.raises(JobError) as caught:
                await worker.run(job(workspace, "fails"))
            spins = asyncio.Event()
            spinning = asyncio.create_task(
                worker.run(job(workspace, "spin"), on_progress=lambda text, _: (seen.append(text), spins.set()))
            )
            await spins.wait()
            spinning.cancel()
            compiled = await worker.run(
                Compile(Program(str(workspace), "kernels.py"), Call("c", "f", "f", ()), "sm_90")
            )
            return caught.value.failure, compiled.sources

    failure, sources = asyncio.run(run())
    own = str(workspace / "kernels.py")
    assert failure.message == f"ValueError in {own}"
    assert failure.detail == f'  File "{own}", line 7'
    assert failure.file == own
    assert seen == [f"spinning in {workspace}"]
    assert sources == ((own, "x"),)


def test_a_tensors_values_travel_once_and_never_when_they_came_from_there(home, workspace, there):
    values = os.urandom(300_000)
    program = Program(str(workspace), "kernels.py")
    sent = []

    def call(data):
        return Call("c", "f.py", "f", (Tensor((len(data),), (1,), "int8", values=ExactValues(data)),))

    async def run():
        async with far(elsewhere(home)) as worker:
            channel = worker._current._channel
            write = channel.write
            channel.write = lambda data: (sent.append(len(data)), write(data))
            told = []
            for data in (values, values, values):
                told.append((await worker.run(Compile(program, call(data), "sm_90"))).output)
                told.append(sum(sent))
                sent.clear()
            recorded = (await worker.run(job(workspace, "large 400000"))).calls[0]
            sent.clear()
            told.append((await worker.run(Compile(program, recorded, "sm_90"))).output)
            told.append(sum(sent))
            return told

    first, bytes_first, second, bytes_second, third, bytes_third, back, bytes_back = asyncio.run(run())
    assert first == second == third == "300000"
    assert back == "400000"
    assert bytes_first > 300_000
    assert max(bytes_second, bytes_third, bytes_back) < 4000


def test_the_cache_over_there_is_the_users_alone(home, workspace, there):
    (home / ".cache" / "tritonforge" / "files").mkdir(parents=True, mode=0o777)
    (home / ".cache" / "tritonforge" / "files").chmod(0o777)
    do(home, workspace, "list")
    for folder in (there, there / "blobs", there / "trees", *(there / "trees").iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (there / "blobs").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_program_has_spoilt_is_put_right_for_the_next(home, workspace):
    assert do(home, workspace, "spoil kernels.py")[0] == "spoilt"
    assert do(home, workspace, "read kernels.py") == ["VALUE = 1\n"]


def test_what_somebody_removes_over_there_is_sent_again(home, workspace, there):
    values = Tensor((80 << 10,), (1,), "int8", values=ExactValues(os.urandom(80 << 10)))
    call = Call("c", "kernels.py", "f", (values,))
    compiled = Compile(Program(str(workspace), "kernels.py"), call, "sm_90")

    async def run():
        async with far(elsewhere(home)) as worker:
            said = []
            for request in (job(workspace, "read kernels.py"), compiled, job(workspace, "import kernels"), compiled):
                said.append((await worker.run(request)).output)
                shutil.rmtree(there)
            with pytest.raises(JobError) as caught:
                await worker.run(job(workspace, "read never.py"))
            return said, caught.value.kind, worker.reconnections

    assert asyncio.run(run()) == (["VALUE = 1\n", "81920", "1", "81920"], "user-error", 0)


def test_a_file_that_an_argument_of_a_call_names_travels(home, workspace):
    (workspace / "weights").mkdir()
    (workspace / "weights" / "w.bin").write_text("w")
    (workspace / "weights" / "secret.pem").write_text("s")
    call = Call(
        "c", "kernels.py", "f", (Scalar("weights/w.bin"), Scalar(str(workspace / "weights/secret.pem")), Scalar("x"))
    )

    async def run():
        async with far(elsewhere(home)) as worker:
            await worker.run(Compile(Program(str(workspace), "kernels.py"), call, "sm_90"))
            return (await worker.run(job(workspace, "list"))).output

    assert asyncio.run(run()).split() == ["kernels.py", "weights/w.bin"]


def test_without_a_cache_there_files_are_sent_each_time_and_nothing_is_left(home, workspace, tmp_path):
    (home / ".cache").write_text("no folder")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    async def run():
        async with far(elsewhere(home, TMPDIR=str(scratch))) as worker:
            return (await worker.run(job(workspace, "read kernels.py"))).output

    assert asyncio.run(run()) == "VALUE = 1\n"
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_over_there_is_a_sentence(home, workspace):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", home], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here ({mounted.stderr.strip()})")
    try:
        (workspace / "kernels.py").write_text("W = 'weights.bin'\n")
        (workspace / "weights.bin").write_bytes(os.urandom(8 << 20))
        with pytest.raises(TargetUnreachable) as caught:
            do(home, workspace, "list")
        assert "No space left on device" in str(caught.value)
        assert "Make room there" in str(caught.value)
        (workspace / "weights.bin").write_bytes(b"small")
        assert do(home, workspace, "read weights.bin") == ["small"], "nothing half-written is in the way"
        assert not list(home.rglob(".new-*"))
    finally:
        subprocess.run(["umount", "-l", home], check=True)


def test_two_clients_with_different_files_do_not_get_in_each_others_way(home, workspace, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(workspace, other)
    (other / "kernels.py").write_text("VALUE = 'other'\n")

    async def run():
        async with far(elsewhere(home)) as one, far(elsewhere(home)) as two:
            asked = [
                worker.run(job(root, "import kernels"))
                for worker, root in ((one, workspace), (two, other), (one, other), (two, workspace)) * 3
            ]
            return [result.output for result in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == ["1", "other", "other", "1"] * 3


def test_a_container_like_prefix_and_namespaces_of_its_own(home, workspace):
    prefixes = [("sh", "-c", 'exec "$@"', "sh")]
    if (
        shutil.which("unshare")
        and not subprocess.run(
            ["unshare", "-r", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        ).returncode
    ):
        prefixes.append(("unshare", "-r", "--pid", "--fork", "--mount-proc"))

    async def run():
        said = []
        for prefix in prefixes:
            async with far(elsewhere(home, *prefix)) as worker:
                said.append((await worker.run(job(workspace, "import kernels"))).output)
        return said

    assert asyncio.run(run()) == ["1"] * len(prefixes)


def test_a_tree_leads_nowhere_else(tmp_path):
    from tritonforge.worker.filecache import FileCache, FileRefused

    cache = FileCache(tmp_path)
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    cache.put(digest, b"")
    for name in ("../out.py", "/etc/out.py", "a/../../out.py", "", "a\0b"):
        with pytest.raises(FileRefused):
            cache.tree("0" * 64, [[name, digest, 0, 0, False]])
    with pytest.raises(FileRefused):
        cache.tree("../" + "0" * 61, [])
    with pytest.raises(FileRefused, match="has not arrived"):
        cache.tree("0" * 64, [["a.py", "1" * 64, 0, 0, False]])
    with pytest.raises(FileRefused, match="did not arrive as it was sent"):
        cache.put("1" * 64, b"other")
    assert not Path(tmp_path.parent, "out.py").exists()


def test_what_the_other_side_was_not_told_of_for_long_is_sent_again(workspace, monkeypatch):
    """Over there only what is asked for or sent counts as used: each edit lays out a tree, and tells of the edit alone."""
    (workspace / "kernels.py").write_text("import other\n")
    (workspace / "other.py").write_text("VALUE = 2\n")
    now = [1000.0]
    monkeypatch.setattr(shipping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    told = []

    class Other:
        files = "/far"

        async def exchange(self, make, on_progress=None, seconds=60.0):
            frame = make(1)
            if frame.kind == "file":
                told[-1].append(frame.payload.decode().strip())
            return message("files", id=1)

    async def run():
        other, sent = Other(), shipping.Shipping()
        for edit in range(3):
            told.append([])
            (workspace / "kernels.py").write_text(f"import other\nEDIT = {edit}\n" + "#" * edit)
            await (await sent.send(other, job(workspace, "echo"))).arrived()
            now[0] += 700.0

    asyncio.run(run())
    assert ["VALUE = 2" in one for one in told] == [True, False, True]
    assert all(any(f"EDIT = {edit}" in text for text in one) for edit, one in enumerate(told))
