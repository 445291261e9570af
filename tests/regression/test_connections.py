"""Cancels, large answers and large names on a connection."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio

from interlock.daemon import in_flight
from interlock.protocol.limits import MESSAGE_BYTES
from interlock.stores.health import STORE
from tests.harness import PATIENCE_S, Client, served


async def cancelled_before_it_ran(client: Client) -> str:
    """A pull and its cancel in one piece: the pull is cancelled before its task runs for the first time."""
    request_id, answer = client.begin("ledger/pull", {"wait_ms": 60_000})
    client.send({"jsonrpc": "2.0", "method": "cancel", "params": {"request_id": request_id}})
    with anyio.fail_after(PATIENCE_S):
        code: str = (await answer)["error"]["data"]["code"]
        return code


async def test_a_cancel_leaves_nothing_of_its_request_behind(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client(role="worker") as client:
        for _ in range(5):
            assert await cancelled_before_it_ran(client) == "cancelled"
        for shared in (in_flight.CANCELLED, in_flight.CLIENT_GONE, in_flight.DOUBLE):
            assert shared.__traceback__ is None


async def test_the_largest_message_there_can_be_is_delivered(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client(role="worker") as client:
        body = {"text": "\u0001" * (1 << 20), "image": {"mime": "image/png", "data": ""}}
        params = {"kind": "note", "to": "worker", "body": body}
        envelope = {"jsonrpc": "2.0", "id": 1 << 40, "method": "ledger/send", "params": params}
        room = MESSAGE_BYTES - len(json.dumps(envelope).encode())
        assert isinstance(body["image"], dict)
        body["image"]["data"] = "A" * (room // 4 * 4)
        await client.call("ledger/send", **params)
        pulled = await client.call("ledger/pull")
        assert pulled["deliveries"][0]["envelope"]["body"] == body
        assert len(json.dumps(pulled)) > MESSAGE_BYTES


async def test_an_unknown_name_of_megabytes_is_refused_like_any_other(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        assert (await client.refused("daemon/pinf" + "f" * 1_000_000)).code == "method_not_found"
        refused = await client.refused("ledger/events/publish", role="worker", type="handoff" * 100_000)
        assert (refused.code, refused.data["expected"]) == ("invalid_params", "handoff")


async def test_a_read_is_answered_while_a_pull_of_its_connection_waits_for_the_writer(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client(role="worker") as client:
        daemon.app.services.database.hurry()
        with closing(sqlite3.connect(daemon.state_dir / STORE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            pull = client.start("ledger/pull")
            read = client.start("ledger/query")
            first, _ = await asyncio.wait([pull, read], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            other.execute("ROLLBACK")
        assert first == {read}
        await pull
