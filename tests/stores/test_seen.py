"""What readers have shown of items is shown again only while nothing of it has changed, and takes little room."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from interlock.lifecycle.roles import Caller
from interlock.lifecycle.work import ExternalRef, SelfAttest, WorkItem
from interlock.stores.ids import Ids
from interlock.stores.schema import migrations
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import changes, rows
from interlock.stores.workgraph.changes import NewItem
from interlock.stores.workgraph.judging import admit
from interlock.stores.workgraph.rows import Item
from interlock.stores.workgraph.scope import Scope

CALLER = Caller(instance_id="i", holder="i/1", transport="socket")
NEW = NewItem(
    title="t",
    description="first",
    status="open",
    priority="medium",
    labels=["a"],
    policy=SelfAttest(),
    failed_join="require_success",
    cancelled_join="require_success",
    due_at=2000,
    not_before=None,
    snoozed_until=None,
    external_refs=[],
    evidence=[],
)


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    """A store in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        for migration in migrations():
            for statement in migration.statements:
                conn.execute(statement)
        rows._seen.clear()
        yield conn


def made(conn: sqlite3.Connection, new: NewItem = NEW) -> Item:
    """A new item."""
    return changes.create(Tx(conn.execute, 1000, Ids()), Scope("r", "n"), new, CALLER)


def shown(conn: sqlite3.Connection, item: Item, now: int = 1000) -> WorkItem:
    """The item as a reader shows it."""
    return rows.record(Snapshot(conn.execute, now), rows.by_n(Snapshot(conn.execute, now), item.n))


def test_an_item_is_shown_as_before_until_it_changes_or_its_deadline_passes(conn: sqlite3.Connection) -> None:
    item = made(conn)
    before = shown(conn, item)
    assert shown(conn, item) is before
    assert [shown(conn, item, now).overdue for now in (1999, 2000, 1999)] == [False, True, False]
    tx = Tx(conn.execute, 1500, Ids())
    changes.update(tx, admit(tx, rows.by_n(tx, item.n), CALLER, "update"), {"description": "second"})
    assert (before.description, shown(conn, item).description) == ("first", "second")


def test_what_a_transaction_shows_is_not_remembered_since_it_may_be_undone(conn: sqlite3.Connection) -> None:
    item = made(conn)
    for said in ("undone", "kept"):  # both at the same instant and revision
        conn.execute("SAVEPOINT s")
        tx = Tx(conn.execute, 1500, Ids())
        after = changes.update(tx, admit(tx, rows.by_n(tx, item.n), CALLER, "update"), {"description": said})
        assert rows.record(tx, after).description == said
        conn.execute(f"{'ROLLBACK TO' if said == 'undone' else 'RELEASE'} s")
    assert shown(conn, item).description == "kept"


@pytest.mark.parametrize(
    "large",
    [
        {"description": "x" * 2000},
        {"labels": [f"{n}{'x' * 200}" for n in range(10)]},
        {"external_refs": [ExternalRef(kind="k", id="i")]},
    ],
)
def test_what_is_large_is_not_remembered(conn: sqlite3.Connection, large: dict[str, object]) -> None:
    item = made(conn, NEW._replace(**large))  # type: ignore[arg-type]
    assert shown(conn, item) == shown(conn, item)
    assert not rows._seen


def test_no_more_than_a_bound_is_remembered(conn: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_SEEN", 3)
    items = [made(conn) for _ in range(10)]
    for item in items:
        assert shown(conn, item).id == item.id
        assert len(rows._seen) <= 3
