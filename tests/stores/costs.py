"""What a read costs in steps of SQLite's machine, which are the same on every machine and at every load."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from interlock.stores.schema import migrations
from interlock.stores.tx import Snapshot

NOW = 1_700_000_000_000
COUNTED = 100


@contextmanager
def store() -> Iterator[sqlite3.Connection]:
    """An empty store in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        conn.execute("CREATE TABLE schema_marker(name PRIMARY KEY, version, protocol_version) WITHOUT ROWID")
        for migration in migrations():
            for statement in migration.statements:
                conn.execute(statement)
        yield conn


def fill(conn: sqlite3.Connection, table: str, count: int, **columns: object) -> None:
    """Insert `count` rows; a text is an expression over `n`, which goes from 1 to `count`."""
    rows = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < :count)"
    values = ", ".join(str(value) for value in columns.values())
    sql = f"INSERT INTO {table}({', '.join(columns)}) {rows} SELECT {values} FROM t"
    conn.execute(sql, {"count": count})


def steps(conn: sqlite3.Connection, read: Callable[[Snapshot], object]) -> int:
    """How many hundreds of steps a read takes."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    conn.set_progress_handler(count, COUNTED)
    read(Snapshot(conn.execute, NOW))
    conn.set_progress_handler(None, 0)
    return taken
