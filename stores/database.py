"""The store of one process: one writer, four readers, over one SQLite file (DESIGN 4)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal

from .batch import Batch
from .checkpoints import Checkpoints
from .clock import Clock, Timeline
from .connection import Bridge, Durability, connect, set_up_writer
from .errors import closed, store_failed, translate
from .files import StoreFile
from .ids import Ids
from .readers import Readers, open_checked
from .schema import LOCK_SECONDS, inspect, prepare
from .tx import Snapshot, Tx
from .writer import Stats, Writer

T = TypeVar("T")

SET_PROBE: Final = "UPDATE facts SET value = ? WHERE name = 'probe'"
PROBE: Final = "SELECT value FROM facts WHERE name = 'probe'"


class Database:
    """Made by `open`. `write` and `read` take plain functions, run whole on a connection's thread; neither ever raises
    a sqlite3 error (stores/errors.py)."""

    def __init__(self, path: Path, stats: Stats, writer: Writer, readers: Readers, file: StoreFile) -> None:
        self.path = path
        self.stats = stats
        self._writer = writer
        self._readers = readers
        self._file = file
        self._leader = False
        self._watch: Bridge | None = None
        self._watching = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        ids: Ids,
        durability: Durability = "full",
        on_commit: Callable[[list[Event]], None] = lambda events: None,
    ) -> Database:
        """Judge the file at `path` (whose directory exists), bring its schema up to date and begin to serve.

        `on_commit` is called on the loop with what each commit emitted, before the callers are answered. `durability`
        `normal` leaves the last commits to the operating system. Raises UnsupportedSchema, CorruptStore, Refusal.
        """
        file = StoreFile(path)
        timeline = Timeline(clock)
        given_up = threading.Event()
        try:
            bridge = await Bridge.open(lambda: _open_store(file, durability, given_up), given_up.set)
        except (sqlite3.Error, OSError) as error:
            raise translate(error) from error

        async def reconnect() -> Bridge:
            return await Bridge.open(lambda: _reopen_store(file, durability))

        stats = Stats(wal_bytes=lambda: file.log_state()[0])
        writer = Writer(reconnect, Batch(file, timeline, ids), Checkpoints(file), on_commit, stats)
        writer.start(bridge)
        return cls(path, stats, writer, Readers(file, timeline), file)

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in a write transaction; returns once it is durable. `fn` may run twice.

        Raises what `fn` raises (which undoes `fn` alone) and the refusals `busy`, `storage_full`, `store_failed`,
        `draining`. Cancelled before it began, it never runs; once begun it ends, and its result is returned in spite
        of the cancellation.
        """
        return await self._writer.submit(fn)

    async def read(self, fn: Callable[[Snapshot], T]) -> T:
        """`fn` in one snapshot. Raises what `fn` raises, `read_timeout` (5 s), `busy`, `store_failed`, `draining`."""
        return await self._readers.run(fn)

    async def checkpoint(self, truncate: bool = False) -> bool:
        """Move the write-ahead log into the file, and empty it with `truncate`. False where a reader, or another
        process that writes, was in the way. The leader does it by itself."""
        return await self._writer.checkpoint("truncate" if truncate else "step")

    async def probe(self) -> float:
        """Write a row and read it back through a reader: how long that took, in ms. Raises as `write` and `read`."""
        started = time.perf_counter()

        def put(tx: Tx) -> int:
            tx.execute(SET_PROBE, (tx.now,))
            return tx.now

        written = await self.write(put)
        (seen,) = await self.read(lambda snap: snap.execute(PROBE).fetchone())
        if seen < written:
            raise store_failed("a committed row is not there")
        return (time.perf_counter() - started) * 1000

    async def data_version(self) -> int:
        """A number that changes whenever anybody has committed, of this process or another. Raises Refusal."""
        async with self._watching:
            if self._closing is not None:
                raise closed()
            if self._watch is None:
                self._watch = await open_checked(self._file)
            try:
                return await self._watch.run(_data_version)
            except sqlite3.Error as error:
                watch, self._watch = self._watch, None  # the next call opens another
                with contextlib.suppress(sqlite3.Error):
                    await watch.close()
                raise translate(error) from error

    @property
    def leader(self) -> bool:
        """Whether this process is the one that checkpoints. Its owner says so."""
        return self._leader

    @leader.setter
    def leader(self, leader: bool) -> None:
        self._leader = leader
        self._writer.lead(leader)

    @property
    def queue_length(self) -> int:
        """Jobs that wait for their transaction."""
        return len(self._writer)

    @property
    def failed(self) -> str | None:
        """Why the store could not be used when it was last written to; None when it could."""
        try:
            self._file.check()  # asked of the file system each time: it may have been moved, or put back, just now
        except Refusal as refusal:
            return str(refusal.data["reason"])
        failed = self._writer.failed
        return None if failed is not None and failed.startswith("file_replaced") else failed

    def hurry(self) -> None:
        """Do not let another process's lock keep the end back: what cannot be written soon is refused as `busy`."""
        self._writer.hurry()

    async def close(self) -> None:
        """Run what is queued, then close everything. Idempotent; a cancelled caller does not stop it."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="store close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._writer.drain()
        await self._readers.close()
        async with self._watching:
            if self._watch is not None:
                await self._watch.close()
        await self._writer.close()  # last: the last connection to close moves the log, which a reader cannot


def _open_store(file: StoreFile, durability: Durability, given_up: threading.Event) -> sqlite3.Connection:
    inspect(file.path, given_up=given_up.is_set)
    conn = connect(file.path, "mode=rwc", busy_seconds=LOCK_SECONDS)
    try:
        prepare(conn, file.path, given_up=given_up.is_set)
        file.remember()
        return set_up_writer(conn, durability)
    except BaseException:
        conn.close()
        raise


def _reopen_store(file: StoreFile, durability: Durability) -> sqlite3.Connection:
    file.check()
    conn = connect(file.path, "mode=rw")
    try:
        set_up_writer(conn, durability).execute(PROBE).fetchone()
        file.check()
        return conn
    except BaseException:
        conn.close()
        raise


def _data_version(conn: sqlite3.Connection) -> int:
    (version,) = conn.execute("PRAGMA data_version").fetchone()
    return int(version)
