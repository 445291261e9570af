"""Why an item is not ready, in full and in order, and what would change that (contract workgraph 1, Explanation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from interlock.lifecycle.times import parse_rfc3339
from tests.harness import Client, served
from tests.ledger.common import head, now_of

from .common import at, claim, close, create, elapse, get, in_ms, link, owner, ready_ids, sql, stop_sweeper, target

FAR, FARTHER = "2998-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
SELF: Final = {"kind": "self_attest"}
ZERO: Final = {"unresolved_blockers": 0, "children_active": 0, "children_failed": 0, "children_cancelled": 0}


async def explain(client: Client, item: dict[str, Any]) -> dict[str, Any]:
    """The explanation, of which the verdict agrees with `ready`, `claim` and its own waits."""
    found: dict[str, Any] = await client.call("workgraph/explain", id=item["id"])
    assert found["ready"] == (found["waits"] == [])
    assert found["ready"] == (item["id"] in await ready_ids(client))
    for wait in found["waits"]:
        assert wait["text"].strip()
        assert wait["remedy"].strip()
    return found


def bare(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The waits without their prose."""
    return [{name: value for name, value in wait.items() if name not in ("text", "remedy")} for wait in found["waits"]]


async def test_a_ready_item_waits_for_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        before = await now_of(client)
        found = await explain(client, item)
        assert before <= parse_rfc3339(found.pop("judged_at")) <= await now_of(client)
        assert found == {
            **{"item_id": item["id"], "status": "open", "revision": 1, "as_of_seq": await head(client), "ready": True},
            **{"waits": [], "totals": ZERO, "completion": {"satisfied": True, "policy": SELF}, "attention": []},
        }
        assert (await client.refused("workgraph/explain", id="none")).code == "not_found"


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed"])
async def test_what_has_ended_waits_for_nothing_else(tmp_path: Path, status: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, not_before=FAR, due_at=FARTHER)
        await link(client, "blocks", await create(client), item)
        end = await close(client, item, status, even_if_incomplete=True)
        found = await explain(client, item)
        assert bare(found) == [{"kind": "terminal", "status": status, "terminal_at": end["terminal_at"]}]
        assert found["completion"]["satisfied"] is False
        assert status in found["completion"]["missing"]
        assert found["totals"]["unresolved_blockers"] == 1
        assert "next_change_at" not in found


async def test_a_blocked_item_says_its_note(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        blocked = (await client.call("workgraph/block", **at(item), note="no key"))["item"]
        found = await explain(client, item)
        assert bare(found) == [{"kind": "blocked", "note": "no key"}]
        assert "unblock" in found["waits"][0]["remedy"]
        await client.call("workgraph/block", **at(blocked))
        assert bare(await explain(client, item)) == [{"kind": "blocked"}]


async def test_a_held_item_says_by_whom_until_when_and_by_which_fence(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = (await claim(client, await create(client)))["item"]
        until = item["claim"]["lease_expires_at"]
        found = await explain(client, item)
        assert bare(found) == [{"kind": "claimed", "owner": owner("a"), "fence": 1, "lease_expires_at": until}]
        assert found["next_change_at"] == until
        await client.call("workgraph/renew", id=item["id"], fence=1, lease_seconds=0)
        found = await explain(client, item)
        assert bare(found) == [{"kind": "claimed", "owner": owner("a"), "fence": 1}]
        assert "next_change_at" not in found
        elapse(daemon.state_dir, item["id"])
        found = await explain(client, item)
        assert (found["status"], found["ready"], found["revision"]) == ("in_progress", True, 2)


async def test_blockers_are_named_with_those_that_are_stuck(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        expected = []
        for on_failure in ("block", "release"):
            for status in ("open", "in_progress", "blocked", "completed", "cancelled", "failed"):
                blocker = await create(client, f"{status} {on_failure}")
                await link(client, "blocks", blocker, item, on_failure=on_failure)
                if status == "in_progress":
                    await claim(client, blocker)
                elif status == "blocked":
                    await client.call("workgraph/block", **at(blocker))
                elif status != "open":
                    await close(client, blocker, status)
                stuck = status in ("cancelled", "failed")
                if status != "completed" and not (stuck and on_failure == "release"):
                    expected.append({"kind": "blocker", "item_id": blocker["id"], "title": blocker["title"],
                                     "status": status, "on_failure": on_failure, "stuck": stuck})  # fmt: skip
        found = await explain(client, item)
        assert bare(found) == expected
        assert found["totals"] == {**ZERO, "unresolved_blockers": len(expected)}
        assert found["completion"]["satisfied"] is False
        for wait in found["waits"]:
            assert ("workgraph/unlink" in wait["remedy"]) == wait["stuck"]


@pytest.mark.parametrize(
    ("failed", "cancelled", "shown"),
    [
        ("require_success", "require_success", ["failed", "cancelled"]),
        ("require_success", "accept", ["failed"]),
        ("accept", "require_success", ["cancelled"]),
        ("accept", "accept", []),
    ],
)
async def test_children_are_named_that_are_active_or_hold_the_join(
    tmp_path: Path, failed: str, cancelled: str, shown: list[str]
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, failed_child_join_policy=failed, cancelled_child_join_policy=cancelled)
        children = {
            name: await create(client, name) for name in ("completed", "failed", "cancelled", "open", "blocked")
        }
        for child in children.values():
            await link(client, "parent", child, item)
        for status in ("completed", "failed", "cancelled"):
            await close(client, children[status], status)
        await client.call("workgraph/block", **at(children["blocked"]))
        for active in (["open", "blocked"], []):
            expected = [
                {"kind": "child", "item_id": children[name]["id"], "title": name, "status": name}
                for name in [*shown, *active]
            ]
            found = await explain(client, item)
            assert bare(found) == expected
            counts = {"children_active": len(active), "children_failed": 1, "children_cancelled": 1}
            assert found["totals"] == {**ZERO, **counts}
            assert found["completion"]["satisfied"] is not bool(active)
            for name in active:
                await close(client, children[name])


async def test_a_parent_that_a_claim_would_close_says_how(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for status in ("failed", "cancelled"):
            item = await create(client, **{f"{status}_child_join_policy": "propagate"})
            child = await create(client)
            await link(client, "parent", child, item)
            await close(client, child, status)
            found = await explain(client, item)
            assert bare(found) == [{"kind": "settles", "status": status}]
            assert "workgraph/claim" in found["waits"][0]["remedy"]


async def test_gates_are_named_while_they_are_shut(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, not_before=FARTHER, snoozed_until=FAR)
        found = await explain(client, item)
        gates = [{"kind": "gate", "field": "not_before", "until": FARTHER},
                 {"kind": "gate", "field": "snoozed_until", "until": FAR}]  # fmt: skip
        assert bare(found) == gates
        item = (await client.call("workgraph/update", **at(item), not_before="2001-01-01T00:00:00Z"))["item"]
        found = await explain(client, item)
        assert (bare(found), found["next_change_at"]) == (gates[1:], FAR)
        assert "snoozed_until" in found["waits"][0]["remedy"]
        await client.call("workgraph/update", **at(item), snoozed_until=None)
        assert (await explain(client, item))["ready"] is True


async def test_a_gate_that_has_opened_is_no_wait_before_anyone_noticed(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client, not_before=FAR)
        sql(daemon.state_dir, "UPDATE items SET not_before = 1, gate_at = 1")
        assert (await explain(client, item))["ready"] is True


async def test_everything_at_once_is_said_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for state in ("blocked", "claimed"):
            item, blocker, child = await create(client), await create(client), await create(client)
            gates = {"not_before": FAR, "snoozed_until": FARTHER}
            if state == "blocked":
                item = (await client.call("workgraph/block", **at(item)))["item"]
            else:
                item = (await claim(client, item))["item"]
            item = (await client.call("workgraph/update", **at(item), **gates, reason="r"))["item"]
            await link(client, "blocks", blocker, item)
            await link(client, "parent", child, item)
            found = await explain(client, item)
            assert [wait["kind"] for wait in found["waits"]] == [state, "blocker", "child", "gate", "gate"]


async def test_of_a_kind_50_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        made = [await create(client) for _ in range(52)]
        ends = {"to_id": item["id"]}
        for kind in ("blocks", "parent"):
            steps = [
                {"method": "workgraph/link", "params": {"kind": kind, "from_id": one["id"], **ends}} for one in made
            ]
            await client.call("daemon/batch", steps=steps)
        found = await explain(client, item)
        shown = [wait["item_id"] for wait in found["waits"] if wait["kind"] == "blocker"]
        assert shown == [one["id"] for one in made[:50]]
        assert [wait["kind"] for wait in found["waits"]] == ["blocker"] * 50 + ["child"] * 50
        assert found["totals"] == {**ZERO, "unresolved_blockers": 52, "children_active": 52}
        assert "52" in found["completion"]["missing"]


async def test_the_next_change_is_the_first_that_time_alone_brings(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        near = await in_ms(client, 3_600_000)
        past = "2001-01-01T00:00:00Z"
        for given, expected in (
            ({}, None),
            ({"due_at": FAR}, FAR),
            ({"due_at": past, "not_before": past, "snoozed_until": past}, None),
            ({"due_at": FAR, "not_before": FARTHER}, FAR),
            ({"due_at": FARTHER, "snoozed_until": FAR}, FAR),
            ({"due_at": FARTHER, "not_before": near}, near),
            ({"due_at": near, "not_before": past}, near),
        ):
            item = await create(client, **given)
            assert (await explain(client, item)).get("next_change_at") == expected, given
        held = (await claim(client, await create(client, due_at=FAR)))["item"]
        assert (await explain(client, held))["next_change_at"] == held["claim"]["lease_expires_at"]
        elapse(daemon.state_dir, held["id"])
        assert (await explain(client, held))["next_change_at"] == FAR


async def test_completion_says_what_the_policy_lacks(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("r1", "r2")) as daemon, daemon.client() as client:
        policy = {"kind": "reviewer_quorum", "threshold": 2}
        goal = await client.call("workgraph/goal/create", title="t", target=target("a"), completion_policy=policy)
        item, binding = goal["item"], goal["attention"]
        found = await explain(client, item)
        assert (found["completion"]["satisfied"], found["completion"]["policy"]) == (False, policy)
        assert "2 of 2" in found["completion"]["missing"]
        assert found["ready"] is True, "what completes an item does not keep it from being begun"
        seen = {"binding_id": binding["binding_id"], "status": {"state": "active"}, "target_key": binding["target_key"]}
        assert found["attention"] == [seen]
        confirm = {"binding_id": binding["binding_id"]}
        for role, missing in (("r1", True), ("r1", True), ("r2", False)):
            async with daemon.client(role=role) as reviewer:
                now = await get(client, item["id"])
                await reviewer.call("workgraph/goal/confirm", **confirm, expected_revision=now["revision"])
            found = await explain(client, item)
            assert found["completion"]["satisfied"] is not missing
            assert ("missing" in found["completion"]) is missing
        now = await get(client, item["id"])
        await client.call("workgraph/update", **at(now), description="other")
        assert (await explain(client, item))["completion"]["satisfied"] is False, "new content voids what was confirmed"


async def test_only_occupying_bindings_attend(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        made = [
            (await client.call("workgraph/goal/create", **{"item_id": item["id"], "expected_revision": 1},
                               target=target(name)))["attention"]
            for name in ("a", "b", "c")
        ]  # fmt: skip
        named = [{"binding_id": one["binding_id"], "expected_revision": 1} for one in made]
        await client.call("workgraph/attention/pause", **named[1], until=FAR)
        await client.call("workgraph/attention/stop", **named[2])
        found = await explain(client, item)
        assert [one["status"] for one in found["attention"]] == [{"state": "active"}, {"state": "paused", "until": FAR}]
        assert [one["target_key"] for one in found["attention"]] == ["owner:agent:a", "owner:agent:b"]
