"""The schema gate and the migrations (DESIGN 4.4, spec ledger 5.4).

A file is first looked at without touching it. Only one that is empty or ours is opened for writing, and is judged again
inside the lock of each migration, so that of several processes one migrates while the others wait.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TypeVar

from .connection import connect
from .errors import CorruptStore, UnsupportedSchema, is_busy, store_failed

T = TypeVar("T")

NAME: Final = "interlock"
PROTOCOL: Final = 1
MIGRATE_SECONDS: Final = 30.0
LOCK_SECONDS: Final = 0.1
"""How long the opening waits for a lock before it asks whether anybody still waits for it."""

TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
)
MARKER: Final = "SELECT name, version, protocol_version FROM schema_marker ORDER BY name"
SET_MARKER: Final = (
    "INSERT INTO schema_marker(name, version, protocol_version) VALUES (?, ?, ?)"
    " ON CONFLICT(name) DO UPDATE SET version = excluded.version, protocol_version = excluded.protocol_version"
)
_CREATE_MARKER: Final = (
    "CREATE TABLE IF NOT EXISTS schema_marker("
    "name TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, protocol_version INTEGER NOT NULL) WITHOUT ROWID"
)
_NUMBERED: Final = re.compile(r"(\d{4})_\w+\.sql", re.ASCII)


class Migration(NamedTuple):
    """One numbered file: the statements that lead from the version before it to its own."""

    version: int
    statements: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """Those that come with this build, in order; the last one's version is the schema's."""
    numbered = ((_NUMBERED.fullmatch(file.name), file) for file in (files(__package__) / "sql").iterdir())
    found = (Migration(int(name[1]), tuple(split(file.read_text("utf-8")))) for name, file in numbered if name)
    return tuple(sorted(found))


def split(script: str) -> list[str]:
    """The statements of an SQL script, triggers included. ValueError where the last one has no end."""
    statements, start = [], 0
    for match in re.finditer(";", script):
        if sqlite3.complete_statement(script[start : match.end()]):
            statements.append(script[start : match.end()].strip())
            start = match.end()
    rest = re.sub(r"--[^\n]*", "", script[start:]).strip()
    if rest:
        raise ValueError(f"statement without an end: {rest[:80]}")
    return statements


def _never() -> bool:
    return False


def patiently(step: Callable[[], T], given_up: Callable[[], bool]) -> T:
    """`step`, again and again while another process holds a lock, for up to 30 s or until nobody waits for it."""
    deadline = time.monotonic() + MIGRATE_SECONDS
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or given_up() or time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # where SQLite waits by itself, it has done so for the connection's time-out


def inspect(path: Path, known: Sequence[Migration] | None = None, given_up: Callable[[], bool] = _never) -> int:
    """The schema version of the file at `path`, 0 for an empty or absent one. Creates and changes nothing.

    Raises UnsupportedSchema or CorruptStore. A file that another process is just writing is looked at again.
    """
    return patiently(lambda: _inspect(path, known), given_up)


def _inspect(path: Path, known: Sequence[Migration] | None) -> int:
    for attempt in range(3):
        before = _size(f"{path}-wal")
        try:
            return _look(path, before, known)
        except (UnsupportedSchema, CorruptStore) as error:
            if isinstance(error, CorruptStore) and _size(f"{path}-journal"):
                return 0  # cut short while it was created; SQLite rolls it back on opening, and `prepare` judges again
            if attempt == 2 or _size(f"{path}-wal") == before:
                raise
    raise AssertionError("the last attempt returns or raises")


def prepare(
    conn: sqlite3.Connection,
    path: Path,
    known: Sequence[Migration] | None = None,
    given_up: Callable[[], bool] = _never,
) -> None:
    """Bring the file that `conn` has open to the last version. Raises as `inspect`, and sqlite3.Error."""
    patiently(lambda: _prepare(conn, path, migrations() if known is None else known), given_up)


def _prepare(conn: sqlite3.Connection, path: Path, known: Sequence[Migration]) -> None:
    version = _judge(conn, path, known)
    (mode,) = conn.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise store_failed(f"no write-ahead log can be kept on this file system, only {mode!r}")
    if version == known[-1].version:
        return
    conn.execute("BEGIN IMMEDIATE")
    while _migrate_one(conn, path, known):
        conn.execute("BEGIN IMMEDIATE")


def _migrate_one(conn: sqlite3.Connection, path: Path, known: Sequence[Migration]) -> bool:
    """Inside a transaction: the next step, if there is one. Ends the transaction either way."""
    try:
        version = _judge(conn, path, known)
        step = next((m for m in known if m.version > version), None)
        if step is not None:
            for statement in (_CREATE_MARKER, *step.statements):
                conn.execute(statement)
            conn.execute(SET_MARKER, (NAME, step.version, PROTOCOL))
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    return step is not None


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


def _look(path: Path, log_size: int, known: Sequence[Migration] | None) -> int:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    if size == 0:
        if log_size:
            _refuse(CorruptStore, path, "an empty file with a write-ahead log that is not", "a whole store", _RESTORE)
        return 0
    # Without a log nothing but the file counts, and `immutable` keeps SQLite from creating one to read it.
    conn = connect(path, "mode=ro" if log_size else "mode=ro&immutable=1", busy_seconds=LOCK_SECONDS)
    try:
        return _judge(conn, path, migrations() if known is None else known)
    finally:
        conn.close()


def _judge(conn: sqlite3.Connection, path: Path, known: Sequence[Migration]) -> int:
    """The gate itself, in the order of spec ledger 5.4: the version found, or the reason why it cannot be ours."""
    try:
        tables = [name for (name,) in conn.execute(TABLES)]
        if not tables:
            return 0
        rows = conn.execute(MARKER).fetchall() if "schema_marker" in tables else []
    except sqlite3.DatabaseError as error:
        return _unreadable(error, path, known)
    if not rows:
        named = ", ".join(tables[:10]) + (", …" if len(tables) > 10 else "")
        _refuse(UnsupportedSchema, path, f"{len(tables)} tables of something else ({named})", _expected(known), _ASIDE)
    name, version, protocol = rows[0]
    if len(rows) > 1 or name != NAME:
        found = "the marker of " + " and ".join(repr(row[0]) for row in rows)
        _refuse(UnsupportedSchema, path, found, f"the marker of {NAME!r}", _ASIDE)
    if not isinstance(version, int) or not 1 <= version <= known[-1].version:
        _refuse(UnsupportedSchema, path, f"schema version {version}", _expected(known), _UPGRADE)
    if protocol != PROTOCOL:
        _refuse(UnsupportedSchema, path, f"protocol version {protocol}", f"protocol version {PROTOCOL}", _UPGRADE)
    return version


_ASIDE: Final = "Move the file aside, or name another state directory."
_UPGRADE: Final = "Run the version of interlock that wrote it, or move the file aside to start empty."
_RESTORE: Final = "Restore a backup with `interlock restore`, or move the file aside to start empty."


def _expected(known: Sequence[Migration]) -> str:
    return f"an empty file, or an {NAME} store of schema version 1 to {known[-1].version}"


def _unreadable(error: sqlite3.DatabaseError, path: Path, known: Sequence[Migration]) -> NoReturn:
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary == sqlite3.SQLITE_NOTADB:
        _refuse(CorruptStore, path, "no SQLite database", _expected(known), _ASIDE)
    if primary == sqlite3.SQLITE_CORRUPT:
        _refuse(CorruptStore, path, "a truncated or damaged database", "a whole store", _RESTORE)
    if primary == sqlite3.SQLITE_ERROR:  # the marker table has other columns
        _refuse(UnsupportedSchema, path, "a schema_marker table of another shape", _expected(known), _ASIDE)
    raise error


def _refuse(
    kind: type[UnsupportedSchema | CorruptStore], path: Path, found: str, expected: str, remedy: str
) -> NoReturn:
    raise kind(f"{path}: found {found}, expected {expected}. Nothing was changed. {remedy}")
