"""What the tests of attention and members have in common: goals, sessions, spellings of one member."""

from __future__ import annotations

import uuid
from typing import Any

from tests.harness import Client

REALM = "mob.m"
KEY = "owner:agent:mob/m/agent/a"
IDENTITY: dict[str, Any] = {"kind": "identity", "identity": "a"}


def session(n: int = 1) -> str:
    """A session id, the same one for the same number."""
    return str(uuid.UUID(int=0x0199C3A27C117D4E8A513F1D2B6C9E00 + n))


def of_session(session_id: str) -> dict[str, Any]:
    """A session as a target."""
    return {"kind": "session", "session_id": session_id}


def of_owner(kind: str, id_: str, word: str = "owner") -> dict[str, Any]:
    """An owner as a target."""
    return {"kind": word, "owner_key": {"kind": kind, "id": id_}}


CURRENT, EARLIER = session(1), session(2)
SPELLINGS: dict[str, dict[str, Any]] = {
    "identity": IDENTITY,
    "identity of the mob": {**IDENTITY, "mob_id": "m"},
    "current session": of_session(CURRENT),
    "current session, braced": of_session(f"{{{CURRENT.upper()}}}"),
    "earlier session": of_session(EARLIER),
    "earlier session, plain": of_session(f"session_{EARLIER.replace('-', '')}"),
    "owner-spelled current session": of_owner("session", f" urn:uuid:{CURRENT} "),
    "owner-spelled earlier session": of_owner("session", EARLIER),
    "lowered earlier session": of_owner("session", EARLIER, "lowered_owner"),
    "owner key": of_owner("agent", "mob/m/agent/a"),
    "owner key, padded": of_owner("agent", " mob/m/agent/a "),
    "lowered form": of_owner("agent", "mob/m/agent/a", "lowered_owner"),
}
"""Every way to name member `a` of mob `m`, who had the earlier session and has the current one."""


async def register(client: Client, session_id: str, identity: str = "a", **more: Any) -> dict[str, Any]:
    """Say which session a member has now."""
    params = {"realm_id": REALM, "identity": identity, "session_id": session_id, **more}
    result: dict[str, Any] = await client.call("workgraph/member/register", **params)
    return result


async def goal(client: Client, target: dict[str, Any] = IDENTITY, **more: Any) -> dict[str, Any]:
    """Give a target something to attend to; the item and the binding."""
    params = {"realm_id": REALM, "target": target, **({} if "item_id" in more else {"title": "t"}), **more}
    result: dict[str, Any] = await client.call("workgraph/goal/create", **params)
    return result


async def bound(client: Client, target: dict[str, Any] = IDENTITY, **more: Any) -> dict[str, Any]:
    """The binding of a new goal."""
    attention: dict[str, Any] = (await goal(client, target, **more))["attention"]
    return attention


def at(binding: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The params of a change of a binding, at the revision it was read."""
    scope = {name: binding["work_ref"][name] for name in ("realm_id", "namespace")}
    return {"binding_id": binding["binding_id"], "expected_revision": binding["revision"], **scope, **more}


async def do(client: Client, what: str, binding: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Do something with a binding; what it is then."""
    after: dict[str, Any] = (await client.call(f"workgraph/attention/{what}", **at(binding, **more)))["attention"]
    return after


async def again(client: Client, binding: dict[str, Any]) -> dict[str, Any]:
    """A binding as it is now."""
    params = at(binding)
    del params["expected_revision"]
    now: dict[str, Any] = (await client.call("workgraph/attention/get", **params))["attention"]
    return now


async def close(client: Client, binding: dict[str, Any]) -> None:
    """Cancel the item of a binding."""
    ref = binding["work_ref"]
    scope = {name: ref[name] for name in ("realm_id", "namespace")}
    item = (await client.call("workgraph/get", id=ref["item_id"], **scope))["item"]
    await client.call("workgraph/close", id=item["id"], expected_revision=item["revision"], status="cancelled", **scope)


async def listed(client: Client, **filters: Any) -> list[str]:
    """The ids of the bindings that a filter finds, in order."""
    page = await client.call("workgraph/attention/list", **{"realm_id": REALM, "limit": 500, **filters})
    return [binding["binding_id"] for binding in page["attention"]]


async def faults_of(client: Client, binding: dict[str, Any]) -> list[dict[str, Any]]:
    """The faults about a binding, oldest first."""
    found = (await client.call("ledger/fault/list", kind="duplicate_attention"))["faults"]
    return [fault for fault in found if fault["subject"] == binding["binding_id"]]
