"""Checkpoints: only the leader's, never beside a write, in steps while it is busy, and to nothing when it is quiet."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.stores import checkpoints
from interlock.stores.checkpoints import FORCE_PAGES, QUIET_TICKS, STEP_PAGES, Checkpoints
from interlock.stores.connection import connect, set_up_writer
from interlock.stores.files import StoreFile
from interlock.stores.schema import prepare
from interlock.stores.tx import EMIT, Snapshot, Tx
from tests.stores.engine import opened

PAGE = 4096
ROW = ("test", "noted", None, None, "s", None, 1, "x" * 2000)


@contextmanager
def log_of(path: Path) -> Iterator[tuple[sqlite3.Connection, Checkpoints]]:
    """A writer's connection and the checkpoints of a leader, without the writer."""
    conn = connect(path, "mode=rwc")
    prepare(conn, path)
    set_up_writer(conn, "full")
    file = StoreFile(path)
    file.remember()
    points = Checkpoints(file)
    points.leader = True
    try:
        yield conn, points
    finally:
        points.close()
        conn.close()


def size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def fill(tx: Tx) -> None:
    """About fifty pages."""
    for _ in range(100):
        tx.execute(EMIT, ROW)


async def test_the_leaders_log_stays_short_under_load_and_anothers_does_not(tmp_path: Path) -> None:
    longest = {}
    for leader in (True, False):
        async with opened(tmp_path / f"{leader}") as db:
            db.leader = leader
            assert db.leader is leader
            for _ in range(40):
                await db.write(fill)
            longest[leader] = db.stats.wal_bytes()
    assert longest[True] < 2 * STEP_PAGES * PAGE < longest[False]


async def test_a_checkpoint_on_demand_empties_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as db:
        await db.write(fill)
        assert await db.checkpoint()
        assert db.stats.wal_bytes() > 0
        assert await db.checkpoint(truncate=True)
        assert db.stats.wal_bytes() == 0
        await db.write(fill)


async def test_a_reader_keeps_what_it_sees_in_the_log(tmp_path: Path) -> None:
    entered, let_go = threading.Event(), threading.Event()

    def hold(snap: Snapshot) -> None:
        snap.head()
        entered.set()
        assert let_go.wait(30)

    async with opened(tmp_path / "store") as db:
        reading = asyncio.create_task(db.read(hold))
        await asyncio.to_thread(entered.wait)
        await db.write(fill)
        assert not await db.checkpoint(truncate=True)
        let_go.set()
        await reading
        assert await db.checkpoint(truncate=True)


def test_nothing_is_moved_while_another_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "GUARD_SECONDS", 0.01)
    path = tmp_path / "store"
    with log_of(path) as (conn, points):
        conn.execute(EMIT, ROW)
        before = path.read_bytes()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert not points.run(conn, "step")
        assert not points.run(conn, "truncate")
        assert path.read_bytes() == before
        assert not points.due(idle=True)
        other.close()
        assert points.run(conn, "step")
        assert path.read_bytes() != before


def test_a_checkpoint_holds_the_write_lock(tmp_path: Path) -> None:
    path = tmp_path / "store"
    seen: list[str] = []
    with log_of(path) as (conn, points):
        other = sqlite3.connect(path, isolation_level=None, timeout=0)

        def look(statement: str) -> None:
            if "PASSIVE" in statement:
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("BEGIN IMMEDIATE")
                seen.append(statement)

        conn.execute(EMIT, ROW)
        conn.set_trace_callback(look)
        assert points.run(conn, "step")
        other.execute("BEGIN IMMEDIATE")
        other.close()
    assert len(seen) == 1


def test_a_step_is_due_after_enough_pages_and_overdue_even_under_load(tmp_path: Path) -> None:
    with log_of(tmp_path / "store") as (_, points):
        while not points.due(idle=True):
            points.wrote(128)
        assert not points.due(idle=False)
        while not points.due(idle=False):
            points.wrote(128)
        points.leader = False
        assert not points.due(idle=False)


@pytest.mark.parametrize("changes", [1, 200])
def test_the_estimate_of_pages_follows_what_checkpoints_find(tmp_path: Path, changes: int) -> None:
    path = tmp_path / "store"
    with log_of(path) as (conn, points):
        points.run(conn, "truncate")
        longest = 0
        for step in range(8):
            while not points.due(idle=True):
                conn.execute("BEGIN IMMEDIATE")
                for _ in range(changes):
                    conn.execute(EMIT, ROW)
                conn.execute("COMMIT")
                points.wrote(changes)
            if step > 2:
                longest = max(longest, size(path) // PAGE)
            assert points.run(conn, "truncate")
    assert STEP_PAGES * 0.7 < longest < STEP_PAGES * 1.5


def test_a_quiet_log_is_moved_and_then_emptied_and_then_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with log_of(path) as (conn, points):
        conn.execute(EMIT, ROW)
        done = []
        while (action := points.tick()) is not None:
            done.append(action)
            assert points.run(conn, action)
        assert done == ["step"] * QUIET_TICKS + ["truncate"]
        assert size(path) == 0
        assert points.tick() is None
        # what another process writes counts too
        other = sqlite3.connect(path, isolation_level=None)
        other.execute(EMIT, ROW)
        other.close()
        assert points.tick() == "step"
        points.leader = False
        assert points.tick() is None


def test_a_log_past_its_limit_is_emptied_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LOG_LIMIT_BYTES", 4 * PAGE)
    path = tmp_path / "store"
    with log_of(path) as (conn, points):
        conn.execute(EMIT, ROW)
        assert points.tick() == "truncate"
        assert points.run(conn, "truncate")
        assert size(path) == 0


def test_the_forced_step_is_at_sixteen_mebibytes() -> None:
    assert FORCE_PAGES * PAGE == 16 << 20


def test_a_checkpoint_of_an_exchanged_file_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with log_of(path) as (conn, points):
        conn.execute(EMIT, ROW)
        path.rename(tmp_path / "aside")
        assert not points.run(conn, "step")
        (tmp_path / "aside").rename(path)
        assert points.run(conn, "step")


async def test_a_second_of_quiet_is_noticed_by_the_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.stores.writer.TICK_SECONDS", 0.01)
    async with opened(tmp_path / "store") as db:
        db.leader = True
        await db.write(fill)
        async with asyncio.timeout(20):
            while db.stats.wal_bytes():
                await db.read(lambda snap: snap.head())
