"""The waits of `ledger/pull`: no gap between looking and waiting, whoever it is that brings what is waited for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from tests.harness import PATIENCE_S, Client, result_of, served
from tests.ledger.common import (
    body,
    complete,
    feed,
    history,
    other_process,
    pulled,
    row_of,
    send,
    until_waiting,
)

ROUNDS = 1000


async def turns(count: int) -> None:
    """Let the loop turn this often: a different interleaving for each count."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_thousand_sends_between_a_look_and_its_wait_are_all_noticed(tmp_path: Path) -> None:
    """The pull and the send start together, a varying number of turns apart, from either side."""
    async with (
        served(tmp_path, roles=("b",), durability="normal") as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
    ):
        with anyio.fail_after(2 * PATIENCE_S):
            for n in range(ROUNDS):
                apart = n // 2 % 24
                if n % 2:
                    pull = b.start("ledger/pull", wait_ms=60_000)
                    await turns(apart)
                    sent = operator.start("ledger/send", kind="note", to="b", body=body())
                else:
                    sent = operator.start("ledger/send", kind="note", to="b", body=body())
                    await turns(apart)
                    pull = b.start("ledger/pull", wait_ms=60_000)
                [delivery] = result_of(await pull)["deliveries"]
                assert delivery["envelope"]["msg_id"] == result_of(await sent)["msg_id"]


async def consume(client: Client, into: list[str]) -> None:
    """Pull, acking what comes, until the end marker comes."""
    while True:
        for delivery in (await client.call("ledger/pull", limit=2, wait_ms=15_000))["deliveries"]:
            envelope = delivery["envelope"]
            if envelope["body"]["text"] == "end":
                return
            into.append(envelope["msg_id"])
            await client.call("ledger/ack", msg_id=envelope["msg_id"])


async def test_several_waiters_share_what_comes_and_each_row_goes_to_one(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, AsyncExitStack() as stack:
        consumers = [await stack.enter_async_context(daemon.client(role="b")) for _ in range(4)]
        operator = await stack.enter_async_context(daemon.client())
        await operator.call("ledger/role/upsert", name="b", max_sessions=3)
        got: list[list[str]] = [[] for _ in consumers]
        sent = []
        async with asyncio.TaskGroup() as group:
            for client, into in zip(consumers, got, strict=True):
                group.create_task(consume(client, into))
            for n in range(250):
                sent.append(await send(operator, "b", "task" if n % 2 else "note"))
                await turns(n % 7)
            async with asyncio.timeout(PATIENCE_S):
                while (depth := (await operator.call("ledger/depth", role="b"))["depths"][0])["queued"]:
                    assert depth["in_flight"] <= 3 + 4 * 2
            for _ in consumers:
                await send(operator, "b", "control", control={"op": "cancel", "task_id": "T"}, body=body("end"))
        assert sorted(msg_id for into in got for msg_id in into) == sorted(sent)


async def test_freed_capacity_ends_a_wait(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("b",)) as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
        daemon.client(role="b") as other,
    ):
        for free in ("ack", "reject", "expire"):
            first, second = [await send(operator, "b") for _ in range(2)]
            assert await pulled(b) == [first]
            pull = other.start("ledger/pull", wait_ms=60_000)
            await until_waiting(operator, 1)
            await b.call(f"ledger/{free}", msg_id=first)
            assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == second
            await other.call("ledger/ack", msg_id=second)


async def test_a_session_that_becomes_free_ends_its_wait(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await operator.call("ledger/role/upsert", name="b", max_sessions=5)
        first, second = [await send(operator, "b") for _ in range(2)]
        assert await pulled(b, session="s") == [first]
        pull = b.start("ledger/pull", session="s", wait_ms=60_000)
        await until_waiting(operator, 1)
        await b.call("ledger/ack", msg_id=first)
        assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == second


async def test_raising_max_sessions_ends_a_wait(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        first, second = [await send(operator, "b") for _ in range(2)]
        assert await pulled(b) == [first]
        pull = b.start("ledger/pull", wait_ms=60_000)
        await until_waiting(operator, 1)
        await operator.call("ledger/role/upsert", name="b", max_sessions=2)
        assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == second


async def test_a_row_that_is_put_back_ends_a_wait(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b", "note")
        async with daemon.client(role="b") as other:
            assert await pulled(other) == [msg_id]
            pull = b.start("ledger/pull", wait_ms=60_000)
            await until_waiting(operator, 1)
        [delivery] = result_of(await pull)["deliveries"]
        assert (delivery["envelope"]["msg_id"], delivery["requeued"]) == (msg_id, 1)


async def test_another_process_that_sends_acks_or_raises_the_capacity_ends_a_wait(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("b",)) as daemon,
        other_process(tmp_path) as other,
        daemon.client(role="b") as b,
        daemon.client() as operator,
    ):
        for n in range(25):
            pull = b.start("ledger/pull", wait_ms=60_000)
            await turns(n)
            msg_id = await send(other, "b", "note")
            assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == msg_id
        first, second, third = [await send(other, "b") for _ in range(3)]
        assert await pulled(b) == [first]
        pull = b.start("ledger/pull", wait_ms=60_000)
        await until_waiting(operator, 1)
        await other.call("ledger/ack", msg_id=first)
        assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == second
        pull = b.start("ledger/pull", wait_ms=60_000)
        await until_waiting(operator, 1)
        await other.call("ledger/role/upsert", name="b", max_sessions=2)
        assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == third


async def test_mail_for_another_session_does_not_end_a_wait_empty_handed(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        pull = b.start("ledger/pull", session="s", kinds=["note"], wait_ms=60_000)
        await until_waiting(operator, 1)
        await send(operator, "b#other", "note")
        await send(operator, "b#s")
        mine = await send(operator, "b#s", "note")
        assert result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] == mine


async def test_a_wait_ends_empty_at_its_time_out_and_says_what_was_held_back(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        found = await b.call("ledger/pull", wait_ms=1)
        assert (found["deliveries"], "at_capacity" in found) == ([], False)
        await send(operator, "b")
        await pulled(b)
        await send(operator, "b")
        found = await b.call("ledger/pull", wait_ms=1)
        assert (found["deliveries"], found["at_capacity"]) == ([], True)


async def test_a_cancelled_wait_takes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        for n, (method, param) in enumerate(
            (("$/cancelRequest", "id"), ("notifications/cancelled", "requestId"), ("cancel", "request_id"))
        ):
            request_id, pull = b.begin("ledger/pull", {"wait_ms": 60_000})
            await until_waiting(operator, 1)
            b.send({"jsonrpc": "2.0", "method": method, "params": {param: request_id}})
            answer = await pull
            assert answer["error"]["data"]["code"] == "cancelled"
            msg_id = await send(operator, "b", "note")
            assert await history(operator, msg_id) == [("queued", None)]
            assert await pulled(b) == [msg_id], n


async def test_a_cancel_at_any_moment_either_takes_nothing_or_answers_with_what_it_took(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("b",), durability="normal") as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
    ):
        taken = 0
        for n in range(200):
            msg_id = await send(operator, "b", "note")
            request_id, pull = b.begin("ledger/pull", {"wait_ms": 60_000})
            await turns(n % 40)
            b.send({"jsonrpc": "2.0", "method": "cancel", "params": {"request_id": request_id}})
            answer = await pull
            state = (await row_of(operator, msg_id))["state"]
            if "result" in answer:
                taken += 1
                assert state == "in_flight"
            else:
                assert (answer["error"]["data"]["code"], state) == ("cancelled", "queued")
            await operator.call("ledger/expire", msg_id=msg_id)
        assert taken


async def test_a_connection_that_goes_while_it_waits_takes_nothing_with_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        async with daemon.client(role="b") as b:
            b.start("ledger/pull", wait_ms=60_000)
            await until_waiting(operator, 1)
            b.writer.transport.abort()
            msg_id = await send(operator, "b", "note")
            async with daemon.client(role="b") as other:
                [delivery] = (await other.call("ledger/pull", wait_ms=20_000))["deliveries"]
                assert delivery["envelope"]["msg_id"] == msg_id
                states = [state for state, _ in await history(operator, msg_id)]
        # Once, or once more where the send was quicker than the news of the end.
        assert states in (["queued", "in_flight"], ["queued", "in_flight"] * 2)


async def test_at_most_128_calls_of_a_connection_wait_and_ordinary_requests_still_run(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        pulls = [b.start("ledger/pull", kinds=["note"], wait_ms=60_000) for _ in range(128)]
        refused = await b.refused("ledger/pull", wait_ms=1)
        assert (refused.number, refused.code, refused.data["retryable"]) == (-32004, "at_capacity", True)
        assert (await b.refused("daemon/wait", filter={"events": {}}, timeout_ms=1)).code == "at_capacity"
        assert await pulled(b) == []
        await complete(b, "b", "T")
        for _ in pulls:
            await send(operator, "b", "note")
        got = [result_of(await pull)["deliveries"][0]["envelope"]["msg_id"] for pull in pulls]
        assert len(set(got)) == 128
        offers = await feed(operator, types=["ledger_state"])
        assert len([one for one in offers if one["data"]["state"] == "in_flight"]) == 128


async def test_a_drain_ends_the_waits_with_draining(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        pull = b.start("ledger/pull", wait_ms=60_000)
        wait = b.start("daemon/wait", filter={"events": {}}, timeout_ms=60_000)
        await until_waiting(operator, 2)
        assert await operator.call("daemon/shutdown") == {"state": "draining"}
        for waiting in (pull, wait):
            error = (await waiting)["error"]
            assert (error["code"], error["data"]["code"], error["data"]["retryable"]) == (-32006, "draining", True)
