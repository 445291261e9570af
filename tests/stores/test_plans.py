"""No named statement scans a table that grows, or sorts: a polled read must cost what it returns (DESIGN 4.4)."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final

import pytest

from interlock import stores
from interlock.stores.feed import FeedFilter, select_events
from interlock.stores.schema import migrations

STATEMENT: Final = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|WITH)\s")
STEP: Final = re.compile(r"SCAN (\w+)|USE TEMP B-TREE.*")

SMALL: Final = frozenset(
    {"cursors", "facts", "roles", "schema_marker", "sqlite_master", "sqlite_schema", "sqlite_sequence"}
)
"""Tables with a row for each name that somebody gave, not for each thing that happened."""

ALLOWED: Final = {
    "listing.ALL_QUEUED": "counts live rows in the index that holds nothing else",
    "listing.ALL_IN_FLIGHT": "counts live rows in the index that holds nothing else",
    "presence.INSTANCES": "one row for each living connection, in the order of its index",
    "schema.TABLES": "sorts the names of the tables, once at start",
    "workgraph.edges.AFTER": "walks the list that it is given",
    "workgraph.edges.BEFORE": "walks the list that it is given",
    "workgraph.queue.READY_LABEL": "walks the labels that it is given",
    "workgraph.queue.OPENED": "sorts what time has made ready since the last sweep, and walks the labels it is given",
    "workgraph.queue.ELAPSED": "sorts what time has made ready since the last sweep, and walks the labels it is given",
    "workgraph.queue.SETTLING": "walks the labels that it is given",
    "workgraph.queue.SETTLING_ELAPSED": "sorts the few parents whose lease has elapsed, and walks the labels given",
    "workgraph.rows.IDS_OF": "walks the list that it is given",
    "tx.LAST_INSTANT": "the first row from the end, and no other",
}
"""Statements that may scan or sort, by module and name, with the reason."""


PREPARED_AGAIN: Final = {"faults.PAGE_BY_STATE": "a list for people; `state = ?` could be the index of open ones"}
"""Statements whose plan depends on what is bound, by module and name, with the reason."""


class Ones(dict[str, Any]):
    """1 for every named parameter."""

    def __missing__(self, name: str) -> int:
        return 1


class Nulls(dict[str, Any]):
    """NULL for every named parameter."""

    def __missing__(self, name: str) -> None:
        return None


def statements() -> Iterator[tuple[str, str]]:
    """Every constant of every module of stores that is a statement, by module and name."""
    for found in pkgutil.walk_packages(stores.__path__, f"{stores.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, str) and name.isupper() and STATEMENT.match(value):
                yield f"{found.name.removeprefix(f'{stores.__name__}.')}.{name}", value
    every = ("x", "y")
    yield "feed.select_events", select_events(FeedFilter())[0]
    yield "feed.select_events filtered", select_events(FeedFilter(every, every, every, every))[0]


@pytest.fixture(scope="module")
def conn() -> Iterator[sqlite3.Connection]:
    """The schema, migrated."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        conn.execute("CREATE TABLE schema_marker(name PRIMARY KEY, version, protocol_version) WITHOUT ROWID")
        for migration in migrations():
            for statement in migration.statements:
                conn.execute(statement)
        yield conn


def steps(conn: sqlite3.Connection, sql: str) -> list[str]:
    """What the plan does step by step, with NULL for each parameter."""
    nulls: Any = Nulls() if re.search(r":[a-z]", sql) else [None] * sql.count("?")
    return [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", nulls)]


def costly(plan: list[str]) -> list[str]:
    """The steps that read a whole growing table, or sort."""
    found = [(step, STEP.match(step)) for step in plan]
    return [step for step, match in found if match and match[1] not in SMALL]


@pytest.mark.parametrize(("name", "sql"), [pytest.param(*found, id=found[0]) for found in statements()])
def test_a_statement_reads_by_an_index_what_it_returns(conn: sqlite3.Connection, name: str, sql: str) -> None:
    plan = costly(steps(conn, sql))
    if name in ALLOWED:
        assert plan, f"{name} is allowed what it does not do"
    else:
        assert not plan, f"{name}: {sql}"


def test_a_scan_and_a_sort_would_be_noticed(conn: sqlite3.Connection) -> None:
    assert costly(steps(conn, "SELECT body FROM messages WHERE head = ?")) == ["SCAN messages"]
    assert costly(steps(conn, "SELECT m.body FROM messages AS m WHERE m.head = ?")) == ["SCAN m"]
    assert costly(steps(conn, "SELECT seq FROM events WHERE seq > ? ORDER BY at_ms")) == [
        "USE TEMP B-TREE FOR ORDER BY"
    ]
    assert costly(steps(conn, "SELECT name FROM roles")) == []
    assert {name.partition(".")[0] for name, _ in statements()} >= {"tx", "feed", "database", "schema"}


def test_every_allowed_statement_exists() -> None:
    assert set(ALLOWED) <= {name for name, _ in statements()}


@pytest.mark.parametrize(("name", "sql"), [pytest.param(*found, id=found[0]) for found in statements()])
def test_a_statement_is_prepared_once_whatever_is_bound_to_it(conn: sqlite3.Connection, name: str, sql: str) -> None:
    # SQLite prepares anew at each execution where a bound value could bring a partial index in: 60 us, ten times the
    # cost of most statements. Every parameter is a number here, since a limit must be one.
    prepared, before = 0, 0

    def asked(*_: object) -> int:
        nonlocal prepared
        prepared += 1
        return sqlite3.SQLITE_OK

    numbers: Any = Ones() if re.search(r":[a-z]", sql) else [1] * sql.count("?")
    conn.set_authorizer(asked)
    conn.execute("SAVEPOINT twice")
    for _ in range(3):
        before = prepared
        with suppress(sqlite3.IntegrityError):
            conn.execute(sql, numbers).fetchall()
    again = prepared > before
    conn.execute("ROLLBACK TO twice")
    conn.execute("RELEASE twice")
    conn.set_authorizer(None)
    assert again == (name in PREPARED_AGAIN)
