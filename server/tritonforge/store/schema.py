"""The tables of the store and how older ones become newer ones.

One table holds every kind of value, since they differ only in what they are keyed by: (kind, key) names a subject,
`part` tells the values of one subject apart (the trials of a kernel, the origins of its recorded calls). `value` is
zlib-compressed JSON made by `domain.codec`; it comes last so that scans over the other columns never touch it.
"""

from __future__ import annotations

import sqlite3

from tritonforge.domain.errors import UsageError

APPLICATION_ID = 0x54464F52  # "TFOR": tells our files from other people's databases

MIGRATIONS: tuple[str, ...] = (
    # 1: the first shape
    """
    CREATE TABLE entry (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        part TEXT NOT NULL,
        written_at REAL NOT NULL,
        used_at REAL NOT NULL,
        size INTEGER NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (kind, key, part)
    );
    CREATE INDEX entry_by_use ON entry (used_at, kind, size);
    """,
)
"""Statement batches; the n-th takes a store from version n-1 to n. Only ever append."""

SCHEMA_VERSION = len(MIGRATIONS)


def prepare(connection: sqlite3.Connection, name: str, migrations: tuple[str, ...] = MIGRATIONS) -> None:
    """Bring the database behind `connection` to the newest version, from an empty one if need be.

    Raises:
        UsageError: when a newer TritonForge wrote it (`name` says which file).
        sqlite3.DatabaseError: when it is damaged, or somebody else's.
    """
    newest = len(migrations)
    if stored_version(connection, name, newest) == newest:
        return
    # Another process may be creating or migrating the same store: look again once the write lock is ours.
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(stored_version(connection, name, newest), newest):
            for statement in migrations[number].split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def stored_version(connection: sqlite3.Connection, name: str, newest: int = SCHEMA_VERSION) -> int:
    """Return the version that the database behind `connection` has, 0 for an empty one; writes nothing.

    Raises:
        UsageError, sqlite3.DatabaseError: as `prepare` does.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise sqlite3.DatabaseError("it is not a TritonForge store")
    if version > newest:
        raise UsageError(
            f"{name} was written by a newer TritonForge (store version {version}, this one knows {newest}).",
            "Update TritonForge, or move that file away.",
        )
    return int(version)
