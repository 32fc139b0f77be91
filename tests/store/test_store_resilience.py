"""The store against crashes, company, damage, and places that cannot be written. Real files, real processes."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Call, Scalar
from tritonforge.store import CompiledCall, open_store, schema
from tritonforge.store.database import Database

WRITER = """
import sys
from pathlib import Path
from tritonforge.store import CompiledCall, open_store

store = open_store(Path(sys.argv[1]), warn=lambda m: print("WARNING", m, flush=True), max_bytes=1 << 20)
print("ready", flush=True)
for i in range(int(sys.argv[3])):
    name = f"{sys.argv[2]}-{i}"
    # Half a page or several: commits that span pages are the interesting ones to interrupt.
    store.put_compiled(name, CompiledCall(1, ((name, "".join(map(str, range(i % 4000)))),), ()))
print("done", flush=True)
"""


def compiled(tag, more=""):
    return CompiledCall(1, ((tag, more),), ())


def start_writer(root, tag, count):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(root), tag, str(count)], stdout=subprocess.PIPE, text=True
    )


def integrity(root):
    connection = sqlite3.connect(root / ".tritonforge" / "store.sqlite3")
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()


def test_a_writer_killed_at_any_moment_leaves_a_sound_store(tmp_path):
    warnings = []
    kept = 0
    for round_ in range(8):
        writer = start_writer(tmp_path, f"r{round_}", 10**9)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.01 + 0.023 * round_)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert integrity(tmp_path) == "ok"
        with open_store(tmp_path, warn=warnings.append) as store:
            names = store._database.keys("compiled")
            assert all(store.compiled(name).sources[0][0] == name for name in names)
            kept = max(kept, len(names))
            store.put_compiled("after", compiled("after"))
            assert store.compiled("after") is not None
    assert kept > 10, "the test must have killed writers that had written something"
    assert warnings == []
    assert not list(tmp_path.glob(".tritonforge/*corrupt*"))


def test_processes_that_create_and_fill_one_store_together_lose_nothing(tmp_path):
    writers = [start_writer(tmp_path, f"w{n}", 40) for n in range(4)]
    outputs = [writer.communicate(timeout=60)[0] for writer in writers]
    assert outputs == ["ready\ndone\n"] * 4
    with open_store(tmp_path) as store:
        assert len(store._database.keys("compiled")) == 160
    assert integrity(tmp_path) == "ok"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"this is no database, but it is long enough to be looked at" * 100,
        lambda data: data[:16] + os.urandom(84) + data[100:],
        lambda data: data[: len(data) // 2],
        lambda data: data[:4096] + b"\xa5" * (len(data) - 4096),
    ],
    ids=["other-content", "header", "truncated", "pages"],
)
def test_a_damaged_store_is_moved_aside_with_a_warning_and_work_goes_on(tmp_path, damage):
    with open_store(tmp_path) as store:
        for i in range(200):
            store.put_compiled(f"c{i}", compiled(f"c{i}", str(list(range(i * 9)))))
    path = tmp_path / ".tritonforge" / "store.sqlite3"
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    warnings = []
    with open_store(tmp_path, warn=warnings.append) as store:
        for i in range(200):
            found = store.compiled(f"c{i}")
            assert found is None or found.launch == f"c{i}"
        for i in range(20):
            store.put_compiled(f"n{i}", compiled("new"))
        assert all(store.compiled(f"n{i}").sources[0][0] == "new" for i in range(20))
    (aside,) = tmp_path.glob(".tritonforge/store.sqlite3.corrupt-*[0-9]")
    assert aside.read_bytes()[:4096] == damaged[:4096]
    assert len(warnings) == 1
    assert str(aside) in warnings[0]
    assert integrity(tmp_path) == "ok"


def test_somebody_elses_database_is_not_written_into(tmp_path):
    (tmp_path / ".tritonforge").mkdir()
    path = tmp_path / ".tritonforge" / "store.sqlite3"
    other = sqlite3.connect(path)
    other.executescript("CREATE TABLE mine (x); INSERT INTO mine VALUES (7);")
    other.close()
    before = path.read_bytes()
    warnings = []
    open_store(tmp_path, warn=warnings.append).close()
    (aside,) = tmp_path.glob(".tritonforge/*.corrupt-*")
    assert aside.read_bytes() == before
    other = sqlite3.connect(aside)
    assert other.execute("SELECT x FROM mine").fetchall() == [(7,)]
    other.close()
    assert len(warnings) == 1


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path):
    open_store(tmp_path).close()
    path = tmp_path / ".tritonforge" / "store.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"written by a newer TritonForge .* Update TritonForge"):
        open_store(tmp_path)
    assert path.read_bytes() == before


def test_an_older_store_is_brought_forward_with_its_values(tmp_path):
    path = tmp_path / "s.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None)
    schema.prepare(connection, "s")
    connection.execute("INSERT INTO entry VALUES ('kind', 'k', '', 1, 1, 1, x'00')")
    newer = (*schema.MIGRATIONS, "ALTER TABLE entry ADD COLUMN note TEXT DEFAULT 'none'; CREATE TABLE extra (x)")
    schema.prepare(connection, "s", newer)
    assert connection.execute("SELECT key, note FROM entry").fetchall() == [("k", "none")]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
    connection.close()


def test_a_migration_that_fails_changes_nothing(tmp_path):
    connection = sqlite3.connect(tmp_path / "s.sqlite3", isolation_level=None)
    schema.prepare(connection, "s")
    with pytest.raises(sqlite3.OperationalError):
        schema.prepare(connection, "s", (*schema.MIGRATIONS, "CREATE TABLE extra (x); CREATE NONSENSE"))
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION,)
    connection.close()


def test_the_folder_keeps_itself_out_of_git_but_for_the_baseline(tmp_path):
    open_store(tmp_path).close()
    folder = tmp_path / ".tritonforge"
    (folder / "baseline.json").touch()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    shown = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert shown == "?? .tritonforge/baseline.json\n"


def test_a_workspace_that_cannot_be_written_is_remembered_in_the_users_cache(tmp_path):
    root = tmp_path / "ws"
    root.mkdir()
    (root / ".tritonforge").write_text("a file where the folder should be")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with open_store(root, environment=environment) as store:
        assert store.path.parent.parent == tmp_path / "cache" / "tritonforge" / "stores"
        store.put_compiled("k", compiled("L"))
    with open_store(root, environment=environment) as store:
        assert store.compiled("k").sources[0][0] == "L"


def test_where_nothing_can_be_written_it_works_from_memory_and_says_so(tmp_path):
    (tmp_path / ".tritonforge").touch()
    (tmp_path / "cache").touch()
    warnings = []
    with open_store(tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")}, warn=warnings.append) as store:
        assert store.path is None
        store.put_compiled("k", compiled("L"))
        assert store.compiled("k").sources[0][0] == "L"
    assert len(warnings) == 1


def test_a_folder_cleared_while_open_is_begun_again(tmp_path):
    folder = tmp_path / ".tritonforge"
    with open_store(tmp_path) as store:
        store.put_compiled("k", compiled("L"))
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        assert store.compiled("k") is None
        store.put_compiled("k", compiled("M"))
        assert (folder / ".gitignore").exists()
    with open_store(tmp_path) as store:
        assert store.compiled("k").sources[0][0] == "M"


def test_the_least_recently_used_go_first_and_recorded_calls_last(tmp_path, monkeypatch):
    warnings = []
    clock = [1000.0]
    monkeypatch.setattr("tritonforge.store.database.time.time", lambda: clock[0])
    database = Database(tmp_path / "s.sqlite3", max_bytes=100_000, durable_kinds=("calls",), warn=warnings.append)
    database.put("calls", "old", "", bytes(5_000))
    for i in range(60):
        clock[0] += 1000
        database.put("compilation", f"{i:02}", "", os.urandom(5_000))
        if i >= 2:
            assert database.get("compilation", "02"), "what is read often stays"
    kept = database.keys("compilation")
    assert database.size() <= 106_250
    assert kept[-1] == "59"
    assert "00" not in kept
    assert database.get("calls", "old")
    database.put("compilation", "huge", "", bytes(30_000))
    assert database.get("compilation", "huge") == []
    assert len(warnings) == 1
    assert "too large" in warnings[0]
    database.close()
    assert (tmp_path / "s.sqlite3").stat().st_size < 200_000


def test_threads_share_one_store(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with open_store(tmp_path) as store, ThreadPoolExecutor(8) as pool:
        call = Call("C", "k.py", "run", (Scalar(1),))

        def work(n):
            store.put_calls("k.py", f"k{n}", code_hash="c", site_hashes=(), calls=(call,), origin="main")
            return store.calls_for("k.py", f"k{n}")[0].calls == (call,)

        assert all(pool.map(work, range(64)))


def test_a_store_that_another_process_holds_locked_costs_a_warning_not_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("tritonforge.store.database.BUSY_SECONDS", 0.1)
    warnings = []
    with open_store(tmp_path, warn=warnings.append) as store:
        store.put_compiled("k", compiled("L"))
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        store.put_compiled("k2", compiled("L"))
        assert store.compiled("k").sources[0][0] == "L"
        other.execute("ROLLBACK")
        other.close()
        assert store.compiled("k2") is None
    assert len(warnings) == 1
    assert "locked" in warnings[0]
