"""What a session was given belongs to its member, and what comes of two that are one (contract workgraph 5.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served

from .common import told
from .seats import (
    IDENTITY,
    KEY,
    REALM,
    again,
    at,
    bound,
    close,
    do,
    faults_of,
    goal,
    of_owner,
    of_session,
    register,
    session,
)

STORED = {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "mob/m/agent/a"}}


@pytest.mark.parametrize("paused", [False, True])
async def test_the_bindings_of_a_session_come_to_its_member_in_every_scope(tmp_path: Path, paused: bool) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        target = of_session(session(1))
        bindings = [
            await bound(client, target),
            await bound(client, target, namespace="other"),
            await bound(client, target, realm_id="r"),
        ]
        ended = await do(client, "stop", await bound(client, target, namespace="third"))
        other = await bound(client, of_session(session(2)))
        if paused:
            bindings = [await do(client, "pause", binding) for binding in bindings]
        done = await register(client, session(1))
        assert sorted(done["rekeyed"]) == sorted(binding["binding_id"] for binding in bindings)
        assert "duplicates" not in done
        for before in bindings:
            after = await again(client, before)
            assert (after["target"], after["target_key"]) == (STORED, KEY)
            assert after["revision"] == before["revision"] + 1
            assert after["status"] == before["status"]
            assert after["created_at"] == before["created_at"]
            event = (await told(client, before["binding_id"]))[-1]
            assert (event["type"], event["realm_id"]) == ("attention_rekeyed", before["work_ref"]["realm_id"])
            assert event["namespace"] == before["work_ref"]["namespace"]
            assert event["data"] == {
                "revision": after["revision"],
                "from_key": f"session:{session(1)}",
                "to_key": KEY,
            }
        for untouched in (ended, other):
            assert await again(client, untouched) == untouched


async def two_of_one(client: Client) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The binding of a member, its duplicate, and what the registration said that made it one."""
    holder = await bound(client, mode="coordinate")
    before = await bound(client, of_session(session(1)))
    done = await register(client, session(1))
    return holder, await again(client, before), done


async def test_where_the_key_is_taken_both_stay_and_the_operator_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, done = await two_of_one(client)
        assert "rekeyed" not in done
        assert done["duplicates"] == [duplicate]
        assert duplicate["target"] == of_session(session(1))
        assert (duplicate["target_key"], duplicate["alias_key"]) == (f"session:{session(1)}", KEY)
        assert duplicate["revision"] == 1  # it attends for the target that it has
        (fault,) = await faults_of(client, duplicate)
        assert fault["state"] == "open"
        assert fault["detail"] == {
            "realm_id": REALM,
            "namespace": "default",
            "target_key": KEY,
            "binding_ids": [duplicate["binding_id"], holder["binding_id"]],
        }
        event = (await told(client, "agent:mob/m/agent/a"))[0]
        assert event["data"]["duplicates"] == [duplicate["binding_id"]]
        for target in (IDENTITY, of_session(session(1))):
            refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=target)
            assert refused.data["occupant"]["binding_id"] == duplicate["binding_id"]  # it is the newer one
        retired = await client.call("workgraph/member/retire", realm_id=REALM, identity="a")
        assert [one["binding_id"] for one in retired["attention"]] == fault["detail"]["binding_ids"]


@pytest.mark.parametrize("how", ["close", "stop", "reassign", "break_glass_reassign", "request_close"])
async def test_what_frees_the_key_gives_it_to_the_duplicate(tmp_path: Path, how: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, _ = await two_of_one(client)
        if how == "close":
            await close(client, holder)
        elif how == "request_close":
            params = {**at(holder), "expected_revision": 1, "status": "cancelled"}
            await client.call("workgraph/goal/request_close", **params)
        else:
            forced = {"reason": "r"} if how == "break_glass_reassign" else {}
            more = {} if how == "stop" else {"target": of_owner("label", "x"), **forced}
            await do(client, how, holder, **more)
        after = await again(client, duplicate)
        assert (after["target"], after["target_key"], after["revision"]) == (STORED, KEY, 2)
        assert "alias_key" not in after
        assert [fault["state"] for fault in await faults_of(client, duplicate)] == ["closed"]
        event = (await told(client, duplicate["binding_id"]))[-1]
        assert event["data"] == {"revision": 2, "from_key": f"session:{session(1)}", "to_key": KEY}
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=IDENTITY)
        assert refused.data["occupant"]["binding_id"] == duplicate["binding_id"]


async def test_of_several_duplicates_the_newest_comes_first_and_then_the_next(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        older = await bound(client, of_session(session(1)))
        newer = await bound(client, of_session(session(2)))
        holder = await bound(client)
        for n in (1, 2):
            await register(client, session(n))
        await do(client, "stop", holder)
        newer, older = await again(client, newer), await again(client, older)
        assert newer["target_key"] == KEY
        assert older["alias_key"] == KEY
        assert [fault["state"] for fault in await faults_of(client, older)] == ["open"]
        await do(client, "stop", newer)
        assert (await again(client, older))["target_key"] == KEY
        assert [fault["state"] for fault in await faults_of(client, older)] == ["closed"]


async def test_a_duplicate_that_ends_leaves_the_key_and_no_fault(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, _ = await two_of_one(client)
        (fault,) = await faults_of(client, duplicate)
        await client.call("ledger/fault/ack", fault_id=fault["fault_id"])
        stopped = await do(client, "stop", duplicate)
        assert "alias_key" not in stopped
        assert stopped["target"] == of_session(session(1))
        assert [one["state"] for one in await faults_of(client, duplicate)] == ["closed"]
        assert await again(client, holder) == holder


async def test_neither_of_two_is_resumed_or_moved_to_the_key_beside_the_other(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, _ = await two_of_one(client)
        for one, other in ((holder, duplicate), (duplicate, holder)):
            paused = await do(client, "pause", one)
            refused = await client.refused("workgraph/attention/resume", **at(paused))
            assert (refused.code, refused.data["target_key"]) == ("occupied", KEY)
            assert refused.data["occupant"]["binding_id"] == other["binding_id"]
            assert "resume" in refused.data["remedy"]
            params = at(paused, target=IDENTITY, reason="r")
            moved = await client.refused("workgraph/attention/break_glass_reassign", **params)
            assert moved.data["occupant"]["binding_id"] == other["binding_id"]
        await do(client, "stop", await again(client, holder))
        assert (await do(client, "resume", await again(client, duplicate)))["status"] == {"state": "active"}


async def test_a_closed_item_with_both_of_two_frees_the_key_for_good(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client)
        item = {"item_id": made["item"]["id"], "expected_revision": 1}
        second = await bound(client, of_session(session(1)), **item)
        await register(client, session(1))
        await close(client, made["attention"])
        assert (await again(client, second))["status"] == {"state": "stopped"}
        assert [event["type"] for event in await told(client, second["binding_id"])] == [
            "attention_created",
            "attention_stopped",
        ]
        assert (await bound(client))["target_key"] == KEY


async def test_the_duplicate_of_an_adopted_session_goes_with_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, _ = await two_of_one(client)
        done = await register(client, session(1), "b", adopt=True)
        assert done["rekeyed"] == [duplicate["binding_id"]]
        after = await again(client, duplicate)
        assert after["target_key"] == "owner:agent:mob/m/agent/b"
        assert "alias_key" not in after
        assert [fault["state"] for fault in await faults_of(client, duplicate)] == ["closed"]
        assert await again(client, holder) == holder


async def test_a_duplicate_may_become_that_of_another_member(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        holder, duplicate, _ = await two_of_one(client)
        theirs = await bound(client, {"kind": "identity", "identity": "b"})
        done = await register(client, session(1), "b", adopt=True)
        assert [one["alias_key"] for one in done["duplicates"]] == ["owner:agent:mob/m/agent/b"]
        assert [fault["state"] for fault in await faults_of(client, duplicate)] == ["closed", "open"]
        await do(client, "stop", holder)
        await do(client, "stop", theirs)
        assert (await again(client, duplicate))["target_key"] == "owner:agent:mob/m/agent/b"
        assert (await bound(client))["target_key"] == KEY


async def test_a_former_session_that_comes_back_brings_nothing_twice(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        _, duplicate, _ = await two_of_one(client)
        await register(client, session(2))
        done = await register(client, session(1))
        assert done["duplicates"] == [duplicate]
        assert len(await faults_of(client, duplicate)) == 1
