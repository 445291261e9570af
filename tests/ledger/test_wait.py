"""`daemon/wait`: one wait for everything, with no gap between looking and waiting (contract daemon 3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.harness import PATIENCE_S, result_of, served
from tests.ledger.common import body, feed, head, other_process, pulled, send, until_waiting
from tests.ledger.test_wakeups import turns

MAIL = {"mail": {"role": "b"}}
STATES = {"events": {"types": ["ledger_state"]}}


async def test_a_condition_that_holds_is_answered_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        start = await head(operator)
        await send(operator, "b", "note")
        await send(operator, "b", "note")
        last = await head(operator)
        for timeout in (0, 60_000):
            found = await operator.call("daemon/wait", filter=MAIL, timeout_ms=timeout)
            assert found == {"matched": ["mail"], "as_of_seq": last}
            found = await operator.call("daemon/wait", filter=STATES, after_seq=start, timeout_ms=timeout)
            [first, _] = await feed(operator, start)
            assert found == {"matched": ["events"], "as_of_seq": last, "event": first}
            both = await operator.call("daemon/wait", filter=MAIL | STATES, after_seq=start, timeout_ms=timeout)
            assert both == {"matched": ["mail", "events"], "as_of_seq": last, "event": first}


async def test_the_events_condition_counts_from_the_head_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await send(operator, "b", "note")
        last = await head(operator)
        assert await operator.call("daemon/wait", filter=STATES, timeout_ms=1) == {"matched": [], "as_of_seq": last}


async def test_waiting_event_by_event_sees_each_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as waiter:
        after = await head(operator)
        starts = [operator.start("ledger/send", kind="note", to="b", body=body()) for _ in range(40)]
        seen = []
        for _ in starts:
            event = (await waiter.call("daemon/wait", filter=STATES, after_seq=after))["event"]
            after = event["seq"]
            seen.append(event["subject"])
        assert seen == [result_of(await begun)["msg_id"] for begun in starts]


@pytest.mark.parametrize("condition", ["mail", "events"])
async def test_hundreds_of_sends_between_a_look_and_its_wait_are_all_noticed(tmp_path: Path, condition: str) -> None:
    wanted: dict[str, Any] = MAIL if condition == "mail" else STATES
    async with (
        served(tmp_path, roles=("b",), durability="normal") as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
    ):
        with anyio.fail_after(2 * PATIENCE_S):
            for n in range(400):
                after = {"after_seq": await head(b)} if condition == "events" else {}
                waiting = b.start("daemon/wait", filter=wanted, timeout_ms=60_000, **after)
                await turns(n % 24)
                msg_id = await send(operator, "b", "note")
                found = result_of(await waiting)
                assert found["matched"] == [condition]
                if condition == "events":
                    assert found["event"]["subject"] == msg_id
                await pulled(b)


async def test_a_wait_without_a_cursor_sees_what_is_sent_behind_it_on_the_same_connection(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, daemon.client() as client:
        with anyio.fail_after(2 * PATIENCE_S):
            for _ in range(300):
                waiting = client.start("daemon/wait", filter=STATES, timeout_ms=60_000)
                msg_id = await send(client, "b", "note")
                assert result_of(await waiting)["event"]["subject"] == msg_id


async def test_another_process_ends_a_wait_of_either_kind(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, other_process(tmp_path) as other, daemon.client() as operator:
        for wanted in (MAIL, STATES, MAIL | STATES):
            waiting = operator.start("daemon/wait", filter=wanted, timeout_ms=60_000)
            async with daemon.client() as watcher:
                await until_waiting(watcher, 1)
            msg_id = await send(other, "b", "note")
            found = result_of(await waiting)
            assert found["matched"] == sorted(wanted, reverse=True)
            if "events" in wanted:
                assert found["event"]["subject"] == msg_id
            await pulled(operator, role="b")


async def test_mail_holds_exactly_where_a_pull_would_be_given_something(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:

        async def mail(**wanted: Any) -> bool:
            found = await operator.call("daemon/wait", filter={"mail": {"role": "b", **wanted}}, timeout_ms=0)
            return bool(found["matched"])

        assert not await mail()
        await send(operator, "b#s1")
        assert await mail()
        assert await mail(session="s1")
        assert not await mail(session="s2")
        assert not await mail(kinds=["note"])
        await pulled(b, session="s1")
        await send(operator, "b")
        assert not await mail()  # at capacity
        await send(operator, "b", "note")
        assert await mail()
        assert await mail(kinds=["note", "task"])
        assert not await mail(kinds=["task"])


async def test_freed_capacity_and_a_raised_bound_make_mail_hold(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        first, _, _ = [await send(operator, "b") for _ in range(3)]
        await pulled(b)
        waiting = b.start("daemon/wait", filter=MAIL, timeout_ms=60_000)
        await until_waiting(operator, 1)
        await b.call("ledger/ack", msg_id=first)
        assert result_of(await waiting)["matched"] == ["mail"]
        await pulled(b)
        waiting = b.start("daemon/wait", filter=MAIL, timeout_ms=60_000)
        await until_waiting(operator, 1)
        await operator.call("ledger/role/upsert", name="b", max_sessions=2)
        assert result_of(await waiting)["matched"] == ["mail"]


async def test_a_wait_reserves_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("b",)) as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as first,
        daemon.client(role="b") as second,
    ):
        waits = [client.start("daemon/wait", filter=MAIL, timeout_ms=60_000) for client in (first, second)]
        await until_waiting(operator, 2)
        await send(operator, "b", "note")
        assert [result_of(await waiting)["matched"] for waiting in waits] == [["mail"], ["mail"]]
        assert [len(await pulled(client)) for client in (first, second)] == [1, 0]


async def test_the_time_out_is_an_answer_with_the_next_cursor(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        waiting = operator.start("daemon/wait", filter={"events": {"types": ["fault"]}}, after_seq=0, timeout_ms=50)
        await send(operator, "b", "note")
        found = result_of(await waiting)
        assert found == {"matched": [], "as_of_seq": await head(operator)}


async def test_a_match_behind_many_others_is_found(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        waiting = operator.start("daemon/wait", filter={"events": {"types": ["fault"]}}, timeout_ms=60_000)
        async with daemon.client() as watcher:
            await until_waiting(watcher, 1)
        starts = [operator.start("ledger/send", kind="note", to="b", body=body()) for _ in range(200)]
        fault = await operator.call("ledger/fault/record", kind="k", reason="r", task_id="T")
        assert result_of(await waiting)["event"]["data"] == fault["fault"]
        for begun in starts:
            await begun


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({"filter": {}}, "invalid_params", "/filter"),
        ({}, "invalid_params", "/filter"),
        ({"filter": {"mial": {"role": "b"}}}, "invalid_params", "/filter/mial"),
        ({"filter": {"mail": {}}}, "invalid_params", "/filter/mail/role"),
        ({"filter": {"mail": {"role": "b", "kinds": []}}}, "invalid_params", "/filter/mail/kinds"),
        ({"filter": {"events": {"types": ["ledger_stat"]}}}, "invalid_params", "/filter/events/types/0"),
        ({"filter": MAIL, "timeout_ms": 60_001}, "limit_out_of_range", "/timeout_ms"),
        ({"filter": MAIL, "timeout_ms": -1}, "limit_out_of_range", "/timeout_ms"),
    ],
)
async def test_a_wait_for_nothing_or_for_too_long_is_refused(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("daemon/wait", **params)
        assert (refused.code, refused.data["path"]) == (code, path)
        assert refused.data.get("expected") or refused.data["max"] == 60_000


async def test_a_cancelled_wait_is_answered_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as watcher:
        request_id, waiting = operator.begin("daemon/wait", {"filter": MAIL, "timeout_ms": 60_000})
        await until_waiting(watcher, 1)
        operator.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request_id}})
        error = (await waiting)["error"]
        assert (error["code"], error["data"]["code"]) == (-32005, "cancelled")


async def test_the_end_of_input_ends_the_waits(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as watcher, daemon.client() as client:
        waits = [client.start("daemon/wait", filter=MAIL, timeout_ms=60_000) for _ in range(3)]
        await until_waiting(watcher, 3)
        await client.end_input()
        answers = await asyncio.gather(*waits)
        assert [answer["error"]["data"]["code"] for answer in answers] == ["cancelled"] * 3
