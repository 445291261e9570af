"""Bindings over the wire: every cell of the table of states, every refusal, every event (contract workgraph 3.2, 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served, spawned
from tests.ledger.common import until_event

from .common import sql, told
from .seats import IDENTITY, REALM, again, at, bound, close, do, goal, listed, of_owner, of_session, session

PAST = "2020-01-01T00:00:00.000Z"
FAR = "2999-01-01T00:00:00.000Z"
X = of_owner("label", "x")


async def in_state(client: Client, state: str) -> dict[str, Any]:
    """A coordinator's binding in a state."""
    binding = await bound(client, mode="coordinate", delegated_authority="request_closure")
    match state:
        case "paused":
            return await do(client, "pause", binding, until=FAR)
        case "superseded":
            await do(client, "reassign", binding, target=X)
            return await again(client, binding)
        case "stopped":
            return await do(client, "stop", binding)
        case _:
            return binding


INPUTS: dict[str, dict[str, Any]] = {
    "pause": {},
    "resume": {},
    "reassign": {"target": X},
    "break_glass_reassign": {"target": X, "reason": "r"},
    "stop": {},
}
CELLS = {
    ("active", "pause"): "paused",
    ("active", "resume"): "binding_active",
    ("active", "reassign"): "superseded",
    ("active", "break_glass_reassign"): "superseded",
    ("active", "stop"): "stopped",
    ("active", "close"): "stopped",
    ("active", "prune"): "kept",
    ("paused", "pause"): "paused",
    ("paused", "resume"): "active",
    ("paused", "reassign"): "superseded",
    ("paused", "break_glass_reassign"): "superseded",
    ("paused", "stop"): "stopped",
    ("paused", "close"): "stopped",
    ("paused", "prune"): "kept",
    **{(state, what): "binding_terminal" for state in ("superseded", "stopped") for what in INPUTS},
    ("superseded", "close"): "superseded",
    ("stopped", "close"): "stopped",
    ("superseded", "prune"): "deleted",
    ("stopped", "prune"): "deleted",
}


@pytest.mark.parametrize(("state", "what"), CELLS)
async def test_every_cell_of_the_table_holds(tmp_path: Path, state: str, what: str) -> None:
    expected = CELLS[state, what]
    async with served(tmp_path) as daemon, daemon.client() as client:
        before = await in_state(client, state)
        assert before["status"]["state"] == state
        if what == "prune":
            pruned = await client.call("workgraph/attention/prune", realm_id=REALM)
            assert pruned == {"pruned": int(expected == "deleted"), "has_more": False}
            assert (before["binding_id"] in await listed(client)) is (expected == "kept")
            return
        if what == "close":
            await close(client, before)
        elif expected.startswith("binding_"):
            refused = await client.refused(f"workgraph/attention/{what}", **at(before, **INPUTS[what]))
            assert (refused.code, refused.data["reason"]) == ("invalid_transition", expected)
            assert refused.data["id"] == before["binding_id"]
            assert refused.data["status"] == before["status"]
            assert refused.data["current_revision"] == before["revision"]
            assert await again(client, before) == before
            return
        else:
            await client.call(f"workgraph/attention/{what}", **at(before, **INPUTS[what]))
        after = await again(client, before)
    assert after["status"]["state"] == expected
    assert after["revision"] == before["revision"] + (0 if state in ("superseded", "stopped") else 1)
    assert ("terminal_at" in after) is (expected in ("superseded", "stopped"))


async def test_a_pause_replaces_the_deadline_that_there_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        timed = await do(client, "pause", await bound(client), until=FAR)
        assert timed["status"] == {"state": "paused", "until": FAR}
        untimed = await do(client, "pause", timed)
        assert untimed["status"] == {"state": "paused"}
        resumed = await do(client, "resume", untimed)
        assert resumed["status"] == {"state": "active"}
        item = await client.call("workgraph/get", realm_id=REALM, id=resumed["work_ref"]["item_id"])
        events = await told(client, resumed["binding_id"])
    assert item["item"]["revision"] == 1
    assert [(event["type"], event["data"]) for event in events[1:]] == [
        ("attention_paused", {"revision": 2, "until": FAR}),
        ("attention_paused", {"revision": 3}),
        ("attention_resumed", {"revision": 4, "cause": "resumed"}),
    ]
    assert all(event["realm_id"] == REALM and event["namespace"] == "default" for event in events)


async def test_a_stale_revision_says_which_one_there_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding = await bound(client)
        await do(client, "pause", binding)
        for what, more in INPUTS.items():
            refused = await client.refused(f"workgraph/attention/{what}", **at(binding, **more))
            assert refused.code == "stale_revision"
            assert refused.data["kind"] == "attention"
            assert refused.data["id"] == binding["binding_id"]
            assert (refused.data["expected_revision"], refused.data["current_revision"]) == (1, 2)


@pytest.mark.parametrize("what", [*INPUTS, "get", "projection"])
async def test_a_binding_of_another_scope_is_not_there(tmp_path: Path, what: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        params = {**at(await bound(client), **INPUTS.get(what, {})), "namespace": "other"}
        if what not in INPUTS:
            del params["expected_revision"]
        refused = await client.refused(f"workgraph/attention/{what}", **params)
    assert (refused.code, refused.data["kind"]) == ("not_found", "attention")


async def test_a_coordinator_hands_over_and_its_successor_is_like_it(tmp_path: Path) -> None:
    policy = {"max_text_chars": 10, "include_parent_context": False}
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await bound(
            client, mode="coordinate", delegated_authority="close_if_policy_allows", projection_policy=policy
        )
        paused = await do(client, "pause", first)
        moved = await client.call("workgraph/attention/reassign", **at(paused, target=X))
        previous, new = moved["previous"], moved["attention"]
        events = [
            (event["type"], event["data"])
            for binding in (previous, new)
            for event in (await told(client, binding["binding_id"]))[-1:]
        ]
    assert previous["status"] == {"state": "superseded"}
    assert previous["superseded_by"] == new["binding_id"]
    assert new["revision"] == 1
    assert new["status"] == {"state": "active"}
    assert new["target"] == of_owner("label", "x", "lowered_owner")
    assert new["created_at"] == new["updated_at"] == previous["terminal_at"]
    assert new["projection_policy"] == policy
    for name in ("work_ref", "mode", "delegated_authority"):
        assert new[name] == first[name]
    assert events == [
        ("attention_superseded", {"revision": 3, "superseded_by": new["binding_id"]}),
        (
            "attention_created",
            {
                "revision": 1,
                "item_id": first["work_ref"]["item_id"],
                "target_key": "owner:label:x",
                "mode": "coordinate",
                "delegated_authority": "close_if_policy_allows",
                "previous_binding_id": first["binding_id"],
            },
        ),
    ]


@pytest.mark.parametrize("mode", ["pursue", "review", "falsify", "judge", "observe"])
async def test_nobody_but_a_coordinator_hands_over(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding = await bound(client, mode=mode)
        refused = await client.refused("workgraph/attention/reassign", **at(binding, target=X))
    assert refused.code == "authority_missing"
    assert refused.data["binding_id"] == binding["binding_id"]
    assert refused.data["mode"] == mode
    assert refused.data["capability"] == "can_link_derived_from"
    assert "attention/break_glass_reassign" in refused.data["remedy"]
    assert "mode coordinate" in refused.data["remedy"]
    assert binding["binding_id"] in refused.message
    assert mode in refused.message


async def test_break_glass_moves_any_binding_and_says_who_did_it_and_why(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        client = await daemon.client()
        binding = await bound(client)
        params = at(binding, target=X, reason="it was stuck")
        moved = await client.call("workgraph/attention/break_glass_reassign", **params)
        event = (await told(client, moved["attention"]["binding_id"]))[0]
        forced = event["data"]["break_glass"]
        assert forced["reason"] == "it was stuck"
        assert forced["principal"].startswith("principal:")
        assert event["data"]["previous_binding_id"] == binding["binding_id"]
        refused = await client.refused("workgraph/attention/break_glass_reassign", **params)
        assert refused.code == "stale_revision"
        await client.call("daemon/shutdown")
        await client.close()
        await daemon.ended()
    warnings = [line for line in daemon.log if '"break_glass"' in line]
    assert len(warnings) == 1
    for said in (
        forced["principal"],
        "it was stuck",
        moved["attention"]["binding_id"],
        binding["binding_id"],
        "warning",
    ):
        assert said in warnings[0]


async def test_break_glass_is_for_the_operator_with_a_reason(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a",)) as daemon, daemon.client() as client:
        binding = await bound(client)
        what = "workgraph/attention/break_glass_reassign"
        blank = await client.refused(what, **at(binding, target=X, reason=" "))
        assert (blank.code, blank.data["path"]) == ("invalid_params", "/reason")
        without = await client.refused(what, **at(binding, target=X))
        assert (without.code, without.data["path"]) == ("invalid_params", "/reason")
        async with daemon.client(role="a") as agent:
            refused = await agent.refused(what, **at(binding, target=X, reason="r"))
        assert refused.code == "not_admin"
        assert await again(client, binding) == binding


async def test_without_a_trusted_principal_no_binding_is_even_looked_at(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True, socket=None) as daemon:
        client = daemon.stdio()
        refused = await client.refused(
            "workgraph/attention/break_glass_reassign", binding_id="b", expected_revision=1, target=X, reason="r"
        )
        await client.close()
    assert (refused.code, refused.data["capability"]) == ("authority_missing", "trusted_principal")
    assert "socket" in refused.data["remedy"]


async def test_a_stopped_binding_says_why_and_leaves_its_item_alone(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a",)) as daemon, daemon.client(role="a") as client:
        made = await goal(client)
        stopped = await do(client, "stop", made["attention"], reason="enough")
        event = (await told(client, stopped["binding_id"]))[-1]
        item = (await client.call("workgraph/get", realm_id=REALM, id=made["item"]["id"]))["item"]
    assert (event["type"], event["role"]) == ("attention_stopped", "a")
    assert event["data"] == {"revision": 2, "cause": "stopped", "reason": "enough"}
    assert item == made["item"]


async def test_a_closed_item_stops_all_who_attend_to_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client)
        item = first["item"]
        second = await bound(client, X, item_id=item["id"], expected_revision=1)
        paused = await do(client, "pause", second)
        ended = await do(
            client, "stop", await bound(client, of_session(session()), item_id=item["id"], expected_revision=1)
        )
        params = {"realm_id": REALM, "id": item["id"], "expected_revision": 1, "status": "failed"}
        closed = await client.call("workgraph/close", **params)
        assert closed["stopped_bindings"] == [first["attention"]["binding_id"], second["binding_id"]]
        for binding in (first["attention"], paused):
            now = await again(client, binding)
            assert (now["status"], now["revision"]) == ({"state": "stopped"}, binding["revision"] + 1)
            event = (await told(client, binding["binding_id"]))[-1]
            assert event["data"] == {"revision": now["revision"], "cause": "item_closed"}
        assert await again(client, ended) == ended


async def test_an_elapsed_pause_is_eligible_at_once_and_active_after_the_sweep(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding = await do(client, "pause", await bound(client), until=PAST)
        assert (await client.call("workgraph/attention/current", realm_id=REALM, identity="a"))["attention"]
        event = await until_event(client, subjects=[binding["binding_id"]], types=["attention_resumed"])
        after = await again(client, binding)
    assert event["data"] == {"revision": 3, "cause": "pause_elapsed"}
    assert "role" not in event
    assert (after["status"], after["revision"]) == ({"state": "active"}, 3)


async def test_a_binding_that_cannot_be_read_does_not_stop_the_sweep(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        bad = await do(client, "pause", await bound(client, X), until=FAR)
        good = await do(client, "pause", await bound(client), until=FAR)
        assert sql(daemon.state_dir, "UPDATE attention SET revision = 'x' WHERE binding_id = ?", bad["binding_id"]) == 1
        assert sql(daemon.state_dir, "UPDATE attention SET paused_until = 1") == 2
        await do(client, "pause", await bound(client, of_session(session())), until=PAST)
        await until_event(client, subjects=[good["binding_id"]], types=["attention_resumed"])
        faults = (await client.call("ledger/fault/list", kind="bad_row"))["faults"]
    assert [fault["subject"] for fault in faults] == [bad["binding_id"]]


async def test_prune_deletes_what_ended_before_and_forgets_the_op_that_made_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await bound(client, mode="coordinate")
        params = at(first, target=X, op_id="op-1")
        moved = await client.call("workgraph/attention/reassign", **params)
        assert (await client.call("workgraph/attention/reassign", **params)) == {**moved, "replayed": True}
        stopped = await do(client, "stop", moved["attention"])
        prune = {"realm_id": REALM, "updated_before": stopped["updated_at"]}
        elsewhere = await client.call("workgraph/attention/prune", realm_id="other")
        assert elsewhere == {"pruned": 0, "has_more": False}
        early = await client.call("workgraph/attention/prune", **prune)
        assert early["pruned"] == int(first["updated_at"] < stopped["updated_at"])
        rest = await client.call("workgraph/attention/prune", realm_id=REALM)
        assert early["pruned"] + rest["pruned"] == 2
        assert await listed(client) == []
        events = await told(client, "default", "attention_pruned")
        assert events[-1]["data"] == {"pruned": rest["pruned"]}
        gone = await client.refused("workgraph/attention/reassign", **params)
        assert gone.code == "not_found"  # and no replay: its op id is forgotten


async def test_a_replay_is_the_first_answer_and_moves_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding = await bound(client)
        params = at(binding, op_id="op-1")
        paused = await client.call("workgraph/attention/pause", **params)
        resumed = await do(client, "resume", paused["attention"])
        assert await client.call("workgraph/attention/pause", **params) == {**paused, "replayed": True}
        assert await again(client, binding) == resumed
        other = await client.refused("workgraph/attention/stop", **params)
        assert (other.code, other.data["method"]) == ("op_conflict", "workgraph/attention/pause")


async def test_a_result_can_be_sent_back_as_it_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for target in (IDENTITY, of_session(session()), X):
            first = await bound(client, target, mode="coordinate")
            found = await listed(client, target=first["target"], status=first["status"])
            assert found == [first["binding_id"]]
            moved = await do(client, "reassign", first, target=first["target"])
            assert (moved["target"], moved["target_key"]) == (first["target"], first["target_key"])
            policy = {"projection_policy": moved["projection_policy"], "namespace": "other"}
            assert (await bound(client, moved["target"], **policy))["target_key"] == first["target_key"]
