"""One target attends to one thing, however it is spelled (contract workgraph 5.1, 5.2)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Refused, served

from .common import sql
from .seats import (
    CURRENT,
    EARLIER,
    IDENTITY,
    KEY,
    REALM,
    SPELLINGS,
    at,
    bound,
    close,
    do,
    goal,
    listed,
    of_owner,
    of_session,
    register,
    session,
)


def check_named(refused: Refused, occupant: dict[str, Any], status: str) -> None:
    """That a refusal names who is in the way, and the way out."""
    assert refused.code == "occupied"
    assert refused.data["target_key"] == KEY
    assert refused.data["occupant"]["binding_id"] == occupant["binding_id"]
    assert refused.data["occupant"]["item_id"] == occupant["work_ref"]["item_id"]
    assert refused.data["occupant"]["target_key"] == KEY
    assert refused.data["occupant"]["status"] == status
    assert all(part in refused.message for part in (KEY, occupant["binding_id"], status))
    method = {"active": "attention/reassign", "paused": "attention/resume"}[status]
    assert method in refused.data["remedy"]
    assert "goal/request_close" in refused.data["remedy"]


@pytest.mark.parametrize("first", SPELLINGS)
async def test_a_second_goal_of_a_member_is_refused_however_both_are_spelled(tmp_path: Path, first: str) -> None:
    # Another process registers the member, writes the first goal and is gone before this one is asked.
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, EARLIER)
        await register(client, CURRENT)
        occupant = await bound(client, SPELLINGS[first])
        assert occupant["target_key"] == KEY
    async with served(tmp_path) as daemon, daemon.client() as client:
        for status in ("active", "paused"):
            if status == "paused":
                occupant = await do(client, "pause", occupant)
            for second in (*SPELLINGS.values(), occupant["target"]):
                refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="u", target=second)
                check_named(refused, occupant, status)
        assert await listed(client) == [occupant["binding_id"]]
        assert len((await client.call("workgraph/list", realm_id=REALM))["items"]) == 1


async def test_a_session_that_nobody_has_is_one_target_too(tmp_path: Path) -> None:
    spellings = (of_session(session()), of_session(session().upper()), of_owner("session", session()))
    async with served(tmp_path) as daemon, daemon.client() as client:
        for first in spellings:
            occupant = await bound(client, first)
            assert occupant["target"] == of_session(session())
            assert occupant["target_key"] == f"session:{session()}"
            for second in (*spellings, occupant["target"]):
                refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="u", target=second)
                assert (refused.code, refused.data["occupant"]["binding_id"]) == ("occupied", occupant["binding_id"])
            await close(client, occupant)


async def test_a_target_is_free_in_every_other_scope(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        here = await bound(client)
        there = await bound(client, namespace="other")
        elsewhere = await bound(client, {**IDENTITY, "mob_id": "m"}, realm_id="r")
    assert {binding["target_key"] for binding in (here, there, elsewhere)} == {KEY}


@pytest.mark.parametrize("how", ["stop", "close", "reassign", "request_close"])
async def test_what_ends_a_binding_frees_its_target(tmp_path: Path, how: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await bound(client, mode="coordinate")
        if how == "close":
            await close(client, first)
        elif how == "request_close":
            params = {**at(first), "expected_revision": 1, "status": "failed"}
            ended = await client.call("workgraph/goal/request_close", **params)
            assert ended["attention"]["status"] == {"state": "stopped"}
        elif how == "reassign":
            await do(client, "reassign", first, target=of_owner("label", "x"))
        else:
            await do(client, "stop", first)
        assert (await bound(client))["target_key"] == KEY


async def test_a_pause_that_is_over_still_occupies(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await do(client, "pause", await bound(client), until="2020-01-01T00:00:00Z")
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="u", target=IDENTITY)
    assert refused.code == "occupied"
    assert refused.data["occupant"]["binding_id"] == first["binding_id"]


async def test_the_deadline_of_a_timed_pause_is_in_the_refusal(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await do(client, "pause", await bound(client), until="2999-01-01T00:00:00+01:00")
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="u", target=IDENTITY)
    assert refused.data["occupant"]["paused_until"] == "2998-12-31T23:00:00.000Z"


async def test_a_taken_target_refuses_who_would_move_to_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        occupant = await bound(client)
        other = await bound(client, of_owner("label", "x"), mode="coordinate")
        for what, more in (("reassign", {}), ("break_glass_reassign", {"reason": "r"})):
            refused = await client.refused(f"workgraph/attention/{what}", **at(other, target=IDENTITY, **more))
            check_named(refused, occupant, "active")
        moved = await do(client, "reassign", other, target=other["target"])
        assert moved["target_key"] == other["target_key"]
        assert await listed(client, status="occupying") == [occupant["binding_id"], moved["binding_id"]]


async def test_an_item_is_attended_to_by_64_targets_and_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client, of_owner("label", "0"))
        item = {"item_id": first["item"]["id"], "expected_revision": 1}
        for n in range(1, 64):
            await goal(client, of_owner("label", str(n)), **item)
        params = {"realm_id": REALM, "target": of_owner("label", "64"), **item}
        refused = await client.refused("workgraph/goal/create", **params)
        assert (refused.code, refused.data["max"]) == ("at_capacity", 64)
        await do(client, "stop", first["attention"])
        assert (await client.call("workgraph/goal/create", **params))["attention"]["status"] == {"state": "active"}
        assert (await client.call("workgraph/get", realm_id=REALM, id=item["item_id"]))["item"]["revision"] == 1


async def test_who_goes_behind_the_daemons_back_cannot_seat_two(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        paused = await do(client, "pause", await bound(client))
        columns = "realm_id, namespace, item, target_key, mode, delegated_authority, max_text_chars"
        columns += ", include_parent_context, revision, created_at, updated_at"
        insert = f"INSERT INTO attention(binding_id, status, {columns}) SELECT ?, ?, {columns} FROM attention"
        for status in ("active", "paused"):
            with pytest.raises(sqlite3.IntegrityError):
                sql(daemon.state_dir, insert, "attention_x", status)
        assert sql(daemon.state_dir, insert, "attention_x", "stopped") == 1
        assert await listed(client, status="occupying") == [paused["binding_id"]]


async def test_a_refused_goal_leaves_nothing_behind(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await bound(client)
        before = (await client.call("workgraph/attention/list", realm_id=REALM))["as_of_seq"]
        await client.refused("workgraph/goal/create", realm_id=REALM, title="u", target=IDENTITY)
        after = await client.call("workgraph/attention/list", realm_id=REALM)
    assert after["as_of_seq"] == before


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ({"kind": "identity", "identity": "a/b"}, "/target/identity"),
        ({"kind": "identity", "identity": "a b"}, "/target/identity"),
        ({"kind": "identity", "identity": "a", "mob_id": "m/n"}, "/target/mob_id"),
        (of_session("s-1"), "/target/session_id"),
        (of_owner("session", "s-1"), "/target/owner_key/id"),
        (of_owner("label", "  "), "/target/owner_key/id"),
        (of_owner("role", "x"), "/target/owner_key/kind"),
        ({"kind": "member", "identity": "a"}, "/target/kind"),
        ({}, "/target/kind"),
        ("a", "/target"),
    ],
)
async def test_a_target_that_is_none_is_refused_where_it_is_wrong(tmp_path: Path, target: Any, path: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=target)
    assert (refused.code, refused.data["path"]) == ("invalid_params", path)


async def test_a_member_of_another_mob_is_no_target_in_a_realm_of_a_mob(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, CURRENT)
        binding = await bound(client, of_owner("label", "x"), realm_id="mob.n", mode="coordinate")
        for target in ({**IDENTITY, "mob_id": "m"}, of_session(CURRENT), of_owner("agent", "mob/m/agent/a")):
            refusals = [
                await client.refused("workgraph/goal/create", realm_id="mob.n", title="t", target=target),
                await client.refused("workgraph/attention/reassign", **at(binding, target=target)),
                await client.refused("workgraph/attention/list", realm_id="mob.n", target=target),
            ]
            for refused in refusals:
                assert refused.code == "invalid_params"
                assert refused.data["reason"] == "attention_target_realm_mismatch"
                assert refused.data["owner_key"] == {"kind": "agent", "id": "mob/m/agent/a"}
                assert refused.data["mob_id"] == "m"
                assert refused.data["required_realm_id"] == "mob.m"
                assert refused.data["realm_id"] == "mob.n"
