"""A parent that its children have decided about is closed by who would take it (contract workgraph 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served
from tests.ledger.common import head

from .common import at, claim, close, create, elapse, get, link, owner, ready_ids, since, stop_sweeper, target, told


async def decided(client: Client, status: str = "failed", **more: Any) -> dict[str, Any]:
    """A parent whose child has ended so, and which goes the same way."""
    policies = {"failed_child_join_policy": "propagate", "cancelled_child_join_policy": "propagate"}
    parent, child = await create(client, **policies, **more), await create(client)
    await link(client, "parent", child, parent)
    await close(client, child, status)
    return await get(client, parent["id"])


@pytest.mark.parametrize(("status", "join"), [("failed", "propagate_failure"), ("cancelled", "propagate_cancellation")])
async def test_claiming_a_parent_that_its_children_have_decided_about_closes_it(
    tmp_path: Path, status: str, join: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent = await decided(client, status)
        assert (parent["status"], parent["join_state"]) == ("open", join)
        assert await ready_ids(client) == []
        dependent = await create(client)
        await link(client, "blocks", parent, dependent, on_failure="release")
        before = await head(client)
        result = await claim(client, parent, op_id="op")
        end = result["settled"]
        assert result == {"settled": end}
        assert (end["status"], end["revision"]) == (status, 2)
        assert await since(client, before) == [
            ("item_closed", parent["id"], {"revision": 2, "status": status, "cause": "child_join"}),
            ("item_ready", dependent["id"], {"revision": 1, "cause": "blocker_closed", "by": parent["id"]}),
        ]
        assert await claim(client, parent, op_id="op") == {**result, "replayed": True}


async def test_settling_asks_no_policy_and_stops_who_attended(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        goal = await client.call(
            "workgraph/goal/create",
            title="t",
            target=target("a"),
            completion_policy={"kind": "host_confirmed"},
            failed_child_join_policy="propagate",
        )
        child = await create(client)
        await link(client, "parent", child, goal["item"])
        await close(client, child, "failed")
        assert (await claim(client, goal["item"]))["settled"]["status"] == "failed"
        [event] = await told(client, goal["item"]["id"], "item_closed")
        assert event["data"]["stopped_bindings"] == [goal["attention"]["binding_id"]]


async def test_a_blocked_or_held_parent_is_not_settled(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent = await decided(client)
        parent = (await client.call("workgraph/block", **at(parent)))["item"]
        assert (await client.refused("workgraph/claim", **at(parent), owner=owner("a"))).data["reason"] == "blocked"
        held = (await claim(client, await create(client, failed_child_join_policy="propagate")))["item"]
        child = await create(client)
        await link(client, "parent", child, held)
        await close(client, child, "failed")
        assert (await client.refused("workgraph/claim", **at(held), owner=owner("a"))).code == "already_claimed"
        found = await client.call("workgraph/claim_next", owner=owner("a"))
        assert not {"item", "settled_ids"} & found.keys()


async def test_a_decided_parent_whose_lease_has_elapsed_is_settled_too(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        for method in ("claim", "claim_next"):
            held = (await claim(client, await create(client, failed_child_join_policy="propagate")))["item"]
            child = await create(client)
            await link(client, "parent", child, held)
            await close(client, child, "failed")
            elapse(daemon.state_dir, held["id"])
            before = await head(client)
            await client.call(f"workgraph/{method}", **(at(held) if method == "claim" else {}), owner=owner("b"))
            types = [kind for kind, _, _ in await since(client, before)]
            assert types == ["item_released", "item_closed", "namespace_terminal"], method
            assert (await get(client, held["id"]))["status"] == "failed"


async def test_taking_the_next_first_settles_the_oldest_16_of_its_labels(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parents = [(await decided(client, labels=["x"]))["id"] for _ in range(18)]
        other = await decided(client, labels=["y"])
        item = await create(client, labels=["x"])
        first = await client.call("workgraph/claim_next", owner=owner("a"), labels=["x"])
        assert (first["settled_ids"], first["item"]["id"]) == (parents[:16], item["id"])
        second = await client.call("workgraph/claim_next", owner=owner("a"), labels=["x"])
        assert second["settled_ids"] == parents[16:]
        assert "item" not in second
        third = await client.call("workgraph/claim_next", owner=owner("a"))
        assert third["settled_ids"] == [other["id"]]
        statuses = {(await get(client, one))["status"] for one in (*parents, other["id"])}
        assert statuses == {"failed"}


async def test_what_settling_makes_ready_is_taken_by_the_same_call(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent, item = await decided(client), await create(client)
        await link(client, "blocks", parent, item, on_failure="release")
        result = await client.call("workgraph/claim_next", owner=owner("a"))
        assert (result["settled_ids"], result["item"]["id"]) == ([parent["id"]], item["id"])


async def test_parents_that_block_each_other_are_settled_with_their_counters_right(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first, second, third = [await decided(client) for _ in range(3)]
        await link(client, "blocks", first, second, on_failure="release")
        await link(client, "blocks", second, third, on_failure="release")
        await link(client, "blocks", first, third)
        result = await client.call("workgraph/claim_next", owner=owner("a"))
        assert result["settled_ids"] == [first["id"], second["id"], third["id"]]
        ended = [await get(client, one["id"]) for one in (first, second, third)]
        assert [one["unresolved_blockers"] for one in ended] == [0, 0, 1]


async def test_a_grandparent_follows_at_the_next_call(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent = await decided(client)
        grand = await create(client, failed_child_join_policy="propagate")
        await link(client, "parent", parent, grand)
        settled = [(await client.call("workgraph/claim_next", owner=owner("a"))).get("settled_ids") for _ in range(3)]
        assert settled == [[parent["id"]], [grand["id"]], None]


async def test_nothing_else_settles(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent = await decided(client)
        for method in ("list", "ready", "snapshot"):
            await client.call(f"workgraph/{method}")
        await client.call("workgraph/explain", id=parent["id"])
        assert await get(client, parent["id"]) == parent
        kept = (await client.call("workgraph/update", **at(parent), failed_child_join_policy="accept"))["item"]
        assert kept["join_state"] == "satisfied"
        assert (await told(client, parent["id"], "item_ready"))[-1]["data"]["cause"] == "updated"
        assert (await client.call("workgraph/claim_next", owner=owner("a")))["item"]["id"] == parent["id"]
