"""A page costs what it returns, however much else there is."""

from __future__ import annotations

import sqlite3

import pytest

from interlock.stores.tx import Snapshot
from interlock.stores.workgraph import attention, members, snapshots
from interlock.stores.workgraph.attention import FIRST, Filter, Wanted
from interlock.stores.workgraph.scope import Scope

from .costs import COUNTED, NOW, fill, steps, store

MANY = 5000
HOME = Scope("r", "n")


def put_items(conn: sqlite3.Connection, count: int) -> None:
    """Items of the scope, with the ids t1 and up."""
    columns = {row[1]: "'t' || n" for row in conn.execute("PRAGMA table_info(items)") if row[1] != "labels"}
    fill(conn, "items", count, **columns | {"n": "n", "realm_id": "'r'", "namespace": "'n'"})


def put_bindings(conn: sqlite3.Connection, count: int, name: str, status: str, **more: object) -> None:
    """Bindings of the scope, of the first item unless it is said otherwise, called `name` and a number."""
    columns = {
        **{"binding_id": f"'{name} ' || n", "realm_id": "'r'", "namespace": "'n'", "item": 1, "mode": "'pursue'"},
        **{"target_key": f"'owner:{name}:' || n", "delegated_authority": "'add_evidence'", "max_text_chars": 1},
        **{"include_parent_context": 1, "status": f"'{status}'", "revision": 1, "created_at": "n", "updated_at": "n"},
    }
    fill(conn, "attention", count, **columns | more)


def names(found: attention.Scanned) -> list[str]:
    """The ids on a page."""
    return [row.binding_id for row in found.bindings]


@pytest.mark.parametrize("mob_id", [None, "m"])
def test_members_of_a_status_are_found_without_a_look_at_the_others(mob_id: str | None) -> None:
    with store() as conn:
        about = {"source": "'registered'", "revision": 1, "registered_at": 1, "updated_at": 1}
        fill(conn, "members", MANY, mob_id="'m'", identity="'active ' || n", status="'active'", **about)
        fill(conn, "members", 2, mob_id="'m'", identity="'retired ' || n", status="'retired'", **about)
        found: list[members.Row] = []
        cost = steps(conn, lambda snap: found.extend(members.page(snap, mob_id, "retired", ("", ""), 100)))
    assert [row.identity for row in found] == ["retired 1", "retired 2"]
    assert cost < 10


def test_an_edge_of_a_snapshot_costs_less_than_a_whole_item() -> None:
    with store() as conn:
        fill(conn, "edges", MANY, from_item=1, kind="'related'", to_item="n", created_at=1)
        put_items(conn, MANY)
        assert len(conn.execute(snapshots.OUT_OF, (1,)).fetchall()) == MANY
        cost = steps(conn, lambda snap: snap.execute(snapshots.OUT_OF, (1,)).fetchall())
    assert cost * COUNTED < MANY * 15


@pytest.mark.parametrize("status", ["active", "stopped", "superseded"])
def test_bindings_of_a_status_are_found_without_a_look_at_the_others(status: Wanted) -> None:
    with store() as conn:
        put_items(conn, 1)
        put_bindings(conn, MANY, "untimed", "paused")
        put_bindings(conn, MANY, "timed", "paused", paused_until=NOW + 1)
        put_bindings(conn, 2, "found", status)
        found = attention.Scanned([], FIRST)

        def read(snap: Snapshot) -> None:
            nonlocal found
            found = attention.page(snap, HOME, Filter(status), FIRST, 100)

        cost = steps(conn, read)
    assert (names(found), found.next_key) == (["found 1", "found 2"], None)
    assert cost < 10


def test_a_pause_that_is_over_stands_among_the_active_ones_in_its_place() -> None:
    with store() as conn:
        put_items(conn, 1)
        put_bindings(conn, 3, "active", "active", updated_at="n * 10")
        put_bindings(conn, 3, "over", "paused", updated_at="n * 10 + 5", paused_until=f"{NOW} + n - 2")
        put_bindings(conn, 3, "paused", "paused")
        put_bindings(conn, 1, "away", "paused", realm_id="'elsewhere'", paused_until=1)
        snap = Snapshot(conn.execute, NOW)
        whole = attention.page(snap, HOME, Filter("active"), FIRST, 100)
        assert names(whole) == ["active 1", "over 1", "active 2", "over 2", "active 3"]
        first = attention.page(snap, HOME, Filter("active"), FIRST, 2)
        assert first.next_key == attention.key_of(first.bindings[-1])
        rest = attention.page(snap, HOME, Filter("active"), first.next_key, 100)
        assert names(first) + names(rest) == names(whole)
        assert names(attention.page(snap, HOME, Filter("paused"), FIRST, 100)) == [
            "paused 1", "paused 2", "paused 3", "over 3"]  # fmt: skip


@pytest.mark.parametrize("wanted", [Filter("stopped", "owner:last:1", "t1"), Filter("stopped", None, "t1")])
def test_a_page_of_a_long_history_looks_at_10000_rows_and_says_that_there_is_more(wanted: Filter) -> None:
    with store() as conn:
        put_items(conn, 1)
        put_bindings(conn, 25_000, "old", "superseded")
        put_bindings(conn, 1, "last", "stopped", updated_at=25_000)
        snap = Snapshot(conn.execute, NOW)
        keys, key = [], FIRST
        while True:
            found = attention.page(snap, HOME, wanted, key, 100)
            if found.next_key is None:
                break
            assert found.bindings == []
            key = found.next_key
            keys.append(key[0])
    assert (names(found), keys) == (["last 1"], [10_000, 20_000])
