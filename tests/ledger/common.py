"""What the tests of delivery have in common: short ways to say things, and waits that are waits and no sleeps."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from interlock.lifecycle.times import parse_rfc3339
from interlock.stores.health import STORE
from tests.harness import Client, spawned

SOON = 20_000
"""Patience of a `daemon/wait`, ms."""


def body(text: str = "text") -> dict[str, str]:
    """A body."""
    return {"text": text}


async def send(client: Client, to: str, kind: str = "task", **more: Any) -> str:
    """Send a message; its id."""
    said = {"body": body(), **more} if kind != "control" else more
    receipt = await client.call("ledger/send", kind=kind, to=to, **said)
    msg_id: str = receipt["msg_id"]
    return msg_id


async def complete(client: Client, to: str, task: str, outcome: str = "done", **more: Any) -> str:
    """Send a completion; its id."""
    return await send(client, to, "completion", causality={"task": task}, outcome=outcome, **more)


async def pulled(client: Client, **params: Any) -> list[str]:
    """The ids that a pull offers."""
    found = await client.call("ledger/pull", **{"limit": 100, **params})
    return [one["envelope"]["msg_id"] for one in found["deliveries"]]


async def row_of(client: Client, msg_id: str) -> dict[str, Any]:
    """The row of a message."""
    found: dict[str, Any] = (await client.call("ledger/get", msg_id=msg_id))["row"]
    return found


async def feed(client: Client, after: int = 0, **wanted: Any) -> list[dict[str, Any]]:
    """Every event of the feed above `after` that matches."""
    found: list[dict[str, Any]] = []
    while True:
        page = await client.call("ledger/events/since", after_seq=after, limit=500, **wanted)
        found += page["events"]
        after = page["scanned_seq"]
        if not page["has_more"]:
            return found


async def history(client: Client, msg_id: str) -> list[tuple[str, str | None]]:
    """State and reason of every move of a message, from its storing on."""
    events = await feed(client, subjects=[msg_id], types=["ledger_state"])
    return [(event["data"]["state"], event["data"].get("reason")) for event in events]


async def until(client: Client, msg_id: str, state: str, after: int = 0) -> dict[str, Any]:
    """Wait until a message comes to a state, above `after`; the event that says so."""
    wanted = {"events": {"subjects": [msg_id], "types": ["ledger_state"]}}
    while True:
        found = await client.call("daemon/wait", filter=wanted, after_seq=after, timeout_ms=SOON)
        assert found["matched"] == ["events"], f"{msg_id} did not become {state}"
        event: dict[str, Any] = found["event"]
        if event["data"]["state"] == state:
            return event
        after = event["seq"]


async def until_event(client: Client, after: int = 0, **wanted: Any) -> dict[str, Any]:
    """Wait for the first event above `after` that matches."""
    found = await client.call("daemon/wait", filter={"events": wanted}, after_seq=after, timeout_ms=SOON)
    assert found["matched"] == ["events"], f"no such event came: {wanted}"
    event: dict[str, Any] = found["event"]
    return event


async def head(client: Client) -> int:
    """The head of the feed."""
    found: int = (await client.call("ledger/events/head"))["head"]
    return found


async def until_waiting(client: Client, count: int) -> None:
    """Until this many requests of other connections run, as the status counts them (its own is one more)."""
    while (await client.call("daemon/status"))["requests_in_flight"] != count + 1:
        pass


@asynccontextmanager
async def other_process(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a second process on the state directory of `served`, over its stdio."""
    async with spawned(tmp_path, stdio=True, socket=None) as process:
        client = process.stdio()
        try:
            yield client
        finally:
            await client.close()


async def now_of(client: Client) -> int:
    """The daemon's clock, ms since 1970."""
    return parse_rfc3339((await client.call("daemon/ping"))["now"])


async def until_past(client: Client, instant: str) -> None:
    """Until the daemon's clock is beyond an instant that is a few ms away."""
    while await now_of(client) <= parse_rfc3339(instant):
        pass


def age(state_dir: Path, what: str, ms: int, *, columns: tuple[str, ...], where: str = "1") -> None:
    """Make rows of the store older than they are: time that the tests need not wait for."""
    older = ", ".join(f"{column} = {column} - {ms}" for column in columns)
    with closing(sqlite3.connect(state_dir / STORE, timeout=20)) as store, store:
        store.execute(f"UPDATE {what} SET {older} WHERE {where}")
