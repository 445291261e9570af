"""Group commit: many jobs in one transaction, each with its own outcome (DESIGN 4.2). Runs on the writer's thread."""

from __future__ import annotations

import contextlib
import sqlite3
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

from interlock.lifecycle.events import Event

from .clock import Timeline
from .connection import BUSY_SECONDS
from .errors import breaks_the_connection, ends_the_transaction, is_busy, store_failed, translate
from .files import StoreFile
from .ids import Ids
from .tx import Tx, last_instant

BEGIN: Final = "BEGIN IMMEDIATE"
_FIRST_PAUSE: Final = 0.0002
_LAST_PAUSE: Final = 0.005

JobFn = Callable[[Tx], Any]


class Done(NamedTuple):
    """What became of one job: its value, or the error that its caller gets."""

    value: Any = None
    error: BaseException | None = None


class Outcome(NamedTuple):
    """What became of a batch. `failure` is the reason why none of its jobs was committed."""

    done: Sequence[Done] = ()
    events: Sequence[Event] = ()
    counters: dict[str, int] | None = None
    changes: int = 0
    commit_seconds: float = 0.0
    failure: BaseException | None = None
    broken: bool = False


class _Redo(Exception):
    """A job failed after it had written, so its neighbours must be run again, each under a savepoint."""


class Batch:
    """Runs batches; never raises."""

    def __init__(self, file: StoreFile, timeline: Timeline, ids: Ids) -> None:
        self._file = file
        self._timeline = timeline
        self._ids = ids
        self.patience = BUSY_SECONDS
        """How long a batch waits for another process's lock. May be shortened at any time, by any thread."""

    def __call__(self, conn: sqlite3.Connection, jobs: Sequence[JobFn]) -> Outcome:
        """Run all jobs in one transaction and commit it."""
        try:
            self._file.check()
            try:
                outcome = self._attempt(conn, jobs, savepoints=False)
            except _Redo:
                outcome = self._attempt(conn, jobs, savepoints=True)
            self._file.check()
        except BaseException as error:
            unwound = _unwound(conn)
            failure = translate(error, disk_full=self._file.disk_full())
            return Outcome(failure=failure, broken=breaks_the_connection(error) or not unwound)
        return outcome

    def _attempt(self, conn: sqlite3.Connection, jobs: Sequence[JobFn], *, savepoints: bool) -> Outcome:
        begin(conn, lambda: self.patience)
        before = conn.total_changes
        now = self._timeline.now(last_instant(conn))
        done: list[Done] = []
        kept: list[Tx] = []
        memo: dict[Hashable, Any] = {}
        for job in jobs:
            tx = Tx(conn.execute, now, self._ids, memo)
            result = _guarded(conn, job, tx) if savepoints else _plain(conn, job, tx, alone=len(jobs) == 1)
            done.append(result)
            if result.error is None:
                kept.append(tx)
                continue
            memo.clear()  # it may be of what was undone
            if not conn.in_transaction:
                return Outcome(done=done)  # it was alone, and is undone
        changes = conn.total_changes - before
        started = time.perf_counter()
        conn.execute("COMMIT")
        seconds = time.perf_counter() - started
        events = [event for tx in kept for event in tx.events]
        return Outcome(done, events, _sum(kept), changes, seconds)


def begin(conn: sqlite3.Connection, patience: Callable[[], float]) -> None:
    """Take the write lock, waiting for other processes at most as many seconds as `patience` says by then.

    SQLite's own waiting sleeps up to 100 ms at a time, which a neighbour that writes all the time turns into seconds.
    """
    started = time.monotonic()
    pause = _FIRST_PAUSE
    while True:
        try:
            conn.execute(BEGIN)
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() - started > patience():
                raise
        time.sleep(pause)
        pause = min(pause * 1.25, _LAST_PAUSE)


def _plain(conn: sqlite3.Connection, job: JobFn, tx: Tx, *, alone: bool) -> Done:
    """Without a savepoint: an error before the job's first write needs none, a later one undoes the whole batch."""
    before = conn.total_changes
    done = _run(conn, job, tx)
    if done.error is not None and conn.total_changes != before:
        conn.execute("ROLLBACK")
        if not alone:
            raise _Redo
    return done


def _guarded(conn: sqlite3.Connection, job: JobFn, tx: Tx) -> Done:
    conn.execute("SAVEPOINT job")
    done = _run(conn, job, tx)
    if done.error is not None:
        conn.execute("ROLLBACK TO job")
    conn.execute("RELEASE job")
    return done


def _run(conn: sqlite3.Connection, job: JobFn, tx: Tx) -> Done:
    """The job's own outcome. Raises where the store failed, also when the job swallowed it (no transaction is left)."""
    try:
        done = Done(job(tx))
    except BaseException as error:
        if ends_the_transaction(error):
            raise
        # a cursor left in one of its frames would keep this connection at an old snapshot
        traceback.clear_frames(error.__traceback__)
        done = Done(error=_own(error))
    if not conn.in_transaction:
        raise store_failed("the transaction was lost")
    return done


def _own(error: BaseException) -> BaseException:
    """What the job's caller gets: its own error as it is, but no sqlite3 error."""
    if not isinstance(error, sqlite3.Error):
        return error
    failed = translate(error)
    failed.__cause__ = error
    return failed


def _unwound(conn: sqlite3.Connection) -> bool:
    """Roll back what is open. False where that failed and the connection cannot be used any more."""
    with contextlib.suppress(sqlite3.Error):
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        return True
    return False


def _sum(kept: Sequence[Tx]) -> dict[str, int] | None:
    total: dict[str, int] | None = None
    for tx in kept:
        if tx.counters is not None:
            total = total or {}
            for name, n in tx.counters.items():
                total[name] = total.get(name, 0) + n
    return total
