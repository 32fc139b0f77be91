"""The cache over there under programs, other users, other clients and disks that do it harm. Without a connection."""

import concurrent.futures
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from tritonforge.domain.frames import Frame, message
from tritonforge.worker import filecache
from tritonforge.worker.filecache import FileCache
from tritonforge.worker.filing import Filing

KEY = "0" * 64


def digest(data):
    return hashlib.sha256(data).hexdigest()


def laid(cache, files, key=KEY):
    for data in files.values():
        cache.put(digest(data), data)
    return cache.tree(key, [[name, digest(data), len(data), 10**18, False] for name, data in files.items()])


FILES = {"kernels.py": b"VALUE = 1\n", "data/sub/table.bin": b"t"}


@pytest.mark.parametrize(
    "harm", ["link for a file", "link for a folder", "folder for a file", "file for a folder", "link for a tree"]
)
def test_what_a_program_puts_in_the_way_is_cleared_and_leads_nowhere(tmp_path, harm):
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "table.bin").write_text("the user's own")
    cache = FileCache(tmp_path / "cache")
    root = laid(cache, FILES)
    if harm == "link for a file":
        (root / "data/sub/table.bin").unlink()
        (root / "data/sub/table.bin").symlink_to(outside / "sub" / "table.bin")
    elif harm == "link for a folder":
        shutil.rmtree(root / "data")
        (root / "data").symlink_to(outside)
    elif harm == "folder for a file":
        (root / "kernels.py").unlink()
        (root / "kernels.py" / "more").mkdir(parents=True)
    elif harm == "file for a folder":
        shutil.rmtree(root / "data")
        (root / "data").write_text("")
    else:
        shutil.rmtree(root)
        root.symlink_to(outside)
    again = laid(cache, FILES)
    assert {name: (again / name).read_bytes() for name in FILES} == FILES
    assert not again.is_symlink()
    assert (outside / "sub" / "table.bin").read_text() == "the user's own"


def test_a_file_that_has_become_a_folder_and_the_other_way_round_is_laid_out(tmp_path):
    cache = FileCache(tmp_path)
    laid(cache, {"a": b"1"}, "1" * 64)
    root = laid(cache, {"a/b": b"2"}, "2" * 64)
    assert (root / "a" / "b").read_bytes() == b"2"
    both = message("tree", id=1, key="3" * 64)
    filing = Filing(wanted=False)
    filing.folder, filing._cache = tmp_path, cache
    entries = [["a", digest(b"1"), 1, 0, False], ["a/b", digest(b"2"), 1, 0, False]]
    answer = filing.answer(Frame(both.header, json.dumps(entries).encode()))
    assert answer is not None, "a workspace that cannot be is answered, and ends nothing"


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 100_000,
        b"7",
        b'{"a": 1}',
        b"[[1, 2]]",
        json.dumps([["a", digest(b""), 0, 10**30, False]]).encode(),
        json.dumps([["a", digest(b""), 0, -(10**30), False]]).encode(),
        json.dumps([["a" * 5000, digest(b""), 0, 0, False]]).encode(),
        json.dumps([["a/" * 3000 + "b", digest(b""), 0, 0, False]]).encode(),
        json.dumps([["\ud800", digest(b""), 0, 0, False]]).encode(),
        b"\xff\xfe",
    ],
)
def test_no_description_whatever_ends_the_worker(tmp_path, payload):
    filing = Filing(wanted=False)
    filing.folder, filing._cache = tmp_path, FileCache(tmp_path)
    filing._cache.put(digest(b""), b"")
    for kind in ("tree", "lacks", "file", "space"):
        answer = filing.answer(Frame(message(kind, id=1, key=KEY, name=[1]).header, payload))
        assert answer.kind == "files"
    assert not list(tmp_path.rglob(".new-*")), "nothing half-written is left"


def test_a_disk_that_takes_nothing_is_a_refusal(tmp_path, monkeypatch):
    filing = Filing(wanted=False)
    filing.folder, filing._cache = tmp_path, FileCache(tmp_path)

    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    answer = filing.answer(Frame(message("file", id=1, name=digest(b"x")).header, b"x"))
    assert "No space left on device" in answer.header["refused"]
    assert "Make room there" in answer.header["refused"]


def test_a_disk_that_fills_up_in_the_middle_of_a_file_keeps_nothing_of_it(tmp_path, monkeypatch):
    cache = FileCache(tmp_path)
    cache.put(digest(b"old"), b"old")
    fdopen = os.fdopen

    def filling(handle, mode):
        file = fdopen(handle, mode, buffering=0)

        class Filling:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def write(self, data):
                file.write(data[: len(data) // 2])
                raise OSError(28, "No space left on device")

        return Filling()

    monkeypatch.setattr(os, "fdopen", filling)
    with pytest.raises(filecache.FileRefused, match="No space left"):
        cache.put(digest(b"new" * 9), b"new" * 9)
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [digest(b"old")]
    assert cache.lacks([digest(b"new" * 9)]) == [digest(b"new" * 9)]


def test_clients_that_send_the_same_at_once_both_find_it_whole(tmp_path):
    files = {f"{number}.bin": bytes([number]) * 50_000 for number in range(8)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        roots = list(pool.map(lambda _: laid(FileCache(tmp_path), files), range(8)))
    assert {(name, (roots[0] / name).read_bytes()) for name in files} == set(files.items())
    assert sorted(path.name for path in (tmp_path / "blobs").iterdir()) == sorted(map(digest, files.values()))
    assert sorted(path.name for path in roots[0].iterdir()) == sorted(files)


def test_what_others_could_write_to_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path))
    blob = tmp_path / "files" / "blobs" / digest(b"mine")
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"planted")
    (tmp_path / "files").chmod(0o777)
    folder, scratch = filecache.home()
    assert not scratch
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert FileCache(folder).lacks([digest(b"mine")]) == [digest(b"mine")]
    FileCache(folder).put(digest(b"mine"), b"mine")
    assert filecache.home() == (folder, False)
    assert blob.read_bytes() == b"mine", "what was private stays"


@pytest.mark.parametrize("theirs", ["link", "file", pytest.param("stranger", marks=pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may give a folder away"))])  # fmt: skip
def test_a_cache_that_is_not_the_users_own_is_not_used(tmp_path, monkeypatch, theirs):
    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "cache" / "files"
    if theirs == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif theirs == "file":
        place.write_text("")
    else:
        place.mkdir()
        os.chown(place, 12345, 12345)
    folder, scratch = filecache.home()
    assert scratch
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_clock_that_is_wrong_removes_nothing_that_is_used(tmp_path):
    """The times of files are the client's; only the cache's own clock, read twice, says how long nobody used them."""
    root = laid(FileCache(tmp_path), FILES)
    for path in root.rglob("*"):
        os.utime(path, ns=(1, 1))
    cache = FileCache(tmp_path)
    cache.put(digest(b"more"), b"more")
    assert root.is_dir()
    assert cache.lacks([digest(data) for data in FILES.values()]) == []
