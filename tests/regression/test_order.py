"""What is said in one breath: an attach holds for whatever was sent behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio

from tests.harness import PATIENCE_S, Client, result_of, served


async def test_a_pull_sent_behind_an_attach_is_held_by_the_connection(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as operator:
        sent = await operator.call("ledger/send", kind="note", to="worker", body={"text": "x"})
        async with daemon.client() as consumer:
            asked = [consumer.start("ledger/attach", role="worker"), consumer.start("ledger/pull")]
            with anyio.fail_after(PATIENCE_S):
                pulled = result_of((await asyncio.gather(*asked))[1])
            assert [one["envelope"]["msg_id"] for one in pulled["deliveries"]] == [sent["msg_id"]]
        await moved(operator, sent["msg_id"], "in_flight", "queued")


async def moved(operator: Client, msg_id: str, *states: str) -> dict[str, Any]:
    """Wait until a message has been in these states one after the other; the data of the last move."""
    wanted = {"events": {"subjects": [msg_id]}}
    after, left = 0, list(states)
    while True:
        found = await operator.call("daemon/wait", filter=wanted, after_seq=after)
        after, data = found["event"]["seq"], found["event"]["data"]
        if data["state"] == left[0]:
            left.pop(0)
        if not left:
            return dict(data)


async def test_a_detach_sent_behind_an_attach_and_a_pull_gives_the_mail_back(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("worker",)) as daemon,
        daemon.client() as operator,
        daemon.client() as consumer,
    ):
        await operator.call("ledger/send", kind="note", to="worker", body={"text": "x"})
        methods = ("ledger/attach", "ledger/pull", "ledger/detach", "ledger/attach", "ledger/pull")
        asked = [consumer.start(method, role="worker") for method in methods]
        with anyio.fail_after(PATIENCE_S):
            done = [result_of(answer) for answer in await asyncio.gather(*asked)]
        assert [len(pulled["deliveries"]) for pulled in (done[1], done[4])] == [1, 1]
        assert done[2] == {"role": "worker", "requeued": 1}


async def test_a_batch_of_messages_may_attach_first(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("worker",)) as daemon,
        daemon.client() as operator,
        daemon.client() as consumer,
    ):
        sent = await operator.call("ledger/send", kind="note", to="worker", body={"text": "x"})
        consumer.send(
            [
                {"jsonrpc": "2.0", "id": "attach", "method": "ledger/attach", "params": {"role": "worker"}},
                {"jsonrpc": "2.0", "id": "ack", "method": "ledger/ack", "params": {"msg_id": sent["msg_id"]}},
            ]
        )
        assert (await moved(operator, sent["msg_id"], "acked"))["by"] == "worker"
