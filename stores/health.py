"""What the store says of its own health (contract daemon 2.3)."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from . import faults
from .connection import open_reader
from .tx import Snapshot

STORE: Final = "interlock.sqlite3"
"""The main store's file in the state directory."""

JUMPED: Final = "SELECT type FROM events WHERE seq > ? AND at_ms >= ? AND type IN ('suspend', 'clock_step')"
QUEUED_ROLES: Final = (
    "SELECT name FROM roles WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE role = name) AND"
    " EXISTS (SELECT 1 FROM messages WHERE state = 'queued' AND to_role = name AND enqueued_at < ?) ORDER BY name"
)
HELD_BY_NOBODY: Final = (
    "SELECT name FROM roles WHERE EXISTS (SELECT 1 FROM messages WHERE state = 'in_flight' AND to_role = name"
    " AND offered_at < ? AND session IS NULL AND NOT EXISTS (SELECT 1 FROM attachments WHERE role = name"
    " AND holder = messages.holder)) ORDER BY name"
)
RECENT: Final = 100_000
"""Events that are looked through for jumps of the clock."""


class Seen(NamedTuple):
    """What was found; roles by name."""

    jumps: list[str]
    open_faults: int
    unattended: list[str]
    held_by_nobody: list[str]


def look(snap: Snapshot, *, unattended_ms: int, jumps_ms: int) -> Seen:
    """Read what the findings are about."""
    since = max(0, snap.head() - RECENT)
    names = (
        [row[0] for row in snap.execute(sql, (snap.now - unattended_ms,))] for sql in (QUEUED_ROLES, HELD_BY_NOBODY)
    )
    jumps = sorted({row[0] for row in snap.execute(JUMPED, (since, snap.now - jumps_ms))})
    return Seen(jumps, snap.execute(faults.COUNT_OPEN).fetchone()[0], *names)


def quick_check(path: Path) -> str | None:
    """What SQLite's own check finds wrong with a file, None when nothing. Blocks; for a worker thread."""
    return _check(path, "PRAGMA quick_check(1)")


def integrity_check(path: Path) -> str | None:
    """As `quick_check`, thorough."""
    return _check(path, "PRAGMA integrity_check(1)")


def _check(path: Path, pragma: str) -> str | None:
    try:
        with contextlib.closing(open_reader(path)) as conn:
            found = conn.execute(pragma).fetchone()[0]
    except sqlite3.Error as error:
        return str(error)
    return None if found == "ok" else str(found)
