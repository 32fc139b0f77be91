"""One SQLite file that survives crashes, other processes, damage and full disks.

Nothing here may cost the user a run: a value that cannot be read is a miss, one that cannot be written is dropped with
a warning, and a damaged file is moved aside (never deleted) for a fresh one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tritonforge.domain.errors import UsageError
from tritonforge.store.schema import prepare, stored_version

try:
    import fcntl
except ImportError:  # Windows: two processes that find the same damage at once may both move the file aside
    fcntl = None  # type: ignore[assignment, unused-ignore]

T = TypeVar("T")
Warn = Callable[[str], None]

BUSY_SECONDS = 10.0
"""How long a statement waits for another process's write."""

_USE_RESOLUTION = 600.0  # seconds; reads become writes only this often


class Database:
    """Blobs by (kind, key, part) in one file, at most about `max_bytes` of them. Safe for threads and processes."""

    def __init__(
        self,
        path: Path | None,
        *,
        max_bytes: int,
        durable_kinds: tuple[str, ...],
        warn: Warn,
        prepare_folder: Callable[[], object] = lambda: None,
    ) -> None:
        """Open or create `path` (None: in memory).

        `durable_kinds` are evicted last; `prepare_folder` makes the folder again when it was removed meanwhile.

        Raises:
            UsageError: when a newer version wrote it.
            sqlite3.OperationalError: when the file system does not carry a database.
        """
        self.path = path
        self._max_bytes = max_bytes
        self._durable = durable_kinds
        self._warn = warn
        self._prepare_folder = prepare_folder
        self._warned: set[str] = set()
        self._lock = threading.RLock()
        self._unchecked = max_bytes  # look at the size before the first write
        self._connection = self._open()
        self._identity = _identity(path)

    def get(self, kind: str, key: str) -> list[tuple[str, float, bytes]]:
        """Return (part, time written, value) of each value, newest first; none when there is nothing to read."""

        def read(connection: sqlite3.Connection) -> list[tuple[str, float, bytes]]:
            rows = connection.execute(
                "SELECT part, written_at, value, used_at FROM entry WHERE kind = ? AND key = ?"
                " ORDER BY written_at DESC, rowid DESC",
                (kind, storable(key)),
            ).fetchall()
            now = time.time()
            if any(now - used > _USE_RESOLUTION for *_, used in rows):
                with contextlib.suppress(sqlite3.OperationalError):  # a busy store still answers
                    connection.execute(
                        "UPDATE entry SET used_at = ? WHERE kind = ? AND key = ?", (now, kind, storable(key))
                    )
            return [(part, written, value) for part, written, value, _ in rows]

        return self._run(read, [])

    def put(self, kind: str, key: str, part: str, value: bytes) -> None:
        """Store `value`, replacing what was there. A value above a quarter of the bound is not kept."""
        if len(value) > self._max_bytes // 4:
            self._warn_once(f"a value of {len(value)} bytes is too large for the store and was not kept.")
            return

        def write(connection: sqlite3.Connection) -> None:
            now = time.time()
            connection.execute(
                "INSERT OR REPLACE INTO entry (kind, key, part, written_at, used_at, size, value)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (kind, storable(key), storable(part), now, now, len(value), value),
            )
            self._unchecked += len(value)
            if self._unchecked > self._max_bytes // 16:
                self._unchecked = 0
                self._evict(connection)

        self._run(write, None)

    def delete(self, kind: str, key: str, part: str | None = None) -> None:
        """Forget one value, or all of a key."""

        def remove(connection: sqlite3.Connection) -> None:
            if part is None:
                connection.execute("DELETE FROM entry WHERE kind = ? AND key = ?", (kind, storable(key)))
            else:
                connection.execute(
                    "DELETE FROM entry WHERE kind = ? AND key = ? AND part = ?",
                    (kind, storable(key), storable(part)),
                )

        self._run(remove, None)

    def keys(self, kind: str, prefix: str = "") -> list[str]:
        """Return the keys of `kind` that begin with `prefix`, sorted, each as it is held (`storable`)."""

        def read(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "SELECT DISTINCT key FROM entry WHERE kind = ? AND substr(key, 1, ?) = ? ORDER BY key",
                (kind, len(storable(prefix)), storable(prefix)),
            )
            return [key for (key,) in rows]

        return self._run(read, [])

    def size(self) -> int:
        """Return the bytes of all values together."""
        return self._run(_total, 0)

    def close(self) -> None:
        """Close the file; the write-ahead log is folded in."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _run(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        with self._lock:
            if self.path is not None and _identity(self.path) != self._identity:
                # The folder was cleared, or another process moved a damaged file aside.
                self._prepare_folder()
                self._reopen()
            try:
                return action(self._connection)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    self._warn_once(f"the store {self.path} did not answer ({error}); going on without it.")
                    return otherwise
                self._reopen(error)
            try:
                return action(self._connection)
            except sqlite3.DatabaseError as error:
                self._warn_once(f"the store {self.path} is damaged again ({error}); going on without it.")
                return otherwise

    def _reopen(self, damage: sqlite3.DatabaseError | None = None) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        try:
            if damage is not None:
                self._move_aside(damage)
            self._connection = self._open()
            self._identity = _identity(self.path)
        except (sqlite3.Error, OSError, UsageError) as error:
            self._warn_once(f"the store {self.path} is lost ({error}); what follows is kept in memory only.")
            self.path = None
            self._connection = _connect(None)

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError as error:
            if self.path is None or not _is_damage(error):
                raise
            self._move_aside(error)
            return _connect(self.path)

    def _move_aside(self, why: sqlite3.DatabaseError) -> None:
        if self.path is None:
            raise why
        with _exclusive(self.path.with_name(self.path.name + ".lock")):
            # Somebody else may have replaced it while we waited for the lock.
            if _is_sound(self.path):
                return
            stamp = time.strftime("%Y%m%d-%H%M%S")
            aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
            number = 1
            while aside.exists():
                number += 1
                aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}-{number}")
            # The logs go first: an old log beside a fresh database would be replayed into it.
            for suffix in ("-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        self._warn_once(f"the store was damaged ({why}); it was moved to {aside} and a fresh one begun.")

    def _evict(self, connection: sqlite3.Connection) -> None:
        excess = _total(connection) - self._max_bytes
        if excess <= 0:
            return
        goal = excess + self._max_bytes // 5  # some air, or every write would evict
        marks = ",".join("?" * len(self._durable))
        rows = connection.execute(
            f"SELECT rowid, size FROM entry ORDER BY kind IN ({marks}), used_at, rowid",  # noqa: S608 - only marks
            self._durable,
        )
        doomed: list[tuple[int]] = []
        for rowid, size in rows:
            if goal <= 0:
                break
            doomed.append((rowid,))
            goal -= size
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("DELETE FROM entry WHERE rowid = ?", doomed)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA incremental_vacuum").fetchall()

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._warn(message)


def _connect(path: Path | None) -> sqlite3.Connection:
    # Autocommit: every statement is a transaction of its own unless one is begun, so none stays open by accident.
    connection = sqlite3.connect(
        ":memory:" if path is None else path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        # Look before touching anything: each of the next statements may write to the file.
        if stored_version(connection, str(path)) == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {16 << 20}").fetchall()
        prepare(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    # Changing the mode does not wait for other openers of a fresh file as other statements do.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by us, or by the binding itself
        return not isinstance(error, sqlite3.OperationalError)
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or (
        code & 0xFF == sqlite3.SQLITE_ERROR and "no such table" in str(error)
    )


def _is_sound(path: Path) -> bool:
    try:
        connection = _connect(path)
        try:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def storable(key: str) -> str:
    """Return a key as a database holds it: names of files may have bytes that are no text."""
    return key.encode("utf-8", "backslashreplace").decode("utf-8")


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def _total(connection: sqlite3.Connection) -> int:
    (total,) = connection.execute("SELECT coalesce(sum(size), 0) FROM entry").fetchone()
    return int(total)
