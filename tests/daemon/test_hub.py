"""The hub: who listens is told every event once and in order, whichever process wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from interlock.daemon.hub import Hub, Waiter
from interlock.daemon.tasks import end
from interlock.lifecycle.events import Event
from interlock.stores.clock import SystemClock
from interlock.stores.database import Database
from interlock.stores.ids import Ids
from interlock.stores.tx import Tx
from tests.harness import PATIENCE_S


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.nudges = 0
        self._changed = asyncio.Event()

    def offer(self, event: Event) -> None:
        self.seqs.append(event.seq)
        self._changed.set()

    def nudge(self) -> None:
        self.nudges += 1
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Until what was told is enough."""
        with anyio.fail_after(PATIENCE_S):
            while not done():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def process(path: Path) -> AsyncIterator[tuple[Database, Hub]]:
    """One process's store and hub. Two of them on one file are as two processes: neither tells the other."""
    hub: Hub | None = None
    database = await Database.open(
        path,
        clock=SystemClock(),
        ids=Ids(),
        durability="normal",
        on_commit=lambda events: None if hub is None else hub.committed(events),
    )
    hub = Hub(database, await database.read(lambda snap: snap.head()))
    running = asyncio.create_task(hub.run())
    try:
        yield database, hub
    finally:
        await end([running])
        await database.close()


def say(tx: Tx) -> int:
    """A job that emits one event."""
    return tx.emit("test", "said", "x", {})


def say_thrice(tx: Tx) -> int:
    """A job that emits three."""
    say(tx)
    say(tx)
    return say(tx)


async def test_own_events_are_told_in_order_and_once_and_only_to_who_listens(tmp_path: Path) -> None:
    heard = Heard()
    async with process(tmp_path / "db") as (database, hub):
        with hub.listening(heard):
            await heard.until(lambda: heard.nudges > 0)  # what happened before is for the listener to look up
            for _ in range(20):
                await database.write(say_thrice)
            await heard.until(lambda: len(heard.seqs) == 60)
        await database.write(say)
    assert heard.seqs == list(range(1, 61))


async def test_another_processs_events_are_told_too(tmp_path: Path) -> None:
    heard, slow = Heard(), Heard()
    async with process(tmp_path / "db") as (_, hub), process(tmp_path / "db") as (other, _):
        with hub.listening(heard), hub.listening(slow, slow=True):
            await heard.until(lambda: heard.nudges > 0)
            for n in range(5):
                await other.write(say)
                await heard.until(lambda: len(heard.seqs) == n + 1)  # noqa: B023 - awaited here
    assert heard.seqs == slow.seqs == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [40, 700])
async def test_both_at_once_are_told_without_gap_or_repeat(tmp_path: Path, count: int) -> None:
    heard = Heard()
    async with process(tmp_path / "db") as (mine, hub), process(tmp_path / "db") as (other, _):
        with hub.listening(heard):
            await heard.until(lambda: heard.nudges > 0)
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(mine.write(say))
                    group.create_task(other.write(say))
            await heard.until(lambda: len(heard.seqs) == 2 * count)
    assert heard.seqs == list(range(1, 2 * count + 1))


async def test_consumers_that_come_and_go_miss_nothing_that_another_process_does_meanwhile(tmp_path: Path) -> None:
    async with process(tmp_path / "db") as (_, hub), process(tmp_path / "db") as (other, _):
        for _ in range(10):
            waiter = Waiter(lambda event: True)
            with hub.listening(waiter):
                await other.write(say)
                with anyio.fail_after(PATIENCE_S):
                    await waiter.wait()


async def test_a_waiter_wakes_for_what_matches_and_only_that(tmp_path: Path) -> None:
    async with process(tmp_path / "db") as (database, hub):
        third = Waiter(lambda event: event.seq == 3)
        first = Heard()
        with hub.listening(first):
            await first.until(lambda: first.nudges > 0)
            with hub.listening(third):
                waiting = asyncio.create_task(third.wait())
                await database.write(say)
                await database.write(say)
                assert not waiting.done()
                await database.write(say)
                with anyio.fail_after(PATIENCE_S):
                    await waiting


async def test_a_listener_may_leave_and_come_while_it_is_told(tmp_path: Path) -> None:
    heard = Heard()

    class Fickle(Heard):
        """Leaves at the first event."""

        def offer(self, event: Event) -> None:
            super().offer(event)
            left.set()

    left = asyncio.Event()
    async with process(tmp_path / "db") as (database, hub):
        with hub.listening(heard):
            await heard.until(lambda: heard.nudges > 0)
            for _ in range(5):
                left.clear()
                fickle = Fickle()
                with hub.listening(fickle):
                    await database.write(say)
                    await left.wait()
                assert len(fickle.seqs) == 1
    assert heard.seqs == [1, 2, 3, 4, 5]
