"""Edges: what they join, what they refuse, and what they do to both ends (contract workgraph 1, 4, 6, 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, served
from tests.ledger.common import head

from .common import at, claim, close, create, get, link, owner, ready_ids, since, sql, told

KINDS: Final = ("blocks", "parent", "related", "supersedes", "derived_from")
NOTES: Final = KINDS[2:]
JOINS: Final = """
children          | RR RP RA PR PP PA AR AP AA
none              | s  s  s  s  s  s  s  s  s
completed         | s  s  s  s  s  s  s  s  s
active            | w  w  w  w  w  w  w  w  w
active,failed     | w  w  w  w  w  w  w  w  w
active,cancelled  | w  w  w  w  w  w  w  w  w
active,completed  | w  w  w  w  w  w  w  w  w
failed            | w  w  w  f  f  f  s  s  s
cancelled         | w  c  s  w  c  s  w  c  s
failed,cancelled  | w  c  w  f  f  f  w  c  s
failed,completed  | w  w  w  f  f  f  s  s  s
active,failed,cancelled | w w w w w w w w w
"""
"""How a parent stands, by its children and by its policies: of failed, then of cancelled ones."""
POLICIES: Final = {"R": "require_success", "P": "propagate", "A": "accept"}
STANDS: Final = {"s": "satisfied", "w": "waiting", "f": "propagate_failure", "c": "propagate_cancellation"}


def ends(kind: str, source: dict[str, Any], to: dict[str, Any]) -> dict[str, Any]:
    """The params that name an edge."""
    return {"kind": kind, "from_id": source["id"], "to_id": to["id"]}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_edge_is_answered_told_and_removed_as_it_was(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client), await create(client)
        before = await head(client)
        edge = await link(client, kind, a, b)
        failure = {"on_failure": "block"} if kind == "blocks" else {}
        scope = {"realm_id": "default", "namespace": "default"}
        assert edge == {**scope, **ends(kind, a, b), **failure, "created_at": edge["created_at"]}
        assert await since(client, before) == [("linked", b["id"], {"edge": edge})]
        removed = await client.call("workgraph/unlink", **ends(kind, a, b))
        assert removed == {"edge": edge}
        events = [event for event in await since(client, before) if event[0] != "item_ready"]
        assert events[1:] == [("unlinked", b["id"], {"edge": edge})]
        gone = await client.refused("workgraph/unlink", **ends(kind, a, b))
        assert (gone.code, gone.data["kind"]) == ("not_found", "edge")
        assert [await get(client, one["id"]) for one in (a, b)] == [a, b]


async def test_annotations_have_no_effect_and_may_go_in_circles(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b, c = [await create(client) for _ in range(3)]
        for kind in NOTES:
            for source, to in ((a, b), (b, c), (c, a), (b, a)):
                await link(client, kind, source, to)
        await link(client, "blocks", a, b)
        await client.call("workgraph/unlink", **ends("blocks", a, b))
        assert [await get(client, one["id"]) for one in (a, b, c)] == [a, b, c]
        assert sorted(await ready_ids(client)) == sorted([a["id"], b["id"], c["id"]])


async def test_between_two_items_every_kind_is_an_edge_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client), await create(client)
        for kind in KINDS:
            await link(client, kind, a, b)
        for kind in KINDS:
            refused = await client.refused("workgraph/link", **ends(kind, a, b))
            assert (refused.number, refused.code) == (-32002, "duplicate")
        now = await get(client, b["id"])
        assert (now["unresolved_blockers"], now["children"]["active"]) == (1, 1)
        assert await get(client, a["id"]) == a
        assert len((await client.call("workgraph/snapshot"))["edges"]) == len(KINDS)


async def test_only_a_blocker_lets_go(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client), await create(client)
        for kind in KINDS[1:]:
            for word in ("block", "release"):
                refused = await client.refused("workgraph/link", **ends(kind, a, b), on_failure=word)
                assert (refused.code, refused.data["path"]) == ("invalid_params", "/on_failure")
        for call in ({**ends("blocks", a, b), "on_failure": "wait"}, ends("follows", a, b)):
            assert (await client.refused("workgraph/link", **call)).code == "invalid_params"


async def test_a_failed_blocker_is_waived_and_taken_back(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client), await create(client)
        edge = await link(client, "blocks", a, b)
        await close(client, a, "failed")
        assert (await get(client, b["id"]))["unresolved_blockers"] == 1
        before = await head(client)
        waived = await link(client, "blocks", a, b, on_failure="release")
        assert waived == {**edge, "on_failure": "release"}
        assert await since(client, before) == [
            ("edge_changed", b["id"], {"edge": waived}),
            ("item_ready", b["id"], {"revision": 1, "cause": "waived", "by": a["id"]}),
        ]
        assert await get(client, b["id"]) == b
        same = await client.refused("workgraph/link", **ends("blocks", a, b), on_failure="release")
        assert same.code == "duplicate"
        before = await head(client)
        assert await link(client, "blocks", a, b) == edge
        assert await since(client, before) == [("edge_changed", b["id"], {"edge": edge})]
        assert (await get(client, b["id"]))["unresolved_blockers"] == 1
        assert await ready_ids(client) == []
        removed = (await client.call("workgraph/unlink", **ends("blocks", a, b)))["edge"]
        assert removed == edge
        assert (await told(client, b["id"], "item_ready"))[-1]["data"] == {
            "revision": 1, "cause": "unlinked", "by": a["id"]}  # fmt: skip


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed"])
@pytest.mark.parametrize("on_failure", ["block", "release"])
async def test_a_blocker_counts_until_it_lets_go_whether_it_ended_before_or_after(
    tmp_path: Path, status: str, on_failure: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        counts = int(status != "completed" and on_failure == "block")
        a, b, c = [await create(client) for _ in range(3)]
        await link(client, "blocks", a, b, on_failure=on_failure)
        assert (await get(client, b["id"]))["unresolved_blockers"] == 1
        await close(client, a, status)
        assert (await get(client, b["id"]))["unresolved_blockers"] == counts
        await link(client, "blocks", a, c, on_failure=on_failure)
        assert (await get(client, c["id"]))["unresolved_blockers"] == counts
        ready = [] if counts else [b["id"], c["id"]]
        assert await ready_ids(client) == ready
        told_ready = [event["data"]["cause"] for event in await told(client, c["id"], "item_ready")]
        assert told_ready == ["created"], "it never was anything but ready, or is not ready any more"


async def test_an_end_that_is_not_there_is_said_before_anything_else(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        none = {"id": "work_none"}
        for source, to in ((none, item), (item, none), (none, none)):
            for kind in KINDS:
                refused = await client.refused("workgraph/link", **ends(kind, source, to))
                assert (refused.code, refused.data["kind"], refused.data["id"]) == ("not_found", "item", "work_none")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_item_is_not_linked_to_itself(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        before = await head(client)
        refused = await client.refused("workgraph/link", **ends(kind, item, item))
        assert (refused.code, refused.data["reason"]) == ("invalid_transition", "self_edge")
        assert await head(client) == before


@pytest.mark.parametrize("back", ["blocks", "parent"])
@pytest.mark.parametrize("there", ["blocks", "parent"])
async def test_blockers_and_children_together_never_go_in_circles(tmp_path: Path, there: str, back: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b, c, d = [await create(client) for _ in range(4)]
        await link(client, there, a, b)
        before = await head(client)
        refused = await client.refused("workgraph/link", **ends(back, b, a))
        assert (refused.code, refused.data["reason"]) == ("invalid_transition", "cycle")
        assert sorted(refused.data["cycle"]) == sorted([a["id"], b["id"]])
        await link(client, back, b, c)
        await link(client, there, c, d)
        refused = await client.refused("workgraph/link", **ends(there, d, a))
        assert refused.data["cycle"] == [one["id"] for one in (a, b, c, d)]
        assert [event[0] for event in await since(client, before)] == ["linked", "linked"]
        await client.call("workgraph/unlink", **ends(back, b, c))
        await link(client, there, d, a)


async def test_a_parent_cannot_block_its_own_descendant_but_a_descendant_may_block_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        grand, parent, child = [await create(client) for _ in range(3)]
        await link(client, "parent", child, parent)
        await link(client, "parent", parent, grand)
        for source in (grand, parent):
            refused = await client.refused("workgraph/link", **ends("blocks", source, child))
            assert refused.data["reason"] == "cycle"
        await link(client, "blocks", child, grand)
        assert await ready_ids(client) == [child["id"]]


async def test_a_circle_through_ended_items_is_one_too(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client), await create(client)
        await link(client, "blocks", a, b)
        await close(client, a)
        await close(client, b)
        assert (await client.refused("workgraph/link", **ends("parent", b, a))).data["reason"] == "cycle"


async def test_a_long_circle_is_refused_in_a_short_message(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await create(client)
        for _ in range(5):
            await client.call("daemon/batch", steps=[{"method": "workgraph/create", "params": {"title": "t"}}] * 64)
        last = await create(client)
        edge = (
            "INSERT INTO edges(from_item, kind, to_item, on_failure, created_at) SELECT n, 'blocks', n + 1, 'block', 1"
        )
        assert sql(daemon.state_dir, f"{edge} FROM items WHERE n < 322") == 321
        refused = await client.refused("workgraph/link", **ends("parent", last, first))
        cycle = refused.data["cycle"]
        assert (refused.data["reason"], len(cycle), cycle[0], cycle[-1]) == ("cycle", 322, first["id"], last["id"])
        assert len(refused.message) < 300
        assert all(word in refused.message for word in (first["id"], last["id"], "322"))


async def test_a_walk_of_more_than_50000_edges_is_too_much(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        start, goal, last = [await create(client) for _ in range(3)]
        for _ in range(11):
            await client.call("daemon/batch", steps=[{"method": "workgraph/create", "params": {"title": "t"}}] * 64)
        edge = "INSERT INTO edges(from_item, kind, to_item, on_failure, created_at) SELECT {}, 'blocks', {}, 'block', 1"
        # numbers: 1 start, 2 goal, 3 last; three layers of 230 items: two ahead of the start, one before the goal
        for ahead, behind, where in (
            ("1", "n", "n BETWEEN 4 AND 233"),
            ("n", "2", "n BETWEEN 464 AND 693"),
        ):
            assert sql(daemon.state_dir, f"{edge.format(ahead, behind)} FROM items WHERE {where}") == 230
        between = "FROM items AS a, items AS b WHERE a.n BETWEEN 4 AND 233 AND b.n BETWEEN 234 AND 463"
        assert sql(daemon.state_dir, f"{edge.format('a.n', 'b.n')} {between}") == 52_900
        refused = await client.refused("workgraph/link", **ends("parent", goal, start))
        assert (refused.code, refused.data["max"]) == ("too_large", 50_000)
        assert await link(client, "blocks", start, last), "a new item has no edges on one side, and costs nothing"
        assert await link(client, "blocks", last, goal)


async def test_edges_leave_a_holder_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, other = await create(client), await create(client)
        held = (await claim(client, item))["item"]
        for kind in KINDS:
            await link(client, kind, other, held)
        now = await get(client, item["id"])
        counted = {"unresolved_blockers": 1, "join_state": "waiting"}
        children = {"active": 1, "completed": 0, "failed": 0, "cancelled": 0}
        assert now == {**held, **counted, "children": children}
        refused = await client.refused("workgraph/close", **at(held), fence=1)
        assert refused.data["reason"] == "incomplete"
        back = (await client.call("workgraph/release", id=item["id"], fence=1))["item"]
        refused = await client.refused("workgraph/claim", **at(back), owner=owner("a"))
        assert refused.data["reason"] == "waiting_children"


async def ended(client: Client) -> dict[str, dict[str, Any]]:
    """One child of each kind that counts: it may have many parents."""
    made = {"active": await create(client)}
    for status in ("completed", "failed", "cancelled"):
        made[status] = await close(client, await create(client), status)
    return made


async def test_the_join_follows_from_the_children_and_both_policies(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        children = await ended(client)
        header, *lines = [line.split() for line in JOINS.replace("|", "").strip().splitlines()]
        checked = 0
        for which, *cells in lines:
            names = [] if which == "none" else which.split(",")
            for pair, cell in zip(header[1:], cells, strict=True):
                parent = await create(
                    client,
                    failed_child_join_policy=POLICIES[pair[0]],
                    cancelled_child_join_policy=POLICIES[pair[1]],
                )
                for name in names:
                    await link(client, "parent", children[name], parent)
                now = await get(client, parent["id"])
                assert now["join_state"] == STANDS[cell], (which, pair)
                counts = {name: int(name in names) for name in ("active", "completed", "failed", "cancelled")}
                assert now.get("children") == (counts if names else None)
                assert (await client.call("workgraph/explain", id=parent["id"]))["ready"] == (cell == "s")
                checked += 1
        assert checked == 11 * 9


async def test_other_join_policies_are_judged_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        children = await ended(client)
        parent = await create(client)
        await link(client, "parent", children["failed"], parent)
        await link(client, "parent", children["cancelled"], parent)
        seen = []
        before = await head(client)
        for failed, cancelled in (("P", "R"), ("A", "P"), ("A", "A"), ("R", "A"), ("A", "A")):
            policies = {
                "failed_child_join_policy": POLICIES[failed],
                "cancelled_child_join_policy": POLICIES[cancelled],
            }
            parent = (await client.call("workgraph/update", **at(parent), **policies))["item"]
            seen.append(parent["join_state"])
        assert seen == ["propagate_failure", "propagate_cancellation", "satisfied", "waiting", "satisfied"]
        ready = [data for kind, _, data in await since(client, before) if kind == "item_ready"]
        assert ready == [{"revision": revision, "cause": "updated"} for revision in (4, 6)]
