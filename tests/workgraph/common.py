"""What the tests of the work graph have in common: short ways to say things, and waits that are waits and no sleeps."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from interlock.admission import sidecar
from interlock.admission.runtime import MemberId
from interlock.daemon.tasks import end
from interlock.lifecycle.times import rfc3339
from interlock.stores.health import STORE
from tests.harness import Client, Served
from tests.ledger.common import feed, now_of


def owner(name: str) -> dict[str, Any]:
    """An Owner of this name."""
    return {"key": {"kind": "agent", "id": name}}


def target(name: str) -> dict[str, Any]:
    """A target of the same key."""
    return {"kind": "owner", "owner_key": {"kind": "agent", "id": name}}


async def create(client: Client, title: str = "t", **more: Any) -> dict[str, Any]:
    """A new item."""
    item: dict[str, Any] = (await client.call("workgraph/create", title=title, **more))["item"]
    return item


async def get(client: Client, item_id: str, **scope: Any) -> dict[str, Any]:
    """An item as it is now."""
    item: dict[str, Any] = (await client.call("workgraph/get", id=item_id, **scope))["item"]
    return item


async def claim(client: Client, item: dict[str, Any], name: str = "a", **more: Any) -> dict[str, Any]:
    """Claim an item at the revision it was read; its new state and the fence."""
    params = {"id": item["id"], "expected_revision": item["revision"], "owner": owner(name), **more}
    claimed: dict[str, Any] = await client.call("workgraph/claim", **params)
    return claimed


async def ready_ids(client: Client, **more: Any) -> list[str]:
    """The ids of what is ready, in order."""
    return [item["id"] for item in (await client.call("workgraph/ready", **{"limit": 500, **more}))["items"]]


async def told(client: Client, subject: str, *types: str) -> list[dict[str, Any]]:
    """The events about a subject, of these types where any are given."""
    wanted: dict[str, Any] = {"subjects": [subject]} | ({"types": list(types)} if types else {})
    return await feed(client, **wanted)


async def in_ms(client: Client, ms: int) -> str:
    """An instant this far from the daemon's present one."""
    return rfc3339(await now_of(client) + ms)


def sql(state_dir: Path, statement: str, *params: Any) -> int:
    """Change the store behind the daemon's back; how many rows that changed."""
    with closing(sqlite3.connect(state_dir / STORE, timeout=20)) as store, store:
        return store.execute(statement, params).rowcount


class Deaf:
    """A runtime that cannot be read."""

    async def member_of(self, realm_id: str, session_id: str) -> MemberId | None:
        raise ConnectionError(realm_id, session_id)


@contextmanager
def hindered(daemon: Served, code: str, realm: str) -> Iterator[None]:
    """With somebody else at the gate, or a runtime of the realm that fails, where a refusal is about one."""
    if code == "unavailable":
        daemon.app.services.runtimes.register(realm, Deaf())
    if code != "admission_lock_timeout":
        yield
        return
    daemon.app.services.gate.wait_ms = 30
    with closing(sqlite3.connect(daemon.state_dir / sidecar.NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def stop_sweeper() -> None:
    """End the sweeper of the daemon in this loop, so that what time does is seen before anyone has written it down."""
    await end([task for task in asyncio.all_tasks() if task.get_name() == "sweeper"])


def elapse(state_dir: Path, item_id: str) -> None:
    """Let the lease of an item have ended, the instant before its claim."""
    sql(state_dir, "UPDATE items SET lease_expires_at = claimed_at - 1 WHERE id = ?", item_id)


def at(item: dict[str, Any]) -> dict[str, Any]:
    """The params that name an item at the revision it was read."""
    return {"id": item["id"], "expected_revision": item["revision"]}


async def link(client: Client, kind: str, source: dict[str, Any], to: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A new edge, or a `blocks` edge that lets go otherwise."""
    ends = {"kind": kind, "from_id": source["id"], "to_id": to["id"]}
    edge: dict[str, Any] = (await client.call("workgraph/link", **ends, **more))["edge"]
    return edge


async def close(client: Client, item: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """End an item as it is now, whoever holds it; its last state."""
    now = await get(client, item["id"])
    params = {**at(now), "status": status, "reason": "the test says so", **more}
    closed: dict[str, Any] = (await client.call("workgraph/close", **params))["item"]
    return closed


async def since(client: Client, after: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Type, subject and data of each event of the work graph above `after`."""
    events = await feed(client, after, families=["workgraph"])
    return [(event["type"], event["subject"], event["data"]) for event in events]
