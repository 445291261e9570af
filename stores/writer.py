"""The writer: one connection, a bounded queue, and a coordinator on the loop that commits what is queued (DESIGN 4.2).

The coordinator takes what is there (at most `BATCH`), sends it to the connection's thread in one hop, and answers all
when it is committed. It never waits for more: while one batch syncs, the next one gathers.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal

from .batch import Batch, Done, JobFn, Outcome
from .checkpoints import TICK_SECONDS, Action, Checkpoints
from .connection import Bridge
from .errors import another, busy, closed, translate
from .tx import Tx

T = TypeVar("T")

QUEUE: Final = 1024
BATCH: Final = 128
HURRY_SECONDS: Final = 0.1


@dataclass
class Stats:
    """Counters since the store was opened. `commits` are transactions that changed something, `commit_seconds` the time
    that their COMMIT took in all, `counters` what jobs counted."""

    jobs: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    wal_bytes: Callable[[], int] = int


class _Job:
    """A queued function and the future its caller waits on; a caller that was cancelled too late waits on another."""

    __slots__ = ("done", "fn", "reply", "started")

    def __init__(self, fn: JobFn, reply: asyncio.Future[None]) -> None:
        self.fn = fn
        self.reply = reply
        self.started = False
        self.done: Done | None = None

    def finish(self, done: Done) -> None:
        self.done = done
        if not self.reply.done():
            self.reply.set_result(None)


class Writer:
    """Made by `Database`. `connect` opens the connection anew after a failure; `failed` says why the store cannot be
    written, None when it can."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Bridge]],
        batch: Batch,
        checkpoints: Checkpoints,
        on_commit: Callable[[list[Event]], None],
        stats: Stats,
    ) -> None:
        self.failed: str | None = None
        self._connect = connect
        self._batch = batch
        self._checkpoints = checkpoints
        self._on_commit = on_commit
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        self._chores: deque[tuple[Action, asyncio.Future[bool]]] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._closing = False
        self._bridge: Bridge | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticked = False
        self._task: asyncio.Task[None] | None = None

    def start(self, bridge: Bridge) -> None:
        """Begin to serve, with the connection that opening the store has made."""
        self._bridge = bridge
        self._task = self._loop.create_task(self._serve(), name="store writer")

    def __len__(self) -> int:
        return len(self._jobs)

    async def submit(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a transaction and return its value once that is durable. Raises what `fn` raises, and Refusals.

        Cancelled before the transaction began, the job is dropped; afterwards it is too late, the cancellation is
        taken back and the caller gets the result.
        """
        if self._closing:
            raise closed()
        if len(self._jobs) >= QUEUE:
            raise busy("the writer's queue is full")
        job = _Job(fn, self._loop.create_future())
        self._jobs.append(job)
        self._wake()
        done = await self._outcome(job)
        if done.error is None:
            value: T = done.value
            return value
        try:
            raise done.error
        finally:
            del job, done  # or the traceback would hold itself

    async def _outcome(self, job: _Job) -> Done:
        task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        while job.done is None:
            try:
                await job.reply
            except asyncio.CancelledError:
                if not job.started:
                    self._jobs.remove(job)
                    raise
                while task.cancelling() > cancels:
                    task.uncancel()
                job.reply = self._loop.create_future()
        return job.done

    async def checkpoint(self, action: Action) -> bool:
        """Move the log into the database between two batches. True when it was moved whole."""
        if self._closing:
            raise closed()
        done: asyncio.Future[bool] = self._loop.create_future()
        self._chores.append((action, done))
        self._wake()
        return await done

    def lead(self, leader: bool) -> None:
        """Begin or cease to checkpoint."""
        self._checkpoints.leader = leader
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if leader and not self._closing:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def hurry(self) -> None:
        """From now on wait only briefly for locks of other processes: we are about to end."""
        self._batch.patience = self._checkpoints.patience = HURRY_SECONDS

    async def drain(self) -> None:
        """Take no more jobs and finish those that are queued."""
        self.lead(False)
        self._closing = True
        self._wake()
        if self._task is not None:
            await asyncio.wait([self._task])  # a cancelled caller leaves the task alone

    async def close(self) -> None:
        """Drain, then close the connection."""
        await self.drain()
        await self._disconnect()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._ticked = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _serve(self) -> None:
        tidied = False
        try:
            while True:
                # By turns: a checkpoint that waits for another process's lock may take longer than it is to the next.
                if (self._chores or self._ticked) and not (tidied and self._jobs):
                    tidied = True
                    await self._tidy()
                elif self._jobs:
                    tidied = False
                    await self._commit()
                elif self._closing:
                    return
                else:
                    self._waiting = self._loop.create_future()
                    await self._waiting
        finally:
            # either nothing is left or the loop itself is ending: nobody would serve what is queued
            self._closing = True
            while self._jobs:
                self._jobs.popleft().finish(Done(error=closed()))
            for _, done in self._chores:
                done.cancel()

    async def _commit(self) -> None:
        jobs = [self._jobs.popleft() for _ in range(min(BATCH, len(self._jobs)))]
        for job in jobs:
            job.started = True
        outcome, cancelled = await self._transact([job.fn for job in jobs])
        self._deliver(jobs, outcome)
        if outcome.broken:
            await self._disconnect()
        if cancelled:
            raise asyncio.CancelledError
        if self._bridge is not None and self._checkpoints.due(idle=not self._jobs):
            await self._bridge.run(_checkpoint, self._checkpoints, "step")

    def _deliver(self, jobs: Sequence[_Job], outcome: Outcome) -> None:
        self._stats.jobs += len(jobs)
        failure = outcome.failure
        if failure is not None:
            self.failed = _reason(failure) or self.failed
            for job in jobs:
                job.finish(Done(error=another(failure)))
            return
        self.failed = None
        self._account(outcome)
        if outcome.events:
            self._publish(list(outcome.events))
        for job, done in zip(jobs, outcome.done, strict=True):
            job.finish(done)

    def _account(self, outcome: Outcome) -> None:
        if outcome.changes:
            self._stats.commits += 1
            self._stats.commit_seconds += outcome.commit_seconds
            self._checkpoints.wrote(outcome.changes)
        counters = self._stats.counters
        for name, n in (outcome.counters or {}).items():
            counters[name] = counters.get(name, 0) + n

    def _publish(self, events: list[Event]) -> None:
        try:
            self._on_commit(events)
        except Exception as error:  # the rows are committed: their callers are answered all the same
            self._loop.call_exception_handler({"message": "a listener of committed events failed", "exception": error})

    async def _tidy(self) -> None:
        """Checkpoints that were asked for, and those that a second's passing brings."""
        done: asyncio.Future[bool] | None = None
        if self._chores:
            action, done = self._chores.popleft()
        else:
            self._ticked = False
            due = self._checkpoints.tick()
            if due is None:
                return
            action = due
        whole = self._bridge is not None and await self._bridge.run(_checkpoint, self._checkpoints, action)
        if done is not None and not done.done():
            done.set_result(whole)

    async def _transact(self, fns: Sequence[JobFn]) -> tuple[Outcome, bool]:
        """The batch's outcome, and whether the coordinator was cancelled meanwhile: the loop is ending."""
        if self._bridge is None:
            try:
                self._bridge = await self._connect()
            except asyncio.CancelledError:
                return Outcome(failure=closed()), True
            except Exception as error:
                return Outcome(failure=translate(error)), False
        return await self._bridge.run_to_end(_transact, self._batch, fns)

    async def _disconnect(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            for close in (bridge.run(_close_guard, self._checkpoints), bridge.close()):
                with contextlib.suppress(sqlite3.Error):  # it may be broken already
                    await close


def _transact(conn: sqlite3.Connection, batch: Batch, fns: Sequence[JobFn]) -> Outcome:
    return batch(conn, fns)


def _checkpoint(conn: sqlite3.Connection, checkpoints: Checkpoints, action: Action) -> bool:
    return checkpoints.run(conn, action)


def _close_guard(conn: sqlite3.Connection, checkpoints: Checkpoints) -> None:
    checkpoints.close()


def _reason(failure: BaseException) -> str | None:
    """Why the store cannot be used, if that is what the failure says."""
    if isinstance(failure, Refusal) and failure.code == "store_failed":
        reason: Any = failure.data["reason"]
        return str(reason)
    return None
