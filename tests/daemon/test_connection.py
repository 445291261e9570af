"""One connection: cancelling, what is in flight, back-pressure, slow clients, ends, and requests to the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from interlock.daemon.calls import ServerCalls
from interlock.daemon.output import Output
from interlock.lifecycle.refusal import Refusal
from interlock.protocol.envelope import Response
from interlock.protocol.limits import (
    OUTPUT_BYTES,
    REQUESTS_IN_FLIGHT,
    SERVER_REQUESTS,
    SUBSCRIPTIONS,
    TEXT_BYTES,
    WAITING_CALLS,
)
from tests.e2e.support import locked, note, request, rows, until
from tests.harness import PATIENCE_S, Client, Served, result_of, served

NEVER: Final = {"filter": {"events": {"types": ["fault"]}}, "timeout_ms": 60_000}
CANCELS: Final = [("$/cancelRequest", "id"), ("notifications/cancelled", "requestId"), ("cancel", "request_id")]
every_cancel = pytest.mark.parametrize(("method", "field"), CANCELS, ids=[method for method, _ in CANCELS])


def cancel(client: Client, request_id: Any, method: str = "$/cancelRequest", field: str = "id") -> None:
    """Ask for a request to be cancelled."""
    client.send({"jsonrpc": "2.0", "method": method, "params": {field: request_id}})


async def answer_of(future: asyncio.Future[dict[str, Any]]) -> str:
    """`ok`, or the code of the refusal."""
    with anyio.fail_after(PATIENCE_S):
        answer = await future
    return "ok" if "result" in answer else str(answer["error"]["data"]["code"])


@asynccontextmanager
async def held(daemon: Served, client: Client) -> AsyncIterator[asyncio.Future[dict[str, Any]]]:
    """Another process holds the write lock, and the future is of a write whose transaction has begun to wait for it."""
    await until(lambda: swept(client))
    with locked(daemon.state_dir / "interlock.sqlite3"):
        begun = client.start("ledger/send", **note("held"))
        await client.call("daemon/ping")
        yield begun


async def swept(client: Client) -> bool:
    """Whether what the start itself writes is written."""
    return "interlock_sweep_passes_total 0" not in (await client.call("daemon/metrics"))["text"]


# -- cancelling


@every_cancel
async def test_a_request_that_has_not_begun_is_cancelled(tmp_path: Path, method: str, field: str) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        request_id, future = client.begin("ledger/send", note(1))
        cancel(client, request_id, method, field)  # in the same write: read before its task runs
        assert await answer_of(future) == "cancelled"
        assert await rows(client) == {}


@every_cancel
async def test_a_write_that_is_queued_is_cancelled_and_one_that_has_begun_is_answered_with_its_result(
    tmp_path: Path, method: str, field: str
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        async with held(daemon, client) as begun:
            request_id, queued = client.begin("ledger/send", note("queued"))
            await client.call("daemon/ping")
            cancel(client, request_id, method, field)
            assert await answer_of(queued) == "cancelled"
            cancel(client, request_id - 2, method, field)  # the one that has begun
            await client.call("daemon/ping")
            assert not begun.done()
        assert await answer_of(begun) == "ok"
        assert len(await rows(client)) == 1


@every_cancel
@pytest.mark.parametrize("waiting", ["daemon/wait", "ledger/pull"])
async def test_a_waiting_call_ends_at_once(tmp_path: Path, method: str, field: str, waiting: str) -> None:
    params = NEVER if waiting == "daemon/wait" else {"role": "w", "wait_ms": 60_000}
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client(role="w") as client:
        request_id, future = client.begin(waiting, params)
        await client.call("daemon/ping")
        cancel(client, str(request_id), method, field)  # another type: another id
        await client.call("daemon/ping")
        assert not future.done()
        cancel(client, request_id, method, field)
        assert await answer_of(future) == "cancelled"


async def test_a_pull_that_is_cancelled_gives_its_mail_to_the_next(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client(role="w") as client, daemon.client() as operator:
        for n in range(30):
            request_id, future = client.begin("ledger/pull", {"wait_ms": 60_000})
            sending = operator.start("ledger/send", **note(n))
            await client.call("daemon/ping")
            cancel(client, request_id)
            await sending
            with anyio.fail_after(PATIENCE_S):
                answer = await future
            if "error" in answer:
                answer = await client.start("ledger/pull", wait_ms=60_000)
            (delivery,) = answer["result"]["deliveries"]
            assert delivery["envelope"]["op_id"] == f"op-{n}"
            await client.call("ledger/ack", msg_id=delivery["envelope"]["msg_id"])


async def test_a_cancel_after_the_answer_or_of_nonsense_is_ignored(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await client.call("daemon/ping")
        nonsense: tuple[Any, ...] = (1, True, 1.0, None, [], {}, "x" * 2000)
        for request_id in nonsense:
            cancel(client, request_id)
        client.send({"jsonrpc": "2.0", "method": "$/cancelRequest"})
        client.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": 2}})
        assert await client.call("daemon/ping")
        assert client.strays == []


# -- in flight


async def test_three_hundred_requests_at_once_are_all_answered_and_no_more_than_256_run(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client() as other:
        async with held(daemon, client):
            futures = [client.start("ledger/send", **note(n)) for n in range(300)]

            async def full() -> bool:
                status = await other.call("daemon/status")
                return bool(status["requests_in_flight"] == REQUESTS_IN_FLIGHT + 1)

            await until(full)
        assert {await answer_of(future) for future in futures} == {"ok"}
        assert len(await rows(client)) == 301


async def test_a_batch_on_top_of_full_waits_for_its_turn_and_is_answered_whole(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client() as other:
        members = [
            {"jsonrpc": "2.0", "id": f"b{n}", "method": "ledger/send", "params": note(f"b{n}")} for n in range(256)
        ]
        async with held(daemon, client):
            futures = [client.start("ledger/send", **note(n)) for n in range(200)]
            client.send(members)

            async def full() -> bool:
                status = await other.call("daemon/status")
                return bool(status["requests_in_flight"] == REQUESTS_IN_FLIGHT + 1)

            await until(full)
        assert {await answer_of(future) for future in futures} == {"ok"}
        (answer,) = await until(lambda: asyncio.sleep(0, client.strays))
        assert {one["id"] for one in answer} == {f"b{n}" for n in range(256)}
        assert all("result" in one for one in answer)


async def test_one_waiting_call_too_many_is_at_capacity_and_a_cancel_makes_room(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        waits = [client.begin("daemon/wait", NEVER) for _ in range(WAITING_CALLS)]
        refused = await client.refused("daemon/wait", **NEVER)
        assert (refused.number, refused.code, refused.data["retryable"]) == (-32004, "at_capacity", True)
        cancel(client, waits[0][0])
        assert await answer_of(waits[0][1]) == "cancelled"
        again = client.start("daemon/wait", **NEVER)
        await client.call("daemon/ping")
        assert not again.done()


async def test_a_cancel_gets_through_while_reading_is_paused(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        waits = [client.begin("daemon/wait", NEVER) for _ in range(WAITING_CALLS)]
        sends = [client.start("ledger/send", **note(n)) for n in range(500)]
        for request_id, _ in waits:
            cancel(client, request_id)
        assert {await answer_of(future) for _, future in waits} == {"cancelled"}
        assert {await answer_of(future) for future in sends} == {"ok"}


async def test_the_subscriptions_of_a_connection_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for _ in range(SUBSCRIPTIONS):
            await client.call("ledger/events/subscribe")
        refused = await client.refused("ledger/events/subscribe")
        assert refused.code == "at_capacity"


# -- ends


@pytest.mark.parametrize("framing", ["line", "header"])
async def test_the_end_of_input_ends_what_waits_and_answers_the_rest(tmp_path: Path, framing: Any) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client(framing) as client:
        waiting = client.start("daemon/wait", **NEVER)
        async with held(daemon, client) as begun:
            queued = [client.start("ledger/send", **note(n)) for n in range(100)]
            client.writer.write_eof()
            assert await answer_of(waiting) == "cancelled"
        assert await answer_of(begun) == "ok"
        assert {await answer_of(future) for future in queued} == {"ok"}
        with anyio.fail_after(PATIENCE_S):
            await client.ended.wait()
        async with daemon.client() as other:
            assert len(await rows(other)) == 101


async def test_what_a_vanished_client_held_comes_back_once_with_one_event(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as operator:
        for n in range(5):
            await operator.call("ledger/send", **note(n))
        head = (await operator.call("ledger/events/head"))["head"]
        async with daemon.client(role="w") as consumer:
            await consumer.call("ledger/pull", limit=5)
            consumer.writer.transport.abort()
        waits = {"filter": {"events": {"types": ["role_presence"]}}, "after_seq": head + 1, "timeout_ms": 10_000}
        assert (await operator.call("daemon/wait", **waits))["matched"] == ["events"]
        assert list((await rows(operator)).values()) == ["queued"] * 5
        page = await operator.call("ledger/events/since", after_seq=head, types=["ledger_state"])
        back = [event["data"]["msg_id"] for event in page["events"] if event["data"]["state"] == "queued"]
        assert len(back) == len(set(back)) == 5


async def test_what_a_vanished_client_held_comes_back_also_where_the_store_is_locked_for_long(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as operator:
        await operator.call("ledger/send", **note(1))
        async with daemon.client(role="w") as consumer:
            await consumer.call("ledger/pull")
            with locked(daemon.state_dir / "interlock.sqlite3"):
                consumer.writer.transport.abort()
                # A write that was refused means that the one of the lost connection, which came earlier, was too.
                await until(lambda: busy(operator))
        waits = {"filter": {"mail": {"role": "w"}}, "timeout_ms": 15_000}
        async with daemon.client(role="w") as other:
            assert (await other.call("daemon/wait", **waits))["matched"] == ["mail"]


async def busy(client: Client) -> bool:
    return (await client.refused("ledger/role/upsert", name="other")).code == "busy"


# -- slow clients

LARGE: Final = {"kind": "note", "to": "w", "body": {"text": "x" * (TEXT_BYTES // 2)}}


async def fill(client: Client, count: int) -> None:
    """Mail of half a mebibyte each."""
    for n in range(count):
        await client.call("ledger/send", op_id=f"large-{n}", **LARGE)


async def test_a_client_that_does_not_read_is_read_no_further_and_gets_everything_when_it_reads_again(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as other:
        await fill(other, 1)
        (msg_id,) = await rows(other)
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=1 << 21)
        writer.write(b"".join(request(n, "ledger/get", {"msg_id": msg_id}) + b"\n" for n in range(400)))
        await until(lambda: stalled(daemon))
        queued = [connection.transport.get_write_buffer_size() for connection in daemon.app.services.connections]
        assert max(queued) <= OUTPUT_BYTES
        assert await rows(other) == {msg_id: "queued"}
        with anyio.fail_after(PATIENCE_S):
            ids = [json.loads(await reader.readline())["id"] for _ in range(400)]
        assert sorted(ids) == list(range(400))
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_is_owed_answers_and_never_reads_is_closed_and_what_it_held_comes_back(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as other:
        await fill(other, 1)
        (msg_id,) = await rows(other)
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=1 << 16)
        writer.write(request(0, "ledger/attach", {"role": "w"}) + b"\n" + request(1, "ledger/pull", {}) + b"\n")
        assert await reader.readline()
        writer.write(b"".join(request(n, "ledger/get", {"msg_id": msg_id}) + b"\n" for n in range(2, 300)))
        told = await other.call(
            "daemon/wait", filter={"events": {"types": ["role_presence"]}}, timeout_ms=15000, after_seq=0
        )
        back = {"types": ["role_presence"], "roles": ["w"]}
        offline = await other.call(
            "daemon/wait", filter={"events": back}, timeout_ms=15000, after_seq=told["event"]["seq"]
        )
        assert offline["event"]["data"] == {"state": "offline"}
        assert await rows(other) == {msg_id: "queued"}
        writer.transport.abort()


async def stalled(daemon: Served) -> bool:
    """Whether a connection of it has a client that does not read."""
    return any(not connection.output.room.is_set() for connection in daemon.app.services.connections)


async def test_a_batch_whose_answer_could_never_be_sent_ends_its_connection(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as other, daemon.client() as client:
        await fill(other, 1)
        (msg_id,) = await rows(other)
        get = {"jsonrpc": "2.0", "method": "ledger/get", "params": {"msg_id": msg_id}}
        client.send([{**get, "id": n} for n in range(256)])
        with anyio.fail_after(PATIENCE_S):
            await client.ended.wait()
        assert client.strays == []
        assert await other.call("daemon/ping")


async def test_a_client_that_does_not_read_takes_no_mail_and_is_read_no_further(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as other:
        await fill(other, 40)
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=1024)
        pulls = [
            {"jsonrpc": "2.0", "id": n, "method": "ledger/pull", "params": {"role": "w", "limit": 4}} for n in range(9)
        ]
        attach = {"jsonrpc": "2.0", "id": "a", "method": "ledger/attach", "params": {"role": "w"}}
        writer.write(json.dumps(attach).encode() + b"\n")
        await reader.readline()
        for pull in pulls:
            writer.write(json.dumps(pull).encode() + b"\n")
        taken = await until(lambda: in_flight(other))
        assert taken < 36
        writer.transport.abort()
        reader.feed_eof()
        await until(lambda: all_queued(other))


async def in_flight(client: Client) -> int:
    return int((await client.call("daemon/status"))["messages"]["in_flight"])


async def all_queued(client: Client) -> bool:
    return await in_flight(client) == 0


@pytest.mark.parametrize("method", ["daemon/discover", "ledger/pull"])
async def test_large_answers_of_any_kind_reach_a_client_that_reads(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client(role="w") as client:
        await fill(client, 40)
        params = {"limit": 8} if method == "ledger/pull" else {}
        pages = [client.start(method, **params) for _ in range(200)]
        with anyio.fail_after(PATIENCE_S):
            size = sum([len(json.dumps(result_of(await page))) for page in pages])
        assert size > 2 * OUTPUT_BYTES


async def test_a_subscriber_that_does_not_read_costs_at_most_its_own_connection(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as other:
        slow, keep = await asyncio.open_unix_connection(str(daemon.socket), limit=1024)
        keep.write(b'{"jsonrpc":"2.0","id":1,"method":"ledger/events/subscribe","params":{"after_seq":0}}\n')
        await slow.readline()
        quick = await other.call("ledger/events/subscribe")
        for n in range(3000):
            other.start("ledger/send", **note(n, "x" * 200))
        seen = 0
        with anyio.fail_after(PATIENCE_S):
            while seen < 3000:
                event = await other.notified()
                if "type" not in event:  # it lagged behind its own sends: go on from there
                    quick = await other.call("ledger/events/subscribe", after_seq=event["after_seq"])
                    continue
                seen += event["type"] == "ledger_state" and event["subscription"] == quick["subscription"]
        keep.transport.abort()


async def test_forty_large_pages_at_once_reach_a_client_that_reads(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        await fill(client, 8)
        ids = list(await rows(client))
        pages = [client.start("ledger/get", msg_id=ids[n % 8]) for n in range(40)]
        with anyio.fail_after(PATIENCE_S):
            sizes = [len(result_of(await page)["envelope"]["body"]["text"]) for page in pages]
        assert sum(sizes) > 2 * OUTPUT_BYTES
        assert await client.call("daemon/ping")


# -- requests to the client


class Sink(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.lines += [json.loads(line) for line in bytes(data).splitlines()]


def peer(**options: Any) -> tuple[ServerCalls, Sink]:
    """Calls to a client, and what it receives."""
    sink = Sink()
    output = Output(lambda: None)
    output.start(sink)
    return ServerCalls(output, **options), sink


async def refused(asking: asyncio.Future[bytes]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await asking
    return caught.value


async def test_a_client_is_asked_and_its_answer_is_the_result() -> None:
    calls, sink = peer()
    asking = [asyncio.ensure_future(calls.ask("run", {"n": n})) for n in range(3)]
    await until(lambda: asyncio.sleep(0, len(sink.lines) == 3))
    assert [line["id"] for line in sink.lines] == ["srv-1", "srv-2", "srv-3"]
    assert sink.lines[0] == {"jsonrpc": "2.0", "id": "srv-1", "method": "run", "params": {"n": 0}}
    calls.answered(Response("srv-2", b'{"ok":2}', None))
    calls.answered(Response("srv-1", b"null", None))
    calls.answered(Response("srv-3", None, b'{"code":1,"message":"no room"}'))
    assert [await asking[0], await asking[1]] == [b"null", b'{"ok":2}']
    refusal = await refused(asking[2])
    assert (refusal.code, "no room" in refusal.message) == ("unavailable", True)


async def test_an_answer_that_nobody_waits_for_is_dropped_and_no_id_is_used_twice() -> None:
    calls, sink = peer(timeout_ms=50)
    assert (await refused(asyncio.ensure_future(calls.ask("run", {})))).code == "unavailable"
    for stray in ("srv-1", "srv-9", None, 1):
        calls.answered(Response(stray, b"1", None))
    asking = asyncio.ensure_future(calls.ask("run", {}))
    await until(lambda: asyncio.sleep(0, len(sink.lines) == 2))
    calls.answered(Response("srv-2", b"2", None))
    calls.answered(Response("srv-2", b"3", None))
    assert await asking == b"2"


async def test_only_so_many_requests_to_a_client_are_open() -> None:
    calls, sink = peer()
    asking = [asyncio.ensure_future(calls.ask("run", {})) for _ in range(SERVER_REQUESTS)]
    await until(lambda: asyncio.sleep(0, len(sink.lines) == SERVER_REQUESTS))
    refusal = await refused(asyncio.ensure_future(calls.ask("run", {})))
    assert (refusal.code, refusal.data["retryable"]) == ("at_capacity", True)
    calls.close()
    assert {(await refused(one)).code for one in asking} == {"unavailable"}


async def test_a_client_that_has_gone_is_not_asked() -> None:
    calls, sink = peer()
    calls.close()
    assert (await refused(asyncio.ensure_future(calls.ask("run", {})))).code == "unavailable"
    assert sink.lines == []
