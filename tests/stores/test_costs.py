"""A page costs what it returns, however much else there is."""

from __future__ import annotations

import pytest

from interlock.stores.workgraph import members

from .costs import fill, steps, store

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
