"""When the write-ahead log is moved into the database, and how (DESIGN 4.2).

Only the leader does it. SQLite before 3.51.3 has the WAL-reset bug: a checkpoint beside a commit that restarts the log
can lose pages. So a checkpoint runs on the writer's thread, between batches, while a second connection, the guard,
holds the write lock against the other processes. Small steps keep it short: it is the tail of a write's latency.
"""

from __future__ import annotations

import sqlite3
from typing import Final, Literal

from .connection import LOG_LIMIT_BYTES, connect
from .files import StoreFile

Action = Literal["step", "truncate"]

STEP_PAGES: Final = 250
FORCE_PAGES: Final = (16 << 20) // 4096
QUIET_TICKS: Final = 5
TICK_SECONDS: Final = 1.0
GUARD_SECONDS: Final = 0.1
_FIRST_RATE: Final = 1.0
_RATES: Final = (0.05, 20.0)


class Checkpoints:
    """The policy of one process. `leader` is set by its owner; the methods that take a connection run on the writer's
    thread, the others on the loop, and never at the same time."""

    def __init__(self, file: StoreFile) -> None:
        self.leader = False
        self._file = file
        self._guard: sqlite3.Connection | None = None
        self._changes = 0
        self._rate = _FIRST_RATE
        self._log_pages = 0
        self._clean = (0, 0)
        self._seen = (0, 0)
        self._quiet = 0
        self._paused = False

    def wrote(self, changes: int) -> None:
        """A batch of ours changed so many rows. Pages are estimated from them; each checkpoint says what it was."""
        self._changes += changes

    def due(self, *, idle: bool) -> bool:
        """Whether to take a step now: a small one when nobody waits, an overdue one anyway."""
        if not self.leader or self._paused:
            return False
        return self._changes * self._rate >= (STEP_PAGES if idle else FORCE_PAGES)

    def tick(self) -> Action | None:
        """What to do once a second: other processes write too, and a quiet log is emptied."""
        self._paused = False
        state = self._file.log_state()
        if not self.leader or state == self._clean:
            return None
        self._quiet = self._quiet + 1 if state == self._seen else 0
        self._seen = state
        return "truncate" if self._quiet >= QUIET_TICKS or state[0] > LOG_LIMIT_BYTES else "step"

    def run(self, conn: sqlite3.Connection, action: Action) -> bool:
        """Move what no reader holds back. True when the log was moved whole. Never raises; a tick tries again."""
        try:
            whole = self._step(conn) and (action == "step" or self._truncate(conn))
        except sqlite3.Error:
            whole = False
        self._paused = not whole
        # a quiet log that was moved but not yet emptied stays to be looked at
        if whole and (action == "truncate" or not self._file.log_state()[0]):
            self._clean = self._file.log_state()
        return whole

    def close(self) -> None:
        """Close the guard. It must not be the last connection: the last one moves the log."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()

    def _step(self, conn: sqlite3.Connection) -> bool:
        if self._guard is None:
            self._file.check()
            self._guard = connect(self._file.path, "mode=rw", busy_seconds=GUARD_SECONDS)
        self._guard.execute("BEGIN IMMEDIATE")
        try:
            blocked, pages, moved = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            self._guard.execute("ROLLBACK")
        self._learn(pages)
        return not blocked and pages == moved

    def _learn(self, pages: int) -> None:
        """`pages` is the length of the log now; it started anew if it was moved whole and somebody wrote since."""
        written = pages - self._log_pages if pages > self._log_pages else pages
        if self._changes:
            self._rate = min(max(written / self._changes, _RATES[0]), _RATES[1])
        self._changes, self._log_pages = 0, pages

    def _truncate(self, conn: sqlite3.Connection) -> bool:
        """Takes the write lock by itself. Nothing is left to move, so it is short unless a reader is in its way."""
        conn.execute(f"PRAGMA busy_timeout = {int(GUARD_SECONDS * 1000)}")
        try:
            (blocked, *_) = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            conn.execute("PRAGMA busy_timeout = 5000")
        self._log_pages = 0
        return not blocked
