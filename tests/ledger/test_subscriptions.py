"""`ledger/events/subscribe unsubscribe`: every event once and in order, whoever wrote it (contract ledger 8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.harness import PATIENCE_S, Client, connect, served
from tests.ledger.common import feed, head, other_process, send


async def received(client: Client, until_seq: int) -> list[dict[str, Any]]:
    """The events of a client's one subscription, up to and with this seq."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["seq"] < until_seq:
        found.append(await client.notified("events/event"))
    return found


async def write(client: Client, role: str, count: int) -> None:
    for n in range(count):
        await send(client, role, "note", body={"text": f"{role} {n}"})


async def test_a_subscription_without_a_cursor_begins_at_the_head_and_sends_whole_events(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as reader:
        start = await head(operator)
        subscribed = await reader.call("ledger/events/subscribe")
        assert subscribed["after_seq"] == start
        assert subscribed["subscription"].startswith("sub_")
        await send(operator, "b", "note")
        [event] = await feed(operator, start)
        assert await reader.notified("events/event") == {"subscription": subscribed["subscription"], **event}


async def test_the_answer_comes_before_the_first_event(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon:
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket))
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"ledger/events/subscribe","params":{"after_seq":0}}\n')
        first, second = await reader.readline(), await reader.readline()
        assert b'"result"' in first
        assert b"events/event" in second
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("foreign", [False, True])
async def test_catching_up_goes_over_into_live_without_a_gap_or_a_repeat_while_others_write(
    tmp_path: Path, foreign: bool
) -> None:
    async with served(tmp_path, roles=("a", "b"), durability="normal") as daemon, daemon.client() as operator:
        await write(operator, "a", 150)
        async with other_process(tmp_path) as other, daemon.client() as reader:
            writers = [operator, other if foreign else operator]
            async with asyncio.TaskGroup() as group:
                group.create_task(write(writers[0], "a", 150))
                group.create_task(write(writers[1], "b", 150))
                await reader.call("ledger/events/subscribe", after_seq=0)
            last = await head(operator)
            found = await received(reader, last)
        assert [event["seq"] for event in found] == list(range(1, last + 1))


async def test_two_subscriptions_of_one_connection_go_their_own_ways(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client() as reader:
        mine = (await reader.call("ledger/events/subscribe", roles=["a"]))["subscription"]
        every = (await reader.call("ledger/events/subscribe", types=["ledger_state"]))["subscription"]
        assert mine != every
        await send(operator, "b", "note")
        await send(operator, "a", "note")
        found = [await reader.notified("events/event") for _ in range(3)]
        assert sorted((event["subscription"], event["role"]) for event in found) == sorted(
            [(every, "b"), (every, "a"), (mine, "a")]
        )
        assert (await operator.call("daemon/status"))["subscriptions"] == 2


async def test_what_another_process_writes_arrives_too(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, other_process(tmp_path) as other, daemon.client() as reader:
        await reader.call("ledger/events/subscribe", types=["ledger_state"])
        await other.call("ledger/events/subscribe", types=["ledger_state"])
        for client in (other, reader, other):
            msg_id = await send(client, "b", "note")
            assert (await reader.notified("events/event"))["subject"] == msg_id
            assert (await other.notified("events/event"))["subject"] == msg_id


async def test_nothing_of_a_subscription_follows_the_answer_that_ends_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b"), durability="normal") as daemon, daemon.client() as operator:
        for _ in range(20):
            async with daemon.client() as reader:
                subscription = (await reader.call("ledger/events/subscribe", after_seq=0))["subscription"]
                writing = asyncio.ensure_future(write(operator, "a", 10))
                ended = await reader.call("ledger/events/unsubscribe", subscription=subscription)
                seen = [reader.notifications.get_nowait()["params"]["seq"] for _ in range(reader.notifications.qsize())]
                await writing
                await reader.call("daemon/ping")
                assert reader.notifications.empty()
                assert ended == {"subscription": subscription, "after_seq": seen[-1] if seen else 0}
                assert seen == list(range(1, len(seen) + 1))
                again = await reader.refused("ledger/events/unsubscribe", subscription=subscription)
                assert (again.code, again.data["kind"]) == ("not_found", "subscription")


async def test_an_ended_subscription_says_where_to_go_on_also_when_it_sent_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as reader:
        found = await reader.call("ledger/events/subscribe", types=["fault"])
        await send(operator, "b", "note")
        ended = await reader.call("ledger/events/unsubscribe", subscription=found["subscription"])
        assert ended["after_seq"] >= found["after_seq"]
        resumed = await reader.call("ledger/events/since", after_seq=ended["after_seq"], types=["fault"])
        assert resumed["events"] == []


async def test_a_subscription_of_another_connection_cannot_be_ended(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as reader:
        subscription = (await reader.call("ledger/events/subscribe"))["subscription"]
        assert (await operator.refused("ledger/events/unsubscribe", subscription=subscription)).code == "not_found"
        msg_id = await send(operator, "b", "note")
        assert (await reader.notified("events/event"))["subject"] == msg_id


async def test_a_connection_has_at_most_64_subscriptions_and_a_place_is_free_again_after_one_ends(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as reader, daemon.client() as other:
        starts = [reader.start("ledger/events/subscribe") for _ in range(65)]
        answers = [await start for start in starts]
        refused = [answer["error"]["data"]["code"] for answer in answers if "error" in answer]
        assert refused == ["at_capacity"]
        subscription = next(answer["result"]["subscription"] for answer in answers if "result" in answer)
        await reader.call("ledger/events/unsubscribe", subscription=subscription)
        for _ in range(3):  # a refused one takes no place
            assert (await reader.refused("ledger/events/subscribe", after_seq=10**9)).code == "cursor_ahead"
        await reader.call("ledger/events/subscribe")
        await other.call("ledger/events/subscribe")


async def test_a_drain_closes_the_subscriptions_with_the_place_to_go_on(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as reader:
        subscription = (await reader.call("ledger/events/subscribe"))["subscription"]
        await send(operator, "b", "note")
        event = await reader.notified("events/event")
        await operator.call("daemon/shutdown")
        assert await reader.notified("events/closed") == {
            "subscription": subscription,
            "after_seq": event["seq"],
            "reason": "draining",
        }


async def test_a_live_reader_that_stops_lags_is_told_where_to_go_on_and_harms_nobody(tmp_path: Path) -> None:
    """Events of 60 KB fill the way to a reader that does not read; the 257th behind them is one too many."""
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, daemon.client() as operator:
        slow = await connect(daemon.socket)
        async with daemon.client() as quick:
            start = await head(operator)
            subscription = (await slow.call("ledger/events/subscribe"))["subscription"]
            await quick.call("ledger/events/subscribe")
            slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
            large = {"type": "handoff", "role": "b", "payload": "x" * 60_000}
            for _ in range(40):
                await operator.call("ledger/events/publish", **large)
            starts = [operator.start("ledger/send", kind="note", to="b", body={"text": "x"}) for _ in range(300)]
            for begun in starts:
                await begun
            last = await head(operator)
            assert [event["seq"] for event in await received(quick, last)] == list(range(start + 1, last + 1))
            slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
            seen = []
            with anyio.fail_after(PATIENCE_S):
                while (message := await slow.notifications.get())["method"] == "events/event":
                    seen.append(message["params"]["seq"])
            assert message["method"] == "events/lagged"
            assert message["params"] == {"subscription": subscription, "after_seq": seen[-1]}
            assert seen == list(range(start + 1, seen[-1] + 1))
            assert seen[-1] < last
            # It goes on from there, catching up at its own pace, and does not lag.
            await slow.call("ledger/events/subscribe", after_seq=seen[-1])
            assert [event["seq"] for event in await received(slow, last)] == list(range(seen[-1] + 1, last + 1))
            metrics = (await operator.call("daemon/metrics"))["text"]
            assert "interlock_subscription_lagged_total 1" in metrics
        await slow.close()


async def test_a_reader_that_catches_up_slowly_never_lags(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, daemon.client() as operator:
        large = {"type": "handoff", "role": "b", "payload": "x" * 60_000}
        for _ in range(100):
            await operator.call("ledger/events/publish", **large)
        slow = await connect(daemon.socket)
        await slow.call("ledger/events/subscribe", after_seq=0)
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        starts = [operator.start("ledger/send", kind="note", to="b", body={"text": "x"}) for _ in range(300)]
        for begun in starts:
            await begun
        last = await head(operator)
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert [event["seq"] for event in await received(slow, last)] == list(range(1, last + 1))
        await slow.close()


async def test_a_connection_that_ends_ends_its_subscriptions(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        async with daemon.client() as reader:
            await reader.call("ledger/events/subscribe")
        while (await operator.call("daemon/status"))["subscriptions"]:
            pass
