"""The writer: what is answered is durable, each job succeeds or fails alone, and its failures pass."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.stores import batch, writer
from interlock.stores.errors import StatementFailed
from interlock.stores.tx import Tx
from tests.stores.engine import Counted, Gate, HandClock, note, opened, refuse, stored, subjects


def fail_late(tx: Tx) -> None:
    tx.emit("test", "noted", "undone", {})
    tx.count("undone")
    raise ValueError("after a write")


async def test_what_is_answered_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        assert await db.write(note("a")) == 1
        assert stored(path) == ["a"]
    assert stored(path) == ["a"]


async def test_events_go_out_in_order_and_before_their_callers_are_answered(tmp_path: Path) -> None:
    log: list[object] = []

    def published(events: list[Event]) -> None:
        log.extend(event.seq for event in events)

    async with opened(tmp_path / "store", on_commit=published) as db:

        async def write(subject: str) -> None:
            log.append(f"answered {await db.write(note(subject))}")

        await asyncio.gather(*(write(str(i)) for i in range(4)))
    assert log == [1, 2, 3, 4, "answered 1", "answered 2", "answered 3", "answered 4"]


async def test_an_event_says_what_the_row_says(tmp_path: Path) -> None:
    events: list[Event] = []
    clock = HandClock(wall=1_796_126_400_123)
    async with opened(tmp_path / "store", clock=clock, on_commit=events.extend) as db:
        await db.write(
            lambda tx: tx.emit("ledger", "fault", "f", {"n": 1}, role="r", realm_id="main", namespace="default")
        )
        await db.write(lambda tx: tx.emit("ledger", "fault", "f", b'{"n": 2}'))
    assert [bytes(event.data) for event in events] == [b'{"n":1}', b'{"n": 2}']
    first = events[0]
    assert (first.seq, first.family, first.type, first.subject) == (1, "ledger", "fault", "f")
    assert (first.role, first.realm_id, first.namespace) == ("r", "main", "default")
    assert first.at == "2026-12-01T12:00:00.123Z"


async def test_many_jobs_share_one_transaction_and_one_instant(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path / "store", clock=clock) as db:

        def now(tx: Tx) -> int:
            clock.run(1)
            tx.emit("test", "noted", "x", {})
            return tx.now

        instants = await asyncio.gather(*(db.write(now) for _ in range(50)))
        assert len(set(instants)) == 1
        assert (db.stats.jobs, db.stats.commits) == (50, 1)
        assert db.stats.commit_seconds > 0


async def test_ids_are_minted_inside_the_transaction_and_ascend(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        minted = await db.write(lambda tx: [tx.new_id("msg") for _ in range(3)])
        assert [text[:4] for text in minted] == ["msg_"] * 3
        assert minted == sorted(set(minted))
        assert uuid.UUID(await db.write(lambda tx: tx.new_id(""))).version == 7


async def test_more_jobs_than_a_batch_take_more_transactions(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        await asyncio.gather(*(db.write(note("x")) for _ in range(writer.BATCH + 1)))
        assert db.stats.commits == 2


async def test_time_never_goes_back_even_behind_another_process(tmp_path: Path) -> None:
    path = tmp_path / "store"
    fast, slow = HandClock(wall=2_000_000), HandClock(wall=1_000_000)
    async with opened(path, clock=slow) as db, opened(path, clock=fast) as other:
        await other.write(note("a"))
        assert await db.write(lambda tx: tx.now) == 2_000_000
        assert await db.read(lambda snap: snap.now) == 2_000_000


async def test_a_refusal_before_any_write_costs_its_neighbours_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    jobs = [Counted(note("a")), Counted(refuse), Counted(note("b"))]
    async with opened(path) as db:
        results = await asyncio.gather(*(db.write(job) for job in jobs), return_exceptions=True)
    assert results[::2] == [1, 2]
    assert isinstance(results[1], Refusal)
    assert [job.runs for job in jobs] == [1, 1, 1]
    assert stored(path) == ["a", "b"]


async def test_an_error_after_a_write_undoes_that_job_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    events: list[Event] = []
    jobs = [Counted(note("a")), Counted(fail_late), Counted(refuse), Counted(fail_late), Counted(note("b"))]
    async with opened(path, on_commit=events.extend) as db:
        results = await asyncio.gather(*(db.write(job) for job in jobs), return_exceptions=True)
        assert "undone" not in db.stats.counters
    assert (results[0], results[4]) == (1, 2)
    assert [type(result) for result in results[1:4]] == [ValueError, Refusal, ValueError]
    # the first run stopped at the first error after a write; the second had a savepoint for each
    assert [job.runs for job in jobs] == [2, 2, 1, 1, 1]
    assert [event.subject for event in events] == stored(path) == ["a", "b"]
    assert [event.seq for event in events] == [1, 2]


async def test_a_lonely_job_that_fails_late_is_undone_without_a_second_run(tmp_path: Path) -> None:
    path = tmp_path / "store"
    job = Counted(fail_late)
    async with opened(path) as db:
        with pytest.raises(ValueError, match="after a write"):
            await db.write(job)
        assert await db.write(note("a")) == 1
    assert job.runs == 1
    assert stored(path) == ["a"]


async def test_counters_count_what_was_committed(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        await asyncio.gather(*(db.write(lambda tx: tx.count("seen", 2)) for _ in range(3)))
        await db.write(lambda tx: tx.count("seen"))
        assert db.stats.counters == {"seen": 7}


async def test_a_job_that_changes_nothing_is_no_commit(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        assert await db.write(lambda tx: tx.head()) == 0
        assert (db.stats.jobs, db.stats.commits) == (1, 0)


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError(), TimeoutError("x"), SystemExit(3)])
async def test_whatever_a_job_raises_neither_harms_its_neighbours_nor_the_writer(
    tmp_path: Path, error: BaseException
) -> None:
    def fail(tx: Tx) -> None:
        raise error

    async with opened(tmp_path / "store") as db:
        first = asyncio.create_task(db.write(note("a")))
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - each kind comes out in its own way
            await db.write(fail)
        assert error in (raised.value, raised.value.__cause__)
        assert await first == 1
        assert await db.write(note("b")) == 2


async def test_a_broken_constraint_is_a_bug_without_sql_in_it(tmp_path: Path) -> None:
    insert = "INSERT INTO facts(name, value) VALUES ('floor', 1)"

    def tolerant(tx: Tx) -> str:
        with pytest.raises(sqlite3.IntegrityError):
            tx.execute(insert)
        tx.emit("test", "noted", "tolerant", {})
        return "went on"

    path = tmp_path / "store"
    async with opened(path) as db:
        results = await asyncio.gather(
            db.write(note("a")), db.write(lambda tx: tx.execute(insert)), db.write(tolerant), return_exceptions=True
        )
        assert (results[0], results[2]) == (1, "went on")
        assert isinstance(results[1], StatementFailed)
        assert "INSERT" not in str(results[1])
        assert db.failed is None
    assert stored(path) == ["a", "tolerant"]


async def test_a_job_that_ends_the_transaction_under_its_neighbours_fails_them_all(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        results = await asyncio.gather(
            db.write(note("a")),
            db.write(lambda tx: tx.execute("ROLLBACK")),
            db.write(note("b")),
            return_exceptions=True,
        )
        assert [getattr(result, "code", None) for result in results] == ["store_failed"] * 3
        assert len({id(result) for result in results}) == 3
        assert await db.write(note("c")) == 1
    assert stored(path) == ["c"]


async def test_a_listener_that_fails_does_not_keep_the_answer_back(tmp_path: Path) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def listener(events: list[Event]) -> None:
        raise ValueError("deaf")

    async with opened(tmp_path / "store", on_commit=listener) as db:
        assert await db.write(note("a")) == 1
        assert await db.write(note("b")) == 2
    assert [str(context["exception"]) for context in reported] == ["deaf", "deaf"]


async def test_a_full_queue_is_busy(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:
        held = asyncio.create_task(db.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        queued = [asyncio.create_task(db.write(note("x"))) for _ in range(writer.QUEUE)]
        await asyncio.sleep(0)
        assert db.queue_length == writer.QUEUE
        with pytest.raises(Refusal) as refused:
            await db.write(note("one too many"))
        assert (refused.value.code, refused.value.data["retry_after_ms"]) == ("busy", 100)
        gate.open()
        assert await held == "through"
        assert await asyncio.gather(*queued) == list(range(1, writer.QUEUE + 1))
        assert db.queue_length == 0


async def test_a_lock_held_elsewhere_for_too_long_is_busy_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "BUSY_SECONDS", 0.05)
    path = tmp_path / "store"
    async with opened(path) as db:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        results = await asyncio.gather(db.write(note("a")), db.write(note("b")), return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["busy", "busy"]
        assert db.failed is None
        assert await db.read(subjects) == []
        other.execute("ROLLBACK")
        other.close()
        assert await db.write(note("c")) == 1
    assert stored(path) == ["c"]


async def test_a_lock_held_elsewhere_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(db.write(note("a")))
        await db.read(subjects)  # the writer has long begun to wait
        assert not task.done()
        other.execute("ROLLBACK")
        other.close()
        assert await task == 1


async def test_the_probe_is_written_and_read_back(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        assert await db.probe() > 0
        assert db.stats.commits == 1


async def test_the_data_version_changes_with_every_commit_of_anybody(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db, opened(path) as other:
        first = await db.data_version()
        assert await db.data_version() == first
        await other.write(note("a"))
        second = await db.data_version()
        assert second != first
        await db.write(note("b"))
        assert await db.data_version() not in (first, second)


async def test_two_processes_that_write_at_once_lose_nothing_and_the_feed_has_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db, opened(path) as other:

        async def write(name: str, to: Any) -> list[int]:
            return [await to.write(note(name)) for _ in range(40)]

        seqs = await asyncio.gather(*(write(name, to) for name, to in (("a", db), ("b", other), ("c", db))))
        assert sorted(seq for some in seqs for seq in some) == list(range(1, 121))
        assert await db.read(lambda snap: snap.head()) == 120
