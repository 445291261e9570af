"""What the tests of the work graph have in common: short ways to say things, and waits that are waits and no sleeps."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from interlock.admission import sidecar
from interlock.admission.runtime import MemberId
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
