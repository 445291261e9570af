"""Who is who, and which session each has (contract workgraph 5.1, 5.4, 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.admission.runtime import MemberId
from tests.harness import Client, Served, served

from .common import told
from .seats import IDENTITY, KEY, REALM, again, bound, do, of_session, register, session

SUBJECT = "agent:mob/m/agent/a"


async def resolve(client: Client, **whom: Any) -> dict[str, Any]:
    """Who that is."""
    found: dict[str, Any] = await client.call("workgraph/member/resolve", **{"realm_id": REALM, **whom})
    return found


async def retire(client: Client, identity: str = "a", **more: Any) -> dict[str, Any]:
    """Say that a member has no session any more."""
    result: dict[str, Any] = await client.call(
        "workgraph/member/retire", **{"realm_id": REALM, "identity": identity, **more}
    )
    return result


async def test_a_registered_member_is_shown_with_its_key_and_its_session(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("r",)) as daemon, daemon.client(role="r") as client:
        done = await register(client, f"{{{session(1).upper()}}}")
        event = (await told(client, SUBJECT))[0]
    assert done["changed"] is True
    member = done["member"]
    assert member == {
        "mob_id": "m",
        "identity": "a",
        "owner_key": {"kind": "agent", "id": "mob/m/agent/a"},
        "session_id": session(1),
        "status": "active",
        "source": "registered",
        "revision": 1,
        "registered_at": member["registered_at"],
        "updated_at": member["registered_at"],
    }
    assert (event["type"], event["role"], event["realm_id"]) == ("member_registered", "r", REALM)
    assert event["data"] == {"revision": 1, "session_id": session(1)}


async def test_the_same_registration_again_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await register(client, session(1))
        second = await register(client, session(1).upper())
        assert second == {"member": first["member"], "changed": False}
        assert len(await told(client, SUBJECT)) == 1


async def test_a_new_session_makes_the_old_one_a_former_one(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for n in (1, 2):
            await register(client, session(n))
        done = await register(client, session(1))
        assert (done["member"]["revision"], done["member"]["session_id"]) == (3, session(1))
        events = [event["data"] for event in await told(client, SUBJECT)]
        found = await resolve(client, identity="a")
    assert [data.get("previous_session_id") for data in events] == [None, session(1), session(2)]
    sessions = {one["session_id"]: one for one in found["sessions"]}
    assert set(sessions) == {session(1), session(2)}
    assert "to" not in sessions[session(1)]
    assert sessions[session(2)]["to"] == sessions[session(1)]["from"] == done["member"]["updated_at"]


async def test_whoever_it_is_by_whatever_name_it_is_the_same_member(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        member = (await register(client, session(2)))["member"]
        for whom in (
            {"identity": "a"},
            {"session_id": session(1)},
            {"session_id": session(2)},
            {"owner_key": {"kind": "agent", "id": "mob/m/agent/a"}},
            {"owner_key": {"kind": "session", "id": session(1)}},
            {"identity": "a", "mob_id": "m", "realm_id": "elsewhere"},
        ):
            found = await resolve(client, **whom)
            assert found["target_key"] == KEY
            assert found["target"] == {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "mob/m/agent/a"}}
            assert found["member"] == member
            assert {one["session_id"] for one in found["sessions"]} == {session(1), session(2)}
            assert found["as_of_seq"] > 0


async def test_who_is_not_known_still_has_a_key(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for whom, key in (
            ({"identity": "a"}, KEY),
            ({"session_id": session()}, f"session:{session()}"),
            ({"owner_key": {"kind": "label", "id": "x"}}, "owner:label:x"),
        ):
            found = await resolve(client, **whom)
            assert set(found) == {"target_key", "target", "as_of_seq"}
            assert found["target_key"] == key


async def test_the_newest_50_sessions_are_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        steps = [
            {
                "method": "workgraph/member/register",
                "params": {"realm_id": REALM, "identity": "a", "session_id": session(n)},
            }
            for n in range(60)
        ]
        await client.call("daemon/batch", steps=steps)
        await register(client, session(99))
        found = (await resolve(client, identity="a"))["sessions"]
    assert len(found) == 50
    assert found[0]["session_id"] == session(99)
    assert [one["from"] for one in found] == sorted((one["from"] for one in found), reverse=True)


async def test_a_session_of_an_active_member_is_not_taken_without_saying_so(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        owner = (await register(client, session(2)))["member"]
        binding = await bound(client)
        for n in (1, 2):
            params = {"realm_id": REALM, "identity": "b", "session_id": session(n)}
            refused = await client.refused("workgraph/member/register", **params)
            assert (refused.code, refused.data["member"]) == ("duplicate", owner)
        adopted = await register(client, session(2), "b", adopt=True)
        assert adopted["member"]["session_id"] == session(2)
        event = (await told(client, "agent:mob/m/agent/b"))[0]
        assert event["data"]["adopted_from"] == SUBJECT
        before = await resolve(client, identity="a")
        assert "session_id" not in before["member"]
        assert (before["member"]["status"], before["member"]["revision"]) == ("active", 3)
        assert (await resolve(client, session_id=session(2)))["target_key"] == "owner:agent:mob/m/agent/b"
        assert (await resolve(client, session_id=session(1)))["target_key"] == KEY
        assert await again(client, binding) == binding  # bindings stay with the identity that they name


async def test_a_former_session_is_adopted_and_the_current_one_stays(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        await register(client, session(2))
        await register(client, session(1), "b", adopt=True)
        assert (await resolve(client, identity="a"))["member"]["session_id"] == session(2)
        assert (await resolve(client, session_id=session(1)))["member"]["identity"] == "b"


async def test_a_retired_member_keeps_its_key_and_its_sessions(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        here = await do(client, "pause", await bound(client))
        there = await bound(client, namespace="other")
        elsewhere = await bound(client, {**IDENTITY, "mob_id": "m"}, realm_id="r")
        done = await retire(client, reason="gone")
        assert done["changed"] is True
        member = done["member"]
        assert (member["status"], member["revision"]) == ("retired", 2)
        assert member["retired_at"] == member["updated_at"]
        assert "session_id" not in member
        assert [one["binding_id"] for one in done["attention"]] == [
            binding["binding_id"] for binding in (elsewhere, there, here)
        ]
        event = (await told(client, SUBJECT))[-1]
        assert event["type"] == "member_retired"
        assert event["data"] == {"revision": 2, "previous_session_id": session(1), "reason": "gone"}
        repeated = await retire(client)
        assert (repeated["changed"], repeated["member"]) == (False, member)
        assert (await resolve(client, session_id=session(1)))["target_key"] == KEY
        refused = await client.refused(
            "workgraph/goal/create", realm_id=REALM, title="t", target=of_session(session(1))
        )
        assert refused.code == "occupied"


async def test_a_retired_member_comes_back_and_gives_its_session_away_silently(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = (await register(client, session(1)))["member"]
        await retire(client)
        back = await register(client, session(1))
        assert back["changed"] is True
        assert (back["member"]["status"], back["member"]["revision"]) == ("active", 3)
        assert back["member"]["registered_at"] == first["registered_at"]
        assert "retired_at" not in back["member"]
        await retire(client)
        taken = await register(client, session(1), "b")
        assert (await told(client, "agent:mob/m/agent/b"))[0]["data"]["adopted_from"] == SUBJECT
        assert (await resolve(client, session_id=session(1)))["member"] == taken["member"]


async def test_a_member_that_nobody_registered_cannot_be_retired(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1), "anna")
        await register(client, session(2), "bert", mob_id="other")
        refused = await client.refused("workgraph/member/retire", realm_id=REALM, identity="ana")
    assert (refused.code, refused.data["kind"], refused.data["near"]) == ("not_found", "member", ["anna"])


async def test_members_are_listed_by_mob_and_identity(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        names = [("m", "a"), ("m", "b"), ("m", "c"), ("n", "a")]
        for n, (mob_id, identity) in enumerate(reversed(names)):
            await register(client, session(n), identity, mob_id=mob_id)
        await retire(client, "b")

        async def found(**params: Any) -> list[tuple[str, str]]:
            met: list[tuple[str, str]] = []
            while True:
                page = await client.call("workgraph/member/list", **params)
                met += [(one["mob_id"], one["identity"]) for one in page["members"]]
                if not page["has_more"]:
                    return met
                params["cursor"] = page["next_cursor"]

        for limit in (0, 1, 2, 3, 4):
            assert await found(limit=limit) == names
            assert await found(limit=limit, mob_id="m") == names[:3]
            assert await found(limit=limit, status="active") == [names[0], *names[2:]]
            assert await found(limit=limit, status="retired", mob_id="m") == [names[1]]
            assert await found(limit=limit, mob_id="z") == []


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({"session_id": "s-1"}, "invalid_params", "/session_id"),
        ({"identity": "a/b"}, "invalid_params", "/identity"),
        ({"identity": "a b"}, "invalid_params", "/identity"),
        ({"mob_id": "m/n"}, "invalid_params", "/mob_id"),
        ({"realm_id": "a realm"}, "invalid_params", "/realm_id"),
        ({"identity": "i" * 250}, "too_large", "/identity"),
    ],
)
async def test_a_member_without_a_proper_name_is_refused(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused(
            "workgraph/member/register",
            **{"realm_id": REALM, "identity": "a", "session_id": session(), **params},
        )
    assert (refused.code, refused.data["path"]) == (code, path)


class Roster:
    """A runtime that answers from a table."""

    def __init__(self, **members: str) -> None:
        self.members = {session_id: MemberId("m", identity) for session_id, identity in members.items()}

    async def member_of(self, realm_id: str, session_id: str) -> MemberId | None:
        return self.members.get(session_id)


def believe(daemon: Served, **members: str) -> None:
    """From now on a runtime says so of these sessions."""
    daemon.app.services.runtimes.register(REALM, Roster(**members))


async def test_what_a_runtime_says_is_recorded_and_finds_what_was_written_before(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        early = await bound(client, of_session(session(1)))
        believe(daemon, **{session(1): "a"})
        # A refused call writes nothing, not even this.
        refused = await client.refused(
            "workgraph/goal/create", realm_id=REALM, title="t", target=of_session(session(1))
        )
        assert (refused.code, refused.data["occupant"]["binding_id"]) == ("occupied", early["binding_id"])
        assert refused.data["target_key"] == KEY
        assert (await again(client, early))["target_key"] == f"session:{session(1)}"
        assert (await client.call("workgraph/member/list"))["members"] == []
        # Another scope is free, and there what was said is written: everywhere.
        await bound(client, of_session(session(1)), namespace="other")
        moved = await again(client, early)
        assert (moved["target_key"], moved["revision"]) == (KEY, 2)
        member = (await resolve(client, identity="a"))["member"]
        assert (member["source"], member["session_id"]) == ("runtime", session(1))


async def test_a_binding_that_comes_to_its_member_on_the_way_is_moved_all_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        early = await bound(client, of_session(session(1)), mode="coordinate")
        believe(daemon, **{session(1): "a"})
        moved = await do(client, "reassign", early, target=of_session(session(1)))
        assert moved["target_key"] == KEY
        events = await told(client, early["binding_id"])
        assert [event["type"] for event in events] == [
            "attention_created",
            "attention_rekeyed",
            "attention_superseded",
        ]


async def test_a_runtime_may_think_better_of_it_but_a_caller_knows_best(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for n, identity in enumerate(("a", "b")):
            believe(daemon, **{session(1): identity})
            made = await bound(client, of_session(session(1)), namespace=f"n{n}")
            assert made["target_key"] == f"owner:agent:mob/m/agent/{identity}"
        assert "session_id" not in (await resolve(client, identity="a"))["member"]
        refused = await client.refused("workgraph/member/register", realm_id=REALM, identity="a", session_id=session(1))
        assert refused.code == "duplicate"
        confirmed = await register(client, session(1), "b")
        assert (confirmed["changed"], confirmed["member"]["source"]) == (True, "registered")
        believe(daemon, **{session(1): "a"})
        made = await bound(client, of_session(session(1)), namespace="n2")
        assert made["target_key"] == "owner:agent:mob/m/agent/b"


async def test_a_runtime_adds_a_session_and_leaves_the_registered_one_current(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await register(client, session(1))
        believe(daemon, **{session(2): "a"})
        assert (await bound(client, of_session(session(2))))["target_key"] == KEY
        member = (await resolve(client, session_id=session(2)))["member"]
        assert (member["source"], member["session_id"], member["revision"]) == ("registered", session(1), 2)
        found = await client.call("workgraph/attention/current", realm_id=REALM, session_id=session(2))
        assert found["superseded_session"] == session(1)
        await retire(client)
        believe(daemon, **{session(3): "a"})
        await bound(client, of_session(session(3)), namespace="other")
        assert (await resolve(client, session_id=session(3)))["member"]["status"] == "retired"
