"""What time does to mail: ttl of notes, deadlines of families, mail nobody fetches (contract ledger 2.4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from interlock.daemon.settings import LedgerSettings
from interlock.lifecycle.times import rfc3339
from interlock.stores.health import STORE
from tests.harness import Client, served
from tests.ledger.common import (
    age,
    complete,
    feed,
    head,
    history,
    now_of,
    pulled,
    row_of,
    send,
    until,
    until_past,
)

NEAR_MS = 1000
"""A deadline far enough away to be accepted, and near enough to wait for."""


async def soon(client: Client) -> str:
    return rfc3339(await now_of(client) + NEAR_MS)


async def test_a_queued_note_expires_at_its_time_and_says_so(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b", "note", ttl_ms=1)
        event = await until(operator, msg_id, "expired")
        assert (event["data"]["reason"], event["data"]["by"]) == ("expired", "daemon")
        row = await row_of(operator, msg_id)
        assert row["enqueued_at"] < row["expires_at"] <= row["settled_at"]
        assert row["settled_by"] == "daemon"


async def test_a_note_that_is_due_is_not_offered_whether_or_not_it_was_swept(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        unswept = 0
        for _ in range(20):
            msg_id = await send(operator, "b", "note", ttl_ms=1)
            await until_past(operator, (await row_of(operator, msg_id))["expires_at"])
            wait = await b.call("daemon/wait", filter={"mail": {"role": "b"}}, timeout_ms=0)
            assert wait["matched"] == []
            assert await pulled(b) == []
            unswept += (await row_of(operator, msg_id))["state"] == "queued"
        assert unswept, "the sweeper was always quicker: this proved nothing"


async def test_a_note_in_flight_expires_too_and_is_not_delivered_again(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b", "note", ttl_ms=NEAR_MS)
        assert await pulled(b) == [msg_id]
        await until(operator, msg_id, "expired")
        assert await b.call("ledger/detach") == {"role": "b", "requeued": 0}


async def test_a_note_that_was_put_back_keeps_its_time(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        async with daemon.client(role="b") as b:
            msg_id = await send(operator, "b", "note", ttl_ms=NEAR_MS)
            assert await pulled(b) == [msg_id]
        await until(operator, msg_id, "expired")
        assert [reason for _, reason in await history(operator, msg_id)] == [None, None, "connection_lost", "expired"]


async def test_a_waiting_task_expires_at_its_familys_deadline_and_one_in_flight_does_not(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        deadline = await soon(operator)
        worked = await send(operator, "b", causality={"task": "root", "deadline": deadline})
        assert await pulled(b) == [worked]
        waits = await send(operator, "b", causality={"parent_task": "root"})
        event = await until(operator, waits, "expired")
        assert (event["data"]["reason"], event["data"]["by"]) == ("deadline", "daemon")
        assert (await row_of(operator, worked))["state"] == "in_flight"
        # Put back it waits again, and it is over.
        await b.call("ledger/requeue", msg_id=worked)
        assert await pulled(b) == []
        assert (await until(operator, worked, "expired"))["data"]["reason"] == "deadline"


async def test_a_completion_never_expires_by_a_deadline(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        about = {"task": "T", "deadline": "2001-01-01T00:00:00Z"}
        answer = await send(operator, "b", "completion", causality=about, outcome="done")
        await until(operator, await send(operator, "b", "note", ttl_ms=1), "expired")  # a sweep has passed
        assert await pulled(b) == [answer]


async def test_what_became_due_while_nobody_ran_expires_at_the_next_start(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        note = await send(operator, "b", "note", ttl_ms=3_600_000)
        task = await send(operator, "b", causality={"deadline": rfc3339(await now_of(operator) + 3_600_000)})
        kept = await send(operator, "b", "note", ttl_ms=36_000_000)
    age(tmp_path / "state", "messages", 3_600_001, columns=("due_at", "enqueued_at"))
    async with served(tmp_path) as daemon, daemon.client() as operator:
        assert (await until(operator, note, "expired"))["data"]["reason"] == "expired"
        assert (await until(operator, task, "expired"))["data"]["reason"] == "deadline"
        assert (await row_of(operator, kept))["state"] == "queued"


async def test_mail_that_an_absent_role_never_fetched_expires_where_the_setting_says_so(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_ttl_secs=60)
    async with served(tmp_path, roles=("gone", "here"), ledger=settings) as daemon, daemon.client() as operator:
        async with daemon.client(role="gone") as gone:
            put_back = await send(operator, "gone")
            await pulled(gone)
        await until(operator, put_back, "queued", await head(operator) - 3)
        async with daemon.client(role="here") as here:
            attended = await send(operator, "here")
            note = await send(operator, "gone", "note")
            over = [await send(operator, "gone"), await complete(operator, "gone", "T")]
            age(daemon.state_dir, "messages", 60_001, columns=("enqueued_at",))
            fresh = await send(operator, "gone")
            for msg_id in over:
                event = await until(operator, msg_id, "expired")
                assert (event["data"]["reason"], event["data"]["by"]) == ("requeue_ttl", "daemon")
            states = [(await row_of(operator, one))["state"] for one in (put_back, attended, note, fresh)]
            assert states == ["queued"] * 4
            assert await pulled(here) == [attended]


async def test_mail_beyond_the_ttl_of_an_absent_role_is_offered_to_nobody_before_the_sweep(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_ttl_secs=60)
    async with served(tmp_path, roles=("b",), ledger=settings) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b")
        age(daemon.state_dir, "messages", 60_001, columns=("enqueued_at",))
        assert await pulled(operator, role="b") == []
        await until(operator, msg_id, "expired")


async def test_more_due_rows_than_one_page_are_all_expired_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, daemon.client() as operator:
        starts = [operator.start("ledger/send", kind="note", to="b", body={"text": "x"}, ttl_ms=1) for _ in range(450)]
        sent = [(await start)["result"]["msg_id"] for start in starts]
        for msg_id in sent:
            await until(operator, msg_id, "expired")
        moves = await feed(operator, types=["ledger_state"])
        assert sorted(event["subject"] for event in moves if event["data"]["state"] == "expired") == sorted(sent)


async def test_a_row_the_sweeper_cannot_read_becomes_a_fault_and_stops_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        bad = await send(operator, "b", "note", ttl_ms=3_600_000)
        good = await send(operator, "b", "note", ttl_ms=3_600_000)
    age(tmp_path / "state", "messages", 3_600_001, columns=("due_at",))
    with closing(sqlite3.connect(tmp_path / "state" / STORE)) as store, store:
        store.execute("UPDATE messages SET ttl_ms = 'soon' WHERE msg_id = ?", (bad,))
    async with served(tmp_path) as daemon, daemon.client() as operator:
        await until(operator, good, "expired")
        [fault] = (await operator.call("ledger/fault/list", kind="bad_row"))["faults"]
        assert (fault["msg_id"], fault["role"], fault["state"]) == (bad, "b", "open")
