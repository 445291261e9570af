"""When the write-ahead log is moved into the database, and how (DESIGN 4.2).

Only the leader does it. SQLite before 3.51.3 has the WAL-reset bug: a checkpoint beside a commit that restarts the log
can lose pages. So a checkpoint runs on the writer's thread, between batches, while a second connection, the guard,
holds the write lock against the other processes. Small steps keep it short: it is the tail of a write's latency.
"""

from __future__ import annotations

import sqlite3
from typing import Final, Literal

from interlock.lifecycle.refusal import Refusal

from .batch import begin
from .connection import LOG_LIMIT_BYTES, connect
from .files import StoreFile

Action = Literal["step", "truncate"]

STEP_PAGES: Final = 500
FORCE_PAGES: Final = (16 << 20) // 4096
QUIET_TICKS: Final = 5
TICK_SECONDS: Final = 1.0
GUARD_SECONDS: Final = 1.0
TRUNCATE_SECONDS: Final = 0.1
PAGES_PER_COMMIT: Final = 10.0
PAGES_PER_CHANGE: Final = 0.35
"""What a commit adds to the log, measured with ascending keys; `_learn` scales it to what checkpoints find."""
_SCALES: Final = (0.1, 10.0)


class Checkpoints:
    """The policy of one process. `leader` is set by its owner; the methods that take a connection run on the writer's
    thread, the others on the loop, and never at the same time."""

    def __init__(self, file: StoreFile) -> None:
        self.leader = False
        self.patience = GUARD_SECONDS
        """Seconds that a step waits for other processes' locks."""
        self._file = file
        self._guard: sqlite3.Connection | None = None
        self._expected = 0.0
        self._scale = 1.0
        self._log_pages = 0
        self._clean = (0, 0)
        self._seen = (0, 0)
        self._quiet = 0
        self._paused = False

    def wrote(self, changes: int) -> None:
        """A commit of ours changed so many rows. Pages are estimated; each checkpoint says what it was."""
        self._expected += self._scale * (PAGES_PER_COMMIT + PAGES_PER_CHANGE * changes)

    def due(self, *, idle: bool) -> bool:
        """Whether to take a step now: a small one when nobody waits, an overdue one anyway."""
        if not self.leader or self._paused:
            return False
        return self._expected >= (STEP_PAGES if idle else FORCE_PAGES)

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
        except (sqlite3.Error, Refusal):
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
            self._guard = connect(self._file.path, "mode=rw", busy_seconds=0)
        begin(self._guard, lambda: self.patience)
        try:
            blocked, pages, moved = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            self._guard.execute("ROLLBACK")
        self._learn(pages)
        return not blocked and pages == moved

    def _learn(self, pages: int) -> None:
        """`pages` is the length of the log now. It has gone on from where it was, or it has started anew: whichever is
        nearer to what was expected (a log that was moved whole starts anew unless a reader is in it)."""
        gone_on = pages - self._log_pages
        nearer = min(abs(pages - self._expected), abs(gone_on - self._expected))
        written = pages if gone_on < 0 or nearer == abs(pages - self._expected) else gone_on
        if self._expected:
            self._scale = min(max(self._scale * written / self._expected, _SCALES[0]), _SCALES[1])
        self._expected, self._log_pages = 0.0, pages

    def _truncate(self, conn: sqlite3.Connection) -> bool:
        """Takes the write lock by itself. Nothing is left to move, so it is short unless a reader is in its way."""
        conn.execute(f"PRAGMA busy_timeout = {int(TRUNCATE_SECONDS * 1000)}")
        try:
            (blocked, *_) = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            conn.execute("PRAGMA busy_timeout = 0")
        self._log_pages = 0
        return not blocked
