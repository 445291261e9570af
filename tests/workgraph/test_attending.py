"""Reading bindings: pages, what a target attends to now, the text for a turn (contract workgraph 1, 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served

from .seats import (
    IDENTITY,
    KEY,
    REALM,
    at,
    bound,
    do,
    goal,
    listed,
    of_owner,
    of_session,
    register,
    session,
)

FAR = "2999-01-01T00:00:00.000Z"
STATES = ("active", "paused", "superseded", "stopped")


def label(n: int) -> dict[str, Any]:
    """A target of its own."""
    return of_owner("label", str(n))


async def one_of_each(client: Client) -> dict[str, str]:
    """A binding in each state, and one whose pause is to be long over; their ids by state."""
    active = await bound(client, label(1))
    paused = await do(client, "pause", await bound(client, label(2)), until=FAR)
    old = await bound(client, label(3), mode="coordinate")
    moved = await do(client, "reassign", old, target=label(4))
    stopped = await do(client, "stop", moved)
    ids = (active, paused, old, stopped)
    return {state: binding["binding_id"] for state, binding in zip(STATES, ids, strict=True)}


async def test_a_status_finds_what_is_in_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        ids = await one_of_each(client)
        for status in STATES:
            assert await listed(client, status=status) == [ids[status]]
            assert await listed(client, status={"state": status, "until": FAR}) == [ids[status]]
        assert await listed(client, status="occupying") == [ids["active"], ids["paused"]]
        assert await listed(client) == [ids[state] for state in STATES]
        assert await listed(client, namespace="other") == []


async def test_a_pause_that_is_over_counts_as_active(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        # Two steps in one transaction, and the read may still come before the sweep or after it.
        steps = [
            {
                "method": "workgraph/goal/create",
                "params": {"realm_id": REALM, "title": "t", "target": IDENTITY},
            },
            {
                "method": "workgraph/attention/pause",
                "params": {
                    "realm_id": REALM,
                    "binding_id": {"$ref": "/0/attention/binding_id"},
                    "expected_revision": 1,
                    "until": "2020-01-01T00:00:00Z",
                },
            },
        ]
        done = await client.call("daemon/batch", steps=steps)
        binding_id = done["results"][1]["attention"]["binding_id"]
        for filters in ({}, {"target": IDENTITY}, {"item_id": done["results"][0]["item"]["id"]}):
            assert await listed(client, status="active", **filters) == [binding_id]
            assert await listed(client, status="paused", **filters) == []


async def test_filters_are_combined(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client, label(1))
        item = {"item_id": first["item"]["id"]}
        second = await bound(client, label(2), **item, expected_revision=1)
        await do(client, "stop", second)
        third = await bound(client, label(2))
        ids = [first["attention"]["binding_id"], second["binding_id"], third["binding_id"]]
        assert await listed(client, **item) == ids[:2]
        assert await listed(client, target=label(2)) == ids[1:]
        assert await listed(client, target=label(2), **item) == ids[1:2]
        assert await listed(client, target=label(2), status="stopped") == ids[1:2]
        assert await listed(client, target=label(2), status="active") == ids[2:]
        assert await listed(client, status="occupying", **item) == ids[:1]
        assert await listed(client, status="stopped", **item) == ids[1:2]
        assert await listed(client, target=label(3)) == []
        assert await listed(client, item_id="work_none") == []
        assert await listed(client, namespace="other", **item) == []


@pytest.mark.parametrize("filters", [{}, {"status": "occupying"}, {"item": True}, {"target": True}])
async def test_pages_meet_every_binding_once_in_the_order_of_change(tmp_path: Path, filters: dict[str, Any]) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client, label(0), mode="coordinate")
        item = {"item_id": first["item"]["id"], "expected_revision": 1}
        if "target" in filters:
            filters, binding = {"target": label(0)}, first["attention"]
            for _ in range(6):
                binding = await do(client, "reassign", binding, target=label(0))
        else:
            for n in range(1, 7):
                await bound(client, label(n), **item)
            filters = {"item_id": item["item_id"]} if "item" in filters else filters
        whole = await listed(client, **filters)
        assert len(whole) == 7
        params = {"realm_id": REALM, "limit": 2, **filters}
        met: list[str] = []
        while True:
            page = await client.call("workgraph/attention/list", **params)
            met += [binding["binding_id"] for binding in page["attention"]]
            if not page["has_more"]:
                break
            params["cursor"] = page["next_cursor"]
        assert met == whole
        assert "next_cursor" not in page


async def test_an_unknown_status_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("workgraph/attention/list", realm_id=REALM, status="eligible")
        inside = await client.refused("workgraph/attention/list", realm_id=REALM, status={"state": "eligible"})
    assert (refused.code, refused.data["path"]) == ("invalid_params", "/status")
    assert all(word in str(refused.data["expected"]) for word in (*STATES, "occupying"))
    assert (inside.code, inside.data["path"]) == ("invalid_params", "/status/state")


async def current(client: Client, **whom: Any) -> dict[str, Any]:
    """What somebody attends to now."""
    found: dict[str, Any] = await client.call("workgraph/attention/current", realm_id=REALM, **whom)
    return found


async def test_whoever_asks_by_whatever_name_is_told_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session())
        made = await goal(client)
        for whom in (
            {"identity": "a"},
            {"identity": "a", "mob_id": "m"},
            {"session_id": f"session_{session().upper()}"},
            {"owner_key": {"kind": "agent", "id": "mob/m/agent/a"}},
            {"owner_key": {"kind": "session", "id": session()}},
        ):
            found = await current(client, **whom)
            assert found["target_key"] == KEY
            assert (found["attention"], found["item"]) == (made["attention"], made["item"])
            assert found["starved"] == []
            assert found["as_of_seq"] > 0


async def test_who_attends_to_nothing_is_told_its_key(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for whom, key in (
            ({"identity": "a"}, KEY),
            ({"session_id": session()}, f"session:{session()}"),
            ({"owner_key": {"kind": "label", "id": " x "}}, "owner:label:x"),
        ):
            found = await current(client, **whom)
            del found["as_of_seq"]
            assert found == {"target_key": key, "starved": []}


async def test_a_paused_binding_is_not_current(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await do(client, "pause", await bound(client), until=FAR)
        assert "attention" not in await current(client, identity="a")


async def test_a_former_session_is_told_which_one_took_over(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        binding = await bound(client)
        await register(client, session(2))
        former = await current(client, session_id=session(1))
        spelled = await current(client, owner_key={"kind": "session", "id": session(1)})
        now = await current(client, session_id=session(2))
    assert former["superseded_session"] == spelled["superseded_session"] == session(2)
    assert former["target_key"] == KEY
    assert "attention" not in former
    assert now["attention"] == binding
    assert "superseded_session" not in now


async def test_of_duplicates_the_newest_is_current_and_the_others_starve(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        oldest = await bound(client, of_session(session(1)))
        middle = await bound(client)
        newest = await bound(client, of_session(session(2)))
        await register(client, session(1))
        await register(client, session(2))
        found = await current(client, identity="a")
        assert found["attention"]["binding_id"] == newest["binding_id"]
        assert found["item"]["id"] == newest["work_ref"]["item_id"]
        assert [one["binding_id"] for one in found["starved"]] == [middle["binding_id"], oldest["binding_id"]]
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=IDENTITY)
        assert refused.data["occupant"]["binding_id"] == newest["binding_id"]
        assert refused.data["occupant"]["target_key"] == f"session:{session(2)}"
        by_key = await listed(client, target=IDENTITY)
        assert sorted(by_key) == sorted(one["binding_id"] for one in (oldest, middle, newest))


@pytest.mark.parametrize(
    ("whom", "path"),
    [
        ({}, ""),
        ({"identity": "a", "session_id": session()}, ""),
        ({"session_id": session(), "mob_id": "m"}, "/mob_id"),
        ({"session_id": "s-1"}, "/session_id"),
        ({"identity": "a/b"}, "/identity"),
        ({"identity": "a", "mob_id": "m/n"}, "/mob_id"),
        ({"owner_key": {"kind": "session", "id": "s-1"}}, "/owner_key/id"),
    ],
)
@pytest.mark.parametrize("method", ["attention/current", "member/resolve"])
async def test_exactly_one_name_is_asked_for(tmp_path: Path, method: str, whom: dict[str, Any], path: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused(f"workgraph/{method}", realm_id=REALM, **whom)
    assert (refused.code, refused.data["path"]) == ("invalid_params", path)


async def project(client: Client, binding: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a turn is told."""
    params = {"binding_id": binding["binding_id"], "realm_id": REALM, **more}
    found: dict[str, Any] = (await client.call("workgraph/attention/projection", **params))["projection"]
    return found


async def test_a_turn_is_told_its_item_its_parents_and_what_it_may_do(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, mode="judge", delegated_authority="close_if_policy_allows", description=" how ")
        parents = [
            (await client.call("workgraph/create", realm_id=REALM, title=title, description="why"))["item"]
            for title in ("first", "second")
        ]
        for parent in reversed(parents):
            ends = {"from_id": made["item"]["id"], "to_id": parent["id"]}
            await client.call("workgraph/link", realm_id=REALM, kind="parent", **ends)
        proof = {"kind": "note", "id": "n1"}
        item_at = {"realm_id": REALM, "id": made["item"]["id"], "expected_revision": 1}
        item = (await client.call("workgraph/evidence/add", evidence=proof, **item_at))["item"]
        told = await project(client, made["attention"])
    refs = [{"realm_id": REALM, "namespace": "default", "item_id": parent["id"]} for parent in parents]
    assert told["parent_refs"] == refs
    assert told["parent_context"] == [{"work_ref": ref, "status": "open", "revision": 1} for ref in refs]
    assert told["evidence_refs"] == item["evidence_refs"]
    assert told["work_ref"] == made["attention"]["work_ref"]
    assert (told["binding_revision"], told["item_revision"]) == (1, 2)
    assert len(told["authority"]) == 12
    assert {name for name, held in told["authority"].items() if held} == {
        "can_get",
        "can_add_evidence",
        "can_close_if_policy_allows",
    }
    text = told["text"]
    assert (text["title"], text["truncated"]) == ("t", False)
    places = [
        text["rendered"].index(part) for part in (made["attention"]["binding_id"], "judge", "how", "first", "second")
    ]
    assert places == sorted(places)


async def test_a_binding_that_wants_no_parents_is_told_none(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, projection_policy={"include_parent_context": False})
        assert made["attention"]["projection_policy"] == {"max_text_chars": 4096, "include_parent_context": False}
        parent = (await client.call("workgraph/create", realm_id=REALM, title="above"))["item"]
        ends = {"from_id": made["item"]["id"], "to_id": parent["id"]}
        await client.call("workgraph/link", realm_id=REALM, kind="parent", **ends)
        told = await project(client, made["attention"])
    assert "parent_refs" not in told
    assert "parent_context" not in told
    assert "above" not in told["text"]["rendered"]


@pytest.mark.parametrize(("policy", "asked", "length"), [(50, None, 50), (50, 20, 20), (50, 90, 50), (0, None, 0)])
async def test_the_text_is_cut_to_the_policy_and_a_caller_can_only_shorten_it(
    tmp_path: Path, policy: int, asked: int | None, length: int
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding = await bound(client, projection_policy={"max_text_chars": policy}, description="𝄞" * 100)
        told = await project(client, binding, **({} if asked is None else {"max_text_chars": asked}))
    assert (len(told["text"]["rendered"]), told["text"]["truncated"]) == (length, True)


async def test_only_an_eligible_binding_has_a_projection(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        paused = await do(client, "pause", await bound(client), until=FAR)
        ref = {name: value for name, value in at(paused).items() if name != "expected_revision"}
        refused = await client.refused("workgraph/attention/projection", **ref)
        assert (refused.code, refused.data["reason"]) == ("invalid_transition", "binding_not_eligible")
        assert refused.data["status"] == {"state": "paused", "until": FAR}
        over = await do(client, "pause", paused, until="2020-01-01T00:00:00Z")
        assert (await project(client, over))["mode"] == "pursue"
