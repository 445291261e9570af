"""Cancels, large answers and large names on a connection."""

from __future__ import annotations

import json
from pathlib import Path

import anyio

from interlock.daemon import connection
from interlock.protocol.limits import MESSAGE_BYTES
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
        for shared in (connection.CANCELLED, connection.CLIENT_GONE, connection.DOUBLE):
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
