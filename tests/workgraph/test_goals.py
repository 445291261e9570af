"""A goal is an item and who attends to it, made in one step (contract workgraph 7, 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from interlock.protocol.workgraph_items import ItemFields
from tests.harness import served
from tests.ledger.common import head

from .common import claim, create, elapse, get, stop_sweeper, target
from .goals import bound, goal

FUTURE: Final = "2999-01-01T00:00:00.000Z"
ITEM: Final[dict[str, Any]] = {
    "description": "what it is about",
    "priority": "high",
    "labels": ["a", "b"],
    "status": "blocked",
    "due_at": FUTURE,
    "not_before": FUTURE,
    "snoozed_until": FUTURE,
    "failed_child_join_policy": "accept",
    "cancelled_child_join_policy": "propagate",
    "external_refs": [{"kind": "issue", "id": "7"}],
    "evidence_refs": [{"kind": "log", "id": "e", "label": "l"}],
    "completion_policy": {"kind": "reviewer_quorum", "threshold": 3},
}
STANCE: Final[dict[str, Any]] = {
    "mode": "judge",
    "delegated_authority": "close_if_policy_allows",
    "projection_policy": {"max_text_chars": 100, "include_parent_context": False},
}
DEFAULT_STANCE: Final[dict[str, Any]] = {
    "mode": "pursue",
    "delegated_authority": "add_evidence",
    "projection_policy": {"max_text_chars": 4096, "include_parent_context": True},
}


def test_the_item_of_these_tests_has_every_item_param() -> None:
    assert ITEM.keys() == set(ItemFields.__struct_fields__) - {"realm_id", "namespace", "op_id"}


async def test_a_goal_is_an_item_as_create_makes_it_and_a_binding(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        plain = {**ITEM, "completion_policy": {"kind": "self_attest"}}
        item = await create(client, " t ", **plain)
        made = (await goal(client, title=" t ", **plain, **STANCE))["item"]
        assert made | {name: item[name] for name in ("id", "created_at", "updated_at", "evidence_refs")} == item
        quorum = (await goal(client, "b", **ITEM))["item"]
        assert quorum["completion_policy"] == ITEM["completion_policy"]


@pytest.mark.parametrize("stance", [{}, STANCE])
async def test_its_binding_is_new_active_and_of_the_stance_that_was_given(
    tmp_path: Path, stance: dict[str, Any]
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, realm_id="r", namespace="n", **stance)
        item, attention = made["item"], made["attention"]
        assert attention == {
            "binding_id": attention["binding_id"],
            "work_ref": {"realm_id": "r", "namespace": "n", "item_id": item["id"]},
            "target": {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "a"}},
            "target_key": "owner:agent:a",
            **DEFAULT_STANCE,
            **stance,
            "status": {"state": "active"},
            "revision": 1,
            "created_at": item["created_at"],
            "updated_at": item["created_at"],
        }
        assert attention["binding_id"].startswith("attention_")


async def test_its_events_are_the_item_the_binding_and_that_it_is_ready_in_one_commit(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        before = await head(client)
        made = await goal(client)
        item_id, binding_id = made["item"]["id"], made["attention"]["binding_id"]
        events = (await client.call("workgraph/events", after_seq=before))["events"]
        assert [(event["type"], event["subject"], event["seq"]) for event in events] == [
            ("item_created", item_id, before + 1),
            ("attention_created", binding_id, before + 2),
            ("item_ready", item_id, before + 3),
        ]
        assert len({event["at"] for event in events}) == 1
        assert events[1]["data"] == {
            "revision": 1,
            "item_id": item_id,
            "target_key": "owner:agent:a",
            "mode": "pursue",
            "delegated_authority": "add_evidence",
        }


@pytest.mark.parametrize("state", ["open", "claimed", "blocked"])
async def test_an_item_that_exists_is_bound_as_it_is_by_any_number_of_targets(tmp_path: Path, state: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, status="blocked" if state == "blocked" else "open")
        if state == "claimed":
            item = (await claim(client, item))["item"]
        before = await head(client)
        for name in ("a", "b", "c"):
            made = await goal(client, name, **bound(item), **STANCE)
            assert made["item"] == item
            assert made["attention"]["mode"] == "judge"
        assert await get(client, item["id"]) == item
        events = (await client.call("workgraph/events", after_seq=before))["events"]
        assert [event["type"] for event in events] == ["attention_created"] * 3


async def test_a_claim_whose_lease_is_over_is_bound_as_it_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = (await claim(client, await create(client)))["item"]
        elapse(daemon.state_dir, item["id"])
        made = await goal(client, **bound(item))
        assert made["item"] == await get(client, item["id"])
        assert made["item"]["revision"] == item["revision"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, "/title"),
        ({"item_id": "$"}, "/expected_revision"),
        ({"expected_revision": 1}, "/title"),
        ({"title": "t", "expected_revision": 1}, "/expected_revision"),
        ({"title": "t", "item_id": "$"}, "/title"),
        ({"title": "t", "item_id": "$", "expected_revision": 1}, "/title"),
        *(({"item_id": "$", "expected_revision": 1, name: value}, f"/{name}") for name, value in ITEM.items()),
        ({"title": " \t "}, "/title"),
        ({"title": "t", "binding_id": "attention_1"}, "/binding_id"),
        ({"title": "t", "evidence_refs": [{"kind": "host_confirmation", "id": "e"}]}, "/evidence_refs/0/kind"),
        ({"title": "t", "evidence_refs": [{"kind": "log", "id": "e"}, {"kind": " ", "id": "e"}]},
         "/evidence_refs/1/kind"),
        *(
            ({"title": "t", "completion_policy": {"kind": "reviewer_quorum", **more}}, f"/completion_policy{path}")
            for more, path in (
                ({"threshold": 0}, "/threshold"), ({"threshold": 65}, "/threshold"), ({}, "/threshold"),
            )
        ),
        ({"title": "t", "completion_policy": {"kind": "supervisor"}}, "/completion_policy/owner_key"),
        ({"title": "t", "mode": "watch"}, "/mode"),
        ({"title": "t", "delegated_authority": "close"}, "/delegated_authority"),
        ({"title": "t", "projection_policy": {"max_text_chars": 262_145}}, "/projection_policy/max_text_chars"),
    ],
)  # fmt: skip
async def test_what_does_not_go_together_is_refused_where_it_is_wrong(
    tmp_path: Path, params: dict[str, Any], path: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        before = await head(client)
        given = {name: item["id"] if value == "$" else value for name, value in params.items()}
        refused = await client.refused("workgraph/goal/create", target=target("a"), **given)
        assert (refused.code, refused.data["path"]) == ("invalid_params", path)
        assert await head(client) == before


async def test_the_parts_of_a_projection_policy_default_one_by_one(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        short = (await goal(client, projection_policy={"max_text_chars": 0}))["attention"]
        assert short["projection_policy"] == {"max_text_chars": 0, "include_parent_context": True}
        alone = (await goal(client, "b", projection_policy={"include_parent_context": False}))["attention"]
        assert alone["projection_policy"] == {"max_text_chars": 4096, "include_parent_context": False}


async def test_the_status_of_a_goal_is_what_both_are_now(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client)
        binding_id, item = made["attention"]["binding_id"], made["item"]

        async def status() -> dict[str, Any]:
            found: dict[str, Any] = await client.call("workgraph/goal/status", binding_id=binding_id)
            return found

        assert await status() == made
        paused = await client.call("workgraph/attention/pause", binding_id=binding_id, expected_revision=1)
        assert await status() == {"item": item, **paused}
        renamed = await client.call("workgraph/update", id=item["id"], expected_revision=1, title="new")
        assert await status() == {**renamed, **paused}
        await client.call("workgraph/attention/stop", binding_id=binding_id, expected_revision=2)
        await client.call("workgraph/close", id=item["id"], expected_revision=2)
        ended = await status()
        assert (ended["item"]["status"], ended["attention"]["status"]) == ("completed", {"state": "stopped"})
        assert (ended["item"]["revision"], ended["attention"]["revision"]) == (3, 3)


@pytest.mark.parametrize(
    ("method", "more"),
    [("goal/status", {}), ("goal/confirm", {"expected_revision": 1}), ("goal/request_close", {"expected_revision": 1})],
)
async def test_a_goal_of_another_scope_is_not_there(tmp_path: Path, method: str, more: dict[str, Any]) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding_id = (await goal(client))["attention"]["binding_id"]
        for scope in {"realm_id": "other"}, {"namespace": "other"}:
            refused = await client.refused(f"workgraph/{method}", binding_id=binding_id, **more, **scope)
            assert (refused.code, refused.data["kind"], refused.data["id"]) == ("not_found", "attention", binding_id)
        await client.call(f"workgraph/{method}", binding_id=binding_id, **more)


async def test_an_item_of_another_scope_is_not_bound(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        params = {"target": target("a"), **bound(item), "namespace": "other"}
        refused = await client.refused("workgraph/goal/create", **params)
        assert (refused.code, refused.data["kind"], refused.data["id"]) == ("not_found", "item", item["id"])
