"""Helpers of the store's tests: a store in a folder, a clock that is set by hand, jobs that write one event."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.stores.clock import Clock, SystemClock
from interlock.stores.database import Database
from interlock.stores.ids import Ids
from interlock.stores.tx import Snapshot, Tx

SUBJECTS = "SELECT subject FROM events ORDER BY seq"


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self, wall: int = 1_700_000_000_000, monotonic: int = 5_000) -> None:
        self.wall = wall
        self.monotonic = monotonic

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def run(self, ms: int) -> None:
        """Time passes on both."""
        self.wall += ms
        self.monotonic += ms


@asynccontextmanager
async def opened(
    path: Path, *, clock: Clock | None = None, on_commit: Callable[[list[Event]], None] = lambda events: None
) -> AsyncIterator[Database]:
    """The store at `path`, closed at the end."""
    database = await Database.open(path, clock=clock or SystemClock(), ids=Ids(), on_commit=on_commit)
    try:
        yield database
    finally:
        await database.close()


def note(subject: str) -> Callable[[Tx], int]:
    """A job that appends one event about `subject` and returns its seq."""
    return lambda tx: tx.emit("test", "noted", subject, {})


def subjects(snap: Snapshot) -> list[str]:
    """What the events are about, in order."""
    return [row[0] for row in snap.execute(SUBJECTS)]


def stored(path: Path) -> list[str]:
    """The same, as another program sees it."""
    conn = sqlite3.connect(path)
    try:
        return [row[0] for row in conn.execute(SUBJECTS)]
    finally:
        conn.close()


class Gate:
    """A job that holds the writer, and so the write lock, until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, tx: Snapshot) -> str:
        self.entered.set()
        assert self._open.wait(30)
        return "through"

    def open(self) -> None:
        self._open.set()


class Counted:
    """A job that counts how often it was run."""

    def __init__(self, job: Callable[[Tx], Any]) -> None:
        self.runs = 0
        self._job = job

    def __call__(self, tx: Tx) -> Any:
        self.runs += 1
        return self._job(tx)


def refuse(tx: Tx) -> None:
    """A job that says no before it writes."""
    raise Refusal("not_found", "no such thing", kind="thing")
