"""The work graph under the names of MobKit: params, shapes, claims without fences, through the wire (contract 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.protocol import mobkit
from interlock.stores import feed
from interlock.stores.workgraph import attending
from tests.harness import Client, served, spawned

BREAK_GLASS = "attention/break_glass_reassign"
ADA = {"kind": "agent", "id": "ada"}
CREW = {"mob_config": '[mob]\nid = "crew"\n'}


def alias(name: str) -> str:
    """The alias of `workgraph/<name>`."""
    return f"mobkit/workgraph/{name}"


async def made(client: Client, title: str = "x", /, **params: Any) -> dict[str, Any]:
    """A new item, by MobKit's name."""
    item: dict[str, Any] = (await client.call(alias("create"), title=title, **params))["item"]
    return item


def at(record: dict[str, Any]) -> dict[str, Any]:
    """What names a record and its revision in params."""
    name = "binding_id" if "binding_id" in record else "id"
    return {name: record[name], "expected_revision": record["revision"]}


@pytest.mark.parametrize("name", mobkit.NAMES)
async def test_every_name_is_dispatched_and_judges_its_params(tmp_path: Path, name: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused(alias(name), realm_id="default")
        assert (refused.number, refused.code, refused.data["path"]) == (-32602, "invalid_params", "/realm_id")
        assert refused.message == f"Invalid params: {refused.data['detail']}"


async def test_names_are_told_by_capabilities_and_kept_out_of_catalogue_and_batch(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        told = (await client.call("mobkit/capabilities"))["methods"]
        carriers = [f"mobkit/{name}" for name in ("init", "shutdown", "status", "capabilities")]
        assert told == sorted([*map(alias, mobkit.NAMES), *carriers])
        described = (await client.call("daemon/discover"))["methods"]
        assert [method["name"] for method in described if method["name"].startswith("mobkit/")] == []
        step = {"method": alias("create"), "params": {"title": "x"}}
        refused = await client.refused("daemon/batch", steps=[step])
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/steps/0/method")


async def test_breaking_glass_is_for_the_socket(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True) as process:
        client, other = process.stdio(), await process.client()
        refused = await client.refused(alias(BREAK_GLASS), binding_id="attention_1")
        assert (refused.number, refused.message[:16]) == (-32601, "Method not found")
        assert alias(BREAK_GLASS) not in (await client.call("mobkit/capabilities"))["methods"]
        assert alias(BREAK_GLASS) in (await other.call("mobkit/capabilities"))["methods"]
        assert (await other.refused(alias(BREAK_GLASS))).number == -32602
        await other.close()
        await client.close()


async def test_null_is_absent_and_unknown_is_ignored(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await made(
            client, description="d", priority=None, due_at=None, labels=None, realm_id=None, namespace="default", x=1
        )
        assert (item["priority"], item["description"], "labels" in item) == ("medium", "d", False)
        kept = await client.call(alias("update"), **at(item), title="y", description=None, labels=None, all=True)
        assert (kept["item"]["title"], kept["item"]["description"]) == ("y", "d")
        listed = await client.call(alias("list"), namespace=None, all_namespaces=False, statuses=None, after=1)
        assert [one["id"] for one in listed["items"]] == [item["id"]]


@pytest.mark.parametrize(
    "params", [{"namespace": "other"}, {"all_namespaces": True}, {"principal": "p"}, {"authority_projection": {}}]
)
async def test_what_would_reach_further_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused(alias("list"), **params)
        assert (refused.number, "kind" in refused.data) == (-32602, False)


async def test_the_realm_is_the_mob_that_this_connection_was_greeted_with(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        assert (await made(client))["realm_id"] == "default"
        await client.call("mobkit/init", **CREW)
        item = await made(client)
        assert (item["realm_id"], item["namespace"]) == ("mob.crew", "default")
        assert (await client.call(alias("snapshot")))["realm_id"] == "mob.crew"
        missing = await other.refused(alias("get"), id=item["id"])
        assert (missing.number, missing.data["kind"]) == (-32000, "workgraph_error")
        assert (await other.call("workgraph/get", id=item["id"], realm_id="mob.crew"))["item"]["id"] == item["id"]
        await client.call("mobkit/init")
        assert (await made(client))["realm_id"] == "default"


async def test_an_identity_is_of_the_mob_of_the_realm(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await client.call("mobkit/init", **CREW)
        target = {"kind": "identity", "identity": "ada"}
        goal = await client.call(alias("goal/create"), title="x", target=target)
        lowered = {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "mob/crew/agent/ada"}}
        assert goal["attention"]["target"] == lowered
        foreign = {"kind": "owner", "owner_key": {"kind": "agent", "id": "mob/other/agent/ada"}}
        refused = await client.refused(alias("goal/create"), title="x", target=foreign)
        assert (refused.number, refused.data["kind"]) == (-32602, "attention_target_realm_mismatch")
        assert refused.data["required_realm_id"] == "mob.other"


async def test_an_item_is_ours_with_its_machine_state(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await made(client, labels=["a"], external_refs=[{"kind": "k", "id": "1", "url": None}])
        native = (await client.call("workgraph/get", id=item["id"]))["item"]
        state = item.pop("machine_state")
        assert item == native
        assert (state["lifecycle_phase"], state["revision"], state["claim_owner_key"]) == ("open", 1, None)


async def test_a_claim_without_a_lease_never_expires_and_needs_no_fence_under_these_names(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await made(client)
        claimed = await client.call(alias("claim"), **at(item), owner=ADA)
        assert "lease_expires_at" not in claimed["item"]["claim"]
        assert claimed["item"]["machine_state"]["claim_owner_key"] == ADA
        assert claimed["fence"] == claimed["item"]["claim"]["fence"]
        needed = await client.refused("workgraph/update", **at(claimed["item"]), title="y")
        assert needed.code == "fence_required"
        wrong = await client.refused(alias("update"), **at(claimed["item"]), title="y", fence=99)
        assert (wrong.number, wrong.code, wrong.data["kind"]) == (-32042, "stale_lease", "workgraph_conflict")
        updated = (await client.call(alias("update"), **at(claimed["item"]), title="y"))["item"]
        proved = (await client.call(alias("evidence/add"), **at(updated), evidence={"kind": "note", "id": "1"}))["item"]
        released = (await client.call(alias("release"), **at(proved)))["item"]
        assert (released["status"], "claim" in released) == ("open", False)


async def test_a_claim_of_ours_is_touched_with_its_fence_only(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await made(client)
        claimed = await client.call("workgraph/claim", **at(item), owner=ADA)
        for name in ("update", "release", "block", "close"):
            refused = await client.refused(alias(name), **at(claimed["item"]))
            assert (refused.number, refused.code, refused.data["kind"]) == (
                -32042,
                "fence_required",
                "workgraph_conflict",
            )
        assert (await client.call(alias("close"), **at(claimed["item"]), fence=claimed["fence"]))["item"][
            "status"
        ] == "completed"


async def test_a_lease_that_is_asked_for_is_given(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await made(client)
        claimed = await client.call(alias("claim"), **at(item), owner={"key": ADA}, lease_seconds=60)
        assert claimed["item"]["claim"]["lease_expires_at"] is not None
        refused = await client.refused(alias("claim"), **at(await made(client)), owner=ADA, lease_seconds=-1)
        assert (refused.number, refused.code) == (-32602, "limit_out_of_range")


async def test_closing_does_not_ask_for_children_and_blockers_unless_told_to(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent, child = await made(client, "parent"), await made(client, "child")
        await client.call(alias("link"), kind="parent", from_id=child["id"], to_id=parent["id"])
        refused = await client.refused(alias("close"), **at(parent), even_if_incomplete=False)
        assert (refused.number, refused.data["reason"]) == (-32000, "incomplete")
        assert (await client.call(alias("close"), **at(parent)))["item"]["status"] == "completed"
        target = {"kind": "identity", "identity": "ada"}
        goal = await client.call(alias("goal/create"), title="goal", target=target)
        await client.call(alias("link"), kind="blocks", from_id=child["id"], to_id=goal["item"]["id"])
        binding_id, revision = goal["attention"]["binding_id"], goal["item"]["revision"]
        closed = await client.call(alias("goal/request_close"), binding_id=binding_id, expected_revision=revision)
        assert (closed["item"]["status"], closed["attention"]["status"]) == ("completed", {"state": "stopped"})


async def test_a_parent_that_a_claim_settles_is_answered_as_the_item(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        parent = await made(client, "parent", failed_child_join_policy="propagate")
        child = await made(client, "child")
        await client.call(alias("link"), kind="parent", from_id=child["id"], to_id=parent["id"])
        await client.call(alias("close"), **at(child), status="failed")
        settled = await client.call(alias("claim"), **at(parent), owner=ADA)
        assert set(settled) == {"item"}
        assert settled["item"]["machine_state"]["lifecycle_phase"] == "failed"


async def test_pruning_goes_on_until_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "PRUNE_ROWS", 2)
    async with served(tmp_path) as daemon, daemon.client() as client:
        for n in range(5):
            target = {"kind": "owner", "owner_key": {"kind": "label", "id": f"l{n}"}}
            goal = await client.call(alias("goal/create"), title="x", target=target)
            await client.call(alias("close"), **at(goal["item"]))
        assert await client.call("workgraph/attention/prune", updated_before="2020-01-01T00:00:00Z") == {
            "pruned": 0,
            "has_more": False,
        }
        assert await client.call(alias("attention/prune")) == {"pruned": 5, "has_more": False}
        assert await client.call(alias("attention/prune")) == {"pruned": 0, "has_more": False}


async def test_events_are_told_in_mobkits_words(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first, second = await made(client, "a"), await made(client, "b")
        await client.call(alias("link"), kind="blocks", from_id=first["id"], to_id=second["id"])
        claimed = await client.call(alias("claim"), **at(first), owner=ADA)
        await client.call(alias("close"), **at(claimed["item"]))
        found = (await client.call(alias("events"), after_seq=0))["events"]
        told = [(event["kind"], event.get("item_id")) for event in found]
        assert told == [
            ("created", first["id"]),
            ("readiness_observed", first["id"]),
            ("created", second["id"]),
            ("readiness_observed", second["id"]),
            ("linked", None),
            ("claimed", first["id"]),
            ("closed", first["id"]),
            ("readiness_observed", second["id"]),
        ]
        assert found[-1]["facts"][0]["kind"] == "item_ready"
        assert found[0]["payload"]["title"] == "a"
        rest = await client.call(alias("events"), after_seq=found[-2]["seq"])
        assert [event["seq"] for event in rest["events"]] == [found[-1]["seq"]]


async def test_a_page_of_events_is_empty_only_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed.events_since, "__defaults__", (3,))
    async with served(tmp_path) as daemon, daemon.client() as client:
        for n in range(10):
            await client.call("ledger/role/upsert", name=f"role-{n}")
        item = await made(client)
        assert (await client.call("workgraph/events"))["events"] == []
        found = await client.call(alias("events"), limit=1)
        assert [event["item_id"] for event in found["events"]] == [item["id"]]


async def test_an_op_id_is_the_same_operation_under_both_names(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await client.call("workgraph/create", title="x", op_id="op-1")
        again = await client.call(alias("create"), title="x", op_id="op-1", namespace="default", unknown=1)
        assert (again["item"]["id"], again["replayed"]) == (first["item"]["id"], True)
        other = await client.refused(alias("create"), title="y", op_id="op-1")
        assert (other.number, other.code, other.data["kind"]) == (-32042, "op_conflict", "workgraph_conflict")


async def test_a_snapshot_has_everything_with_its_state(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        target = {"kind": "identity", "identity": "ada"}
        goal = await client.call(alias("goal/create"), title="x", target=target)
        free = await made(client)
        await client.call(alias("link"), kind="blocks", from_id=free["id"], to_id=goal["item"]["id"])
        snapshot = await client.call(alias("snapshot"), all_namespaces=False)
        assert [len(snapshot[name]) for name in ("items", "edges", "attention")] == [2, 1, 1]
        assert snapshot["ready_item_ids"] == [free["id"]]
        assert all("machine_state" in one for one in snapshot["items"] + snapshot["attention"])
        listed = await client.call(alias("attention/list"), status="active", target=target)
        assert [one["binding_id"] for one in listed["attention"]] == [goal["attention"]["binding_id"]]
        status = await client.call(alias("goal/status"), binding_id=goal["attention"]["binding_id"])
        assert status["attention"] == goal["attention"]
        blocked = await client.call(alias("block"), **at(free))
        assert blocked["item"]["machine_state"]["lifecycle_phase"] == "blocked"
