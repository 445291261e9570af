"""Attach, detach, and what becomes of mail whose holder is gone (contract ledger 2.3; `ledger/attach`, `detach`)."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from interlock.daemon.settings import LedgerSettings
from tests.harness import served, spawned
from tests.ledger.common import (
    age,
    complete,
    feed,
    head,
    history,
    other_process,
    pulled,
    row_of,
    send,
    until,
    until_event,
)

LOST = ("queued", "connection_lost")


async def test_attaching_answers_with_the_role_and_the_head_and_says_online_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        before = await head(operator)
        async with daemon.client() as first, daemon.client() as second:
            found = await first.call("ledger/attach", role="b")
            assert found == {
                "role": {"name": "b", "admin": False, "max_sessions": 1, "note_queue": True},
                "held": [],
                "lost": [],
                "as_of_seq": before + 1,
            }
            await second.call("ledger/attach", role="b")
            await second.call("ledger/attach", role="b")
            [event] = await feed(operator, before)
            assert (event["type"], event["subject"], event["role"]) == ("role_presence", "b", "b")
            assert event["data"] == {"state": "online"}
            await first.call("ledger/detach")
            assert await head(operator) == before + 1
            await second.call("ledger/detach")
        [_, event] = await feed(operator, before)
        assert (event["type"], event["data"]) == ("role_presence", {"state": "offline"})


async def test_a_connection_acts_for_every_role_it_is_attached_to_until_it_detaches(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        to_b, to_c = await send(operator, "b"), await send(operator, "c")
        await b.call("ledger/attach", role="c")
        assert await pulled(b, role="b") == [to_b]
        assert await pulled(b, role="c") == [to_c]
        assert (await b.refused("ledger/detach")).data["path"] == "/role"
        assert await b.call("ledger/detach", role="b") == {"role": "b", "requeued": 1}
        assert (await b.refused("ledger/ack", msg_id=to_b)).code == "not_owner"
        await b.call("ledger/ack", msg_id=to_c)
        await b.call("ledger/detach")
        assert (await b.call("ledger/ack", msg_id=to_b))["row"]["settled_by"] == "operator"


async def test_detaching_puts_back_what_this_connection_holds_and_then_says_offline(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        sent = [await send(operator, "b", kind) for kind in ("note", "task", "note")]
        await pulled(b)
        await b.call("ledger/ack", msg_id=sent[0])
        before = await head(operator)
        assert await b.call("ledger/detach") == {"role": "b", "requeued": 2}
        events = await feed(operator, before)
        assert [event["type"] for event in events] == ["ledger_state", "ledger_state", "role_presence"]
        assert {event["subject"] for event in events[:2]} == set(sent[1:])
        assert {(event["data"]["state"], event["data"]["reason"]) for event in events[:2]} == {("queued", "detached")}
        assert await b.call("ledger/detach", role="b") == {"role": "b", "requeued": 0}
        assert await head(operator) == before + 3


@pytest.mark.parametrize("how", ["end of input", "close", "abort"])
async def test_a_connection_that_ends_has_each_of_its_rows_put_back_once_with_one_event(
    tmp_path: Path, how: str
) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client() as operator, AsyncExitStack() as stack:
        gone, other = [await stack.enter_async_context(daemon.client(role="b")) for _ in range(2)]
        await gone.call("ledger/attach", role="c")
        await operator.call("ledger/role/upsert", name="b", max_sessions=9)
        mine = [await send(operator, to, kind) for to in ("b", "c") for kind in ("note", "task")]
        await pulled(gone, role="b", session="s1", limit=2)
        await pulled(gone, role="c", limit=2)
        others = await send(operator, "b")
        assert await pulled(other) == [others]
        before = await head(operator)
        if how == "end of input":
            await gone.end_input()
        elif how == "close":
            gone.writer.close()
        else:
            gone.writer.transport.abort()
        offline = await until_event(operator, before, types=["role_presence"])
        assert (offline["role"], offline["data"]) == ("c", {"state": "offline"})
        for msg_id in mine:
            await until(operator, msg_id, "queued", before)
        moves = await feed(operator, before, types=["ledger_state"])
        assert Counter(event["subject"] for event in moves) == Counter(mine)
        assert {(event["data"]["state"], event["data"]["reason"], event["data"]["requeued"]) for event in moves} == {
            (*LOST, 1)
        }
        assert max(event["seq"] for event in moves if event["role"] == "c") < offline["seq"]
        assert await pulled(other) == mine[:2]
        assert (await row_of(operator, mine[0]))["deliveries"] == 2


async def test_more_rows_than_fit_one_transaction_come_back_once_each_and_offline_comes_last(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        async with daemon.client(role="b") as b:
            starts = [operator.start("ledger/send", kind="note", to="b", body={"text": "x"}) for _ in range(450)]
            sent = [(await start)["result"]["msg_id"] for start in starts]
            for _ in range(5):
                await pulled(b)
            before = await head(operator)
        offline = await until_event(operator, before, types=["role_presence"])
        moves = await feed(operator, before, types=["ledger_state"])
        assert Counter(event["subject"] for event in moves) == Counter(sent)
        assert max(event["seq"] for event in moves) < offline["seq"]


async def test_a_settled_task_is_not_delivered_again_when_its_holder_is_gone(tmp_path: Path) -> None:
    """The first rule, also where the second and third would apply."""
    settings = LedgerSettings(requeue_max_attempts=1, requeue_ttl_secs=60)
    async with served(tmp_path, roles=("a", "b"), ledger=settings) as daemon, daemon.client(role="a") as a:
        async with daemon.client(role="b") as b:
            msg_id = await send(a, "b", causality={"task": "T"})
            await pulled(b)
            await b.call("ledger/requeue", msg_id=msg_id)
            await pulled(b)
            await complete(b, "a", "T")
            age(daemon.state_dir, "messages", 120_000, columns=("enqueued_at",))
        event = await until(a, msg_id, "rejected")
        assert (event["data"]["reason"], event["data"]["by"]) == ("task_settled", "daemon")
        assert (await a.call("ledger/fault/list"))["faults"] == []


async def test_a_row_beyond_the_requeue_ttl_expires_when_its_holder_is_gone(tmp_path: Path) -> None:
    """The second rule, also where the third would apply. A row in flight is not touched before."""
    settings = LedgerSettings(requeue_max_attempts=1, requeue_ttl_secs=60)
    async with served(tmp_path, roles=("a", "b"), ledger=settings) as daemon, daemon.client(role="a") as a:
        async with daemon.client(role="b") as b:
            msg_id = await send(a, "b")
            fresh = await send(a, "b", "note")
            await pulled(b)
            await b.call("ledger/requeue", msg_id=msg_id)
            await pulled(b)
            age(daemon.state_dir, "messages", 60_001, columns=("enqueued_at",), where=f"msg_id = '{msg_id}'")
        event = await until(a, msg_id, "expired")
        assert (event["data"]["reason"], event["data"]["by"]) == ("requeue_ttl", "daemon")
        assert (await a.call("ledger/fault/list"))["faults"] == []
        assert (await until(a, fresh, "queued", event["seq"] - 2))["data"]["reason"] == "connection_lost"


async def test_a_row_put_back_too_often_is_rejected_kept_and_becomes_a_fault(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_max_attempts=2)
    async with served(tmp_path, roles=("a", "b"), ledger=settings) as daemon, daemon.client(role="a") as a:
        msg_id = await send(a, "b", causality={"task": "T"})
        for n in range(3):
            seen = await head(a)
            async with daemon.client(role="b") as b:
                [delivery] = (await b.call("ledger/pull"))["deliveries"]
                assert (delivery["deliveries"], delivery["requeued"]) == (n + 1, n)
            await until(a, msg_id, "queued" if n < 2 else "rejected", seen)
        assert (await history(a, msg_id))[-3:] == [LOST, ("in_flight", None), ("rejected", "requeue_exhausted")]
        row = await row_of(a, msg_id)
        assert (row["deliveries"], row["requeued"], row["settled_by"]) == (3, 2, "daemon")
        [fault] = (await a.call("ledger/fault/list"))["faults"]
        expected = {
            "kind": "requeue_exhausted",
            "state": "open",
            "subject": "T",
            "task_id": "T",
            "msg_id": msg_id,
            "role": "b",
        }
        assert {name: fault[name] for name in expected} == expected
        [event] = await feed(a, types=["fault"])
        assert (event["subject"], event["role"], event["data"]) == (fault["fault_id"], "b", fault)


async def test_without_a_limit_a_row_is_put_back_for_ever(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_max_attempts=0)
    async with (
        served(tmp_path, roles=("b",), ledger=settings) as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
    ):
        msg_id = await send(operator, "b")
        for n in range(40):
            await pulled(b)
            assert (await b.call("ledger/requeue", msg_id=msg_id))["row"]["requeued"] == n + 1


# -- holds


async def test_holds_take_up_what_nobody_living_holds_and_take_back_what_was_queued(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="b", max_sessions=2)
        orphan = await send(operator, "b")
        assert await pulled(operator, role="b", session="s1") == [orphan]
        queued = [await send(operator, "b") for _ in range(3)]
        settled = await send(operator, "b", "note")
        await operator.call("ledger/ack", msg_id=settled)
        foreign = await send(operator, "c")
        async with daemon.client(role="b") as other, daemon.client() as b:
            elsewhere = queued.pop(0)
            assert await pulled(other, limit=1) == [elsewhere]
            before = await head(operator)
            named = [queued[1], settled, orphan, "unknown", elsewhere, foreign, queued[0], orphan]
            found = await b.call("ledger/attach", role="b", holds=named)
            assert found["held"] == [queued[1], orphan, queued[0]]
            assert found["lost"] == [settled, "unknown", elsewhere, foreign]
            events = await feed(operator, before)
            assert [(event["subject"], event["data"]["state"], event["data"]["reason"]) for event in events] == [
                (queued[1], "in_flight", "taken_back"),
                (queued[0], "in_flight", "taken_back"),
            ]
            rows = {msg_id: await row_of(operator, msg_id) for msg_id in found["held"]}
            assert [rows[msg_id]["deliveries"] for msg_id in found["held"]] == [0, 1, 0]
            assert {row["requeued"] for row in rows.values()} == {0}
            assert rows[orphan]["session"] == "s1"
            # What is held goes back when this connection ends, as if it had been pulled.
            before = await head(operator)
            await b.end_input()
            for msg_id in found["held"]:
                assert (await until(operator, msg_id, "queued", before))["data"]["reason"] == "connection_lost"


async def test_the_events_of_what_is_taken_back_come_before_online(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as b:
        msg_id = await send(operator, "b")
        before = await head(operator)
        found = await b.call("ledger/attach", role="b", holds=[msg_id])
        assert [event["type"] for event in await feed(operator, before)] == ["ledger_state", "role_presence"]
        assert (found["held"], found["as_of_seq"]) == ([msg_id], before + 2)


async def test_attaching_again_applies_holds_anew(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        assert (await b.call("ledger/attach", role="b", holds=[msg_id]))["held"] == [msg_id]
        before = await head(operator)
        assert (await b.call("ledger/attach", role="b", holds=[msg_id]))["held"] == [msg_id]
        assert await head(operator) == before
        assert await b.call("ledger/detach") == {"role": "b", "requeued": 1}


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({"role": "b", "holds": ["m"] * 501}, "too_large", "/holds"),
        ({"role": "b", "holds": [""]}, "invalid_params", "/holds/0"),
        ({}, "invalid_params", "/role"),
        ({"role": "no role"}, "invalid_params", "/role"),
    ],
)
async def test_attach_refuses_params_outside_their_bounds(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as b:
        refused = await b.refused("ledger/attach", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


# -- other processes


async def test_a_process_that_is_killed_has_its_rows_put_back_once_and_its_role_goes_offline(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        sent = [await send(operator, "b", "note") for _ in range(3)]
        async with spawned(tmp_path, stdio=True, socket=None) as process:
            client = process.stdio()
            await client.call("ledger/attach", role="b")
            assert await pulled(client) == sent
            before = await head(operator)
            process.process.kill()
            offline = await until_event(operator, before, types=["role_presence"])
            await client.close()
        assert offline["data"] == {"state": "offline"}
        moves = await feed(operator, before, types=["ledger_state"])
        assert [event["subject"] for event in moves] == sent
        assert {(event["data"]["state"], event["data"]["reason"]) for event in moves} == {LOST}


async def test_a_consumer_that_returns_before_its_death_was_noticed_keeps_its_work(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b")
        async with spawned(tmp_path, stdio=True, socket=None) as process:
            client = process.stdio()
            await client.call("ledger/attach", role="b")
            assert await pulled(client) == [msg_id]
            before = await head(operator)
            await process.kill()
            async with daemon.client() as back:
                assert (await back.call("ledger/attach", role="b", holds=[msg_id]))["held"] == [msg_id]
                # Noticed since then: the dead process's attachment is gone, ours stays, and so does the row.
                while (await operator.call("ledger/role/list"))["roles"][0]["connections"] != 1:
                    pass
                assert (await row_of(operator, msg_id))["state"] == "in_flight"
                assert [event["data"]["state"] for event in await feed(operator, before)] in (
                    [],
                    ["queued", "offline", "in_flight", "online"],  # it was noticed first, and the row taken back
                )
            await client.close()


async def test_a_living_other_process_keeps_what_it_holds(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as b:
        msg_id = await send(operator, "b")
        async with other_process(tmp_path) as other:
            await other.call("ledger/attach", role="b")
            assert await pulled(other) == [msg_id]
            assert (await b.call("ledger/attach", role="b", holds=[msg_id]))["lost"] == [msg_id]
            assert (await operator.call("ledger/role/list"))["roles"][0]["connections"] == 2
            await other.call("ledger/ack", msg_id=msg_id)


async def test_what_was_in_flight_when_the_daemon_stopped_comes_back(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        await pulled(b)
    async with served(tmp_path) as daemon, daemon.client() as operator:
        await until(operator, msg_id, "in_flight")
        event = await until(operator, msg_id, "queued", 4)
        assert event["data"]["reason"] == "connection_lost"
        assert len(await history(operator, msg_id)) == 3
        assert (await operator.call("ledger/role/list"))["roles"][0]["presence"] == "offline"
