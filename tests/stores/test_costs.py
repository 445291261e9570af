"""A page costs what it returns, however much else there is."""

from __future__ import annotations

import pytest

from interlock.stores.workgraph import members, snapshots

from .costs import COUNTED, fill, steps, store

MANY = 5000


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
        columns = {row[1]: "'t' || n" for row in conn.execute("PRAGMA table_info(items)") if row[1] != "labels"}
        fill(conn, "items", MANY, **columns | {"n": "n"})
        assert len(conn.execute(snapshots.OUT_OF, (1,)).fetchall()) == MANY
        cost = steps(conn, lambda snap: snap.execute(snapshots.OUT_OF, (1,)).fetchall())
    assert cost * COUNTED < MANY * 15
