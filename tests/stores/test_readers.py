"""The readers: one snapshot each, never in the writer's way, bounded in time, clean after whatever ended a read."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.stores.clock import SystemClock, Timeline
from interlock.stores.files import StoreFile
from interlock.stores.readers import READERS, Readers
from interlock.stores.tx import Snapshot
from tests.stores.engine import Gate, note, opened, subjects

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


class Held:
    """A read that looks, waits until it is let go, and looks again."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, snap: Snapshot) -> tuple[list[str], list[str]]:
        first = subjects(snap)
        self.entered.set()
        assert self.let_go.wait(30)
        return first, subjects(snap)


def endless(snap: Snapshot) -> int:
    (n,) = snap.execute(ENDLESS).fetchone()
    return int(n)


def pool(path: Path, seconds: float) -> Readers:
    """Readers of their own, with another time limit."""
    file = StoreFile(path)
    file.remember()
    return Readers(file, Timeline(SystemClock()), seconds=seconds)


async def test_a_read_sees_one_moment_however_long_it_takes(tmp_path: Path) -> None:
    held = Held()
    async with opened(tmp_path / "store") as db:
        await db.write(note("a"))
        reading = asyncio.create_task(db.read(held))
        await asyncio.to_thread(held.entered.wait)
        await db.write(note("b"))
        held.let_go.set()
        assert await reading == (["a"], ["a"])
        assert await db.read(subjects) == ["a", "b"]


async def test_reads_are_answered_while_a_write_is_held(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:
        await db.write(note("a"))
        held = asyncio.create_task(db.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        assert await asyncio.gather(*(db.read(subjects) for _ in range(20))) == [["a"]] * 20
        gate.open()
        await held


async def test_as_many_reads_as_readers_run_side_by_side_and_the_next_waits_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        held = [Held() for _ in range(READERS)]
        reading = [asyncio.create_task(db.read(one)) for one in held]
        for one in held:
            await asyncio.to_thread(one.entered.wait)
        waiting = asyncio.create_task(db.read(subjects))
        await asyncio.sleep(0)
        assert not waiting.done()
        held[2].let_go.set()
        assert await waiting == []
        for one in held:
            one.let_go.set()
        await asyncio.gather(*reading)


async def test_a_snapshot_knows_head_floor_and_instant(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        assert await db.read(lambda snap: (snap.head(), snap.floor())) == (0, 0)
        await db.write(note("a"))
        await db.write(lambda tx: tx.execute("DELETE FROM events"))
        assert await db.read(lambda snap: snap.head()) == 1
        assert await db.read(lambda snap: snap.now) > 1_700_000_000_000


async def test_a_read_cannot_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        with pytest.raises(Refusal) as refused:
            await db.read(lambda snap: snap.execute("DELETE FROM roles"))
        assert refused.value.data["reason"] == "SQLITE_READONLY"
        assert await db.read(lambda snap: snap.execute("SELECT count(*) FROM roles").fetchone()) == (1,)


async def test_what_a_read_raises_is_what_its_caller_gets(tmp_path: Path) -> None:
    def fail(snap: Snapshot) -> None:
        rows = snap.execute("SELECT name FROM facts")
        rows.fetchone()  # a cursor that is not read to its end must not hold the snapshot
        raise ValueError("mine")

    async with opened(tmp_path / "store") as db:
        kept = []
        for _ in range(READERS + 1):
            with pytest.raises(ValueError, match="mine") as raised:
                await db.read(fail)
            kept.append(raised.value)
        await db.write(note("a"))
        assert await asyncio.gather(*(db.read(subjects) for _ in range(READERS))) == [["a"]] * READERS


async def test_a_read_that_takes_too_long_is_stopped_and_its_connection_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        await db.write(note("a"))
        readers = pool(path, 0.05)
        for _ in range(READERS + 1):
            with pytest.raises(Refusal) as refused:
                await readers.run(endless)
            assert refused.value.code == "read_timeout"
        assert await readers.run(subjects) == ["a"]
        await readers.close()


async def test_a_read_of_many_short_statements_is_stopped_too(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def many(snap: Snapshot) -> None:
        for _ in itertools.count():
            snap.execute("SELECT 1").fetchone()

    async with opened(path):
        readers = pool(path, 0.05)
        with pytest.raises(Refusal) as refused:
            await readers.run(many)
        assert refused.value.code == "read_timeout"
        await readers.close()


async def test_a_cancelled_read_is_stopped_and_its_connection_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        reading = [asyncio.create_task(db.read(endless)) for _ in range(READERS)]
        await asyncio.to_thread(db.stats.wal_bytes)  # a turn of the loop, so that they have begun
        waiting = asyncio.create_task(db.read(subjects))
        await asyncio.sleep(0)
        for task in reading:
            task.cancel()
        for task in reading:
            with pytest.raises(asyncio.CancelledError):
                await task
        await db.write(note("a"))
        assert await waiting in (["a"], [])
        assert await asyncio.gather(*(db.read(subjects) for _ in range(READERS))) == [["a"]] * READERS


async def test_a_read_cancelled_while_it_waits_leaves_its_turn_to_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        held = [Held() for _ in range(READERS)]
        reading = [asyncio.create_task(db.read(one)) for one in held]
        for one in held:
            await asyncio.to_thread(one.entered.wait)
        waiting = [asyncio.create_task(db.read(subjects)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        held[0].let_go.set()
        assert await asyncio.gather(*waiting[1:]) == [[], []]
        assert waiting[0].cancelled()
        for one in held:
            one.let_go.set()
        await asyncio.gather(*reading)


async def test_cancelled_at_any_moment_a_read_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        await db.write(note("a"))
        for turns in range(12):
            readers = pool(path, 5)
            for _ in range(4):  # while its connections are being opened, and then with open ones
                tasks = [asyncio.create_task(readers.run(subjects)) for _ in range(READERS + 2)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(result == ["a"] for result in results[1::2])
                assert all(result == ["a"] or isinstance(result, asyncio.CancelledError) for result in results[::2])
            await readers.close()


async def test_closing_stops_what_runs_and_refuses_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path):
        readers = pool(path, 30)
        held = [Held() for _ in range(READERS - 1)]
        running = [asyncio.create_task(readers.run(one)) for one in held]
        for one in held:
            await asyncio.to_thread(one.entered.wait)
        opening = asyncio.create_task(readers.run(endless))
        waiting = asyncio.create_task(readers.run(subjects))
        await asyncio.sleep(0)
        closing = asyncio.create_task(readers.close())
        await asyncio.sleep(0)
        for one in held:
            one.let_go.set()
        await closing
        results = await asyncio.gather(*running, return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["draining"] * (READERS - 1)
        for call in (opening, waiting, readers.run(subjects)):
            with pytest.raises(Refusal) as refused:
                await call
            assert refused.value.code == "draining"
        await readers.close()
