"""A verified copy of one database while it is written to, through SQLite's own backup. Blocks; for a worker thread."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from .connection import connect
from .errors import store_failed
from .health import integrity_check
from .tx import HEAD


def copy(source: Path, target: Path) -> None:
    """Copy `source` to the new file `target`, check and sync it. Raises `store_failed`, sqlite3.Error, OSError.

    All pages go in one step, so the copy is one snapshot: a writer beside it does not make it start over.
    """
    with contextlib.closing(connect(source, "mode=ro")) as origin, contextlib.closing(sqlite3.connect(target)) as made:
        origin.backup(made, pages=-1)
        made.execute("PRAGMA journal_mode = DELETE")  # one file, whole without a log beside it
    problem = integrity_check(target)
    if problem is not None:
        raise store_failed(f"the copy of {source.name} did not pass its check: {problem}")
    os.chmod(target, 0o600)
    sync(target)


def sync(path: Path) -> None:
    """Make a file, or a directory's entries, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def event_head(path: Path) -> int:
    """The head of the feed in a copy."""
    with contextlib.closing(connect(path, "mode=ro")) as conn:
        row = conn.execute(HEAD).fetchone()
    return row[0] if row else 0
