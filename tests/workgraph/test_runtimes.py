"""An external runtime says whose a session is, where the store does not know (contract workgraph 5.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from interlock.admission.runtime import MemberId
from tests.harness import PATIENCE_S, Client, Served, served

REALM: Final = "mob.m"
SESSION: Final = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"
SPELLED: Final = "session_0199C3A27C117D4E8A513F1D2B6C9E07"
KEY: Final = "owner:agent:mob/m/agent/anna"


class Roster:
    """A runtime, as another program may be one: it answers from a table, fails when told to, and waits when told to."""

    def __init__(self, **members: str) -> None:
        self.members = {session: MemberId("m", identity) for session, identity in members.items()}
        self.asked: list[tuple[str, str]] = []
        self.fails = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def member_of(self, realm_id: str, session_id: str) -> MemberId | None:
        self.asked.append((realm_id, session_id))
        await self.answers.wait()
        if self.fails:
            raise ConnectionError("the wire is cut")
        return self.members.get(session_id)


@asynccontextmanager
async def with_runtime(tmp_path: Path, roster: Roster) -> AsyncIterator[tuple[Served, Client]]:
    """A daemon with this runtime for the realm, and a client of it."""
    async with served(tmp_path) as daemon, daemon.client() as client:
        daemon.app.services.runtimes.register(REALM, roster)
        yield daemon, client


def by_session(spelled: str = SPELLED) -> dict[str, Any]:
    """A target."""
    return {"kind": "session", "session_id": spelled}


async def create(client: Client, **more: Any) -> Any:
    """A goal for the session."""
    return await client.call("workgraph/goal/create", realm_id=REALM, title="t", target=by_session(), **more)


async def test_a_session_is_bound_under_the_member_that_the_runtime_names(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (_, client):
        made = await create(client)
        assert made["attention"]["target_key"] == KEY
        assert roster.asked == [(REALM, SESSION)]
        (member,) = (await client.call("workgraph/member/list"))["members"]
        assert (member["identity"], member["session_id"], member["source"]) == ("anna", SESSION, "runtime")


async def test_what_it_said_is_known_to_a_process_without_it(tmp_path: Path) -> None:
    async with with_runtime(tmp_path, Roster(**{SESSION: "anna"})) as (daemon, client):
        await create(client)
        daemon.app.services.runtimes.remove(REALM)
        resolved = await client.call("workgraph/member/resolve", realm_id=REALM, session_id=SPELLED)
        assert resolved["target_key"] == KEY
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=by_session())
        assert (refused.code, refused.data["target_key"]) == ("occupied", KEY)


async def test_a_positive_answer_is_asked_for_once_and_a_negative_one_every_time(tmp_path: Path) -> None:
    roster = Roster()
    async with with_runtime(tmp_path, roster) as (_, client):
        for _ in range(2):
            found = await client.call("workgraph/attention/current", realm_id=REALM, session_id=SPELLED)
            assert found["target_key"] == f"session:{SESSION}"
        assert len(roster.asked) == 2
        roster.members[SESSION] = MemberId("m", "anna")
        for _ in range(2):
            found = await client.call("workgraph/attention/current", realm_id=REALM, session_id=SPELLED)
            assert found["target_key"] == KEY
        assert len(roster.asked) == 3


async def test_lists_and_current_ask_too_however_the_session_is_spelled(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (daemon, client):
        made = await create(client)
        daemon.app.services.runtimes.register(REALM, roster)  # nothing is believed any more
        roster.asked.clear()
        owner_key = {"kind": "session", "id": SPELLED}
        listed = await client.call(
            "workgraph/attention/list", realm_id=REALM, target={"kind": "owner", "owner_key": owner_key}
        )
        assert listed["attention"] == [made["attention"]]
        found = await client.call("workgraph/attention/current", realm_id=REALM, owner_key=owner_key)
        assert found["attention"] == made["attention"]
        assert roster.asked == [(REALM, SESSION)]


async def test_a_registered_session_is_never_asked_for(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (_, client):
        await client.call("workgraph/member/register", realm_id=REALM, identity="bert", session_id=SPELLED)
        assert (await create(client))["attention"]["target_key"] == "owner:agent:mob/m/agent/bert"
        assert roster.asked == []


async def test_other_realms_and_other_targets_are_not_asked_for(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (_, client):
        await client.call("workgraph/goal/create", title="t", target=by_session())
        member = {"kind": "identity", "identity": "anna"}
        await client.call("workgraph/goal/create", realm_id=REALM, title="t", target=member)
        await client.call("workgraph/attention/list", realm_id=REALM)
        await client.call("workgraph/attention/current", realm_id=REALM, identity="anna")
        assert roster.asked == []


async def test_a_runtime_that_cannot_be_read_refuses_and_nothing_is_written(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    roster.fails = True
    async with with_runtime(tmp_path, roster) as (_, client):
        before = await client.call("ledger/events/head")
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=by_session())
        assert (refused.number, refused.code) == (-32007, "unavailable")
        assert "wire" not in refused.message
        unread = await client.refused("workgraph/attention/current", realm_id=REALM, session_id=SPELLED)
        assert unread.code == "unavailable"
        assert await client.call("ledger/events/head") == before
        roster.fails = False
        assert (await create(client))["attention"]["target_key"] == KEY


@pytest.mark.parametrize("identity", ["", "a/b", "two words", "x" * 300])
async def test_a_runtime_that_answers_with_what_is_no_name_cannot_be_read(tmp_path: Path, identity: str) -> None:
    async with with_runtime(tmp_path, Roster(**{SESSION: identity})) as (_, client):
        refused = await client.refused("workgraph/goal/create", realm_id=REALM, title="t", target=by_session())
        assert refused.code == "unavailable"
        assert (await client.call("workgraph/attention/list", realm_id=REALM))["attention"] == []


async def test_a_repetition_does_not_ask(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (daemon, client):
        first = await create(client, op_id="once")
        daemon.app.services.runtimes.register(REALM, roster)
        roster.fails = True
        assert await create(client, op_id="once") == {**first, "replayed": True}


async def test_a_step_of_a_batch_asks_before_the_batch_begins(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    async with with_runtime(tmp_path, roster) as (_, client):
        new = {"realm_id": REALM, "title": "t"}
        bind = {"realm_id": REALM, "item_id": {"$ref": "/0/item/id"}, "expected_revision": 1, "target": by_session()}
        steps = [
            {"method": "workgraph/create", "params": new},
            {"method": "workgraph/goal/create", "params": bind},
        ]
        made = await client.call("daemon/batch", steps=steps)
        assert made["results"][1]["attention"]["target_key"] == KEY
        wrong = {**bind, "target": by_session("none")}
        refused = await client.refused("daemon/batch", steps=[steps[0], {**steps[1], "params": wrong}])
        assert (refused.code, refused.data["step"]) == ("invalid_params", 1)


async def test_the_writer_goes_on_while_a_runtime_is_asked_and_a_cancel_ends_it(tmp_path: Path) -> None:
    roster = Roster(**{SESSION: "anna"})
    roster.answers.clear()
    async with with_runtime(tmp_path, roster) as (_, client):
        params = {"realm_id": REALM, "title": "t", "target": by_session()}
        request_id, waiting = client.begin("workgraph/goal/create", params)
        await client.call("workgraph/create", title="t")
        assert not waiting.done()
        client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request_id}})
        with anyio.fail_after(PATIENCE_S):
            assert (await waiting)["error"]["data"]["code"] == "cancelled"
        roster.answers.set()
        assert (await create(client))["attention"]["target_key"] == KEY
