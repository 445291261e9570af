"""One SQLite connection on a thread of its own, and how each kind is opened. The only module that knows aiosqlite."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, Final, Literal, ParamSpec, TypeVar
from urllib.parse import quote

import aiosqlite

P = ParamSpec("P")
T = TypeVar("T")

Durability = Literal["full", "normal"]
BUSY_SECONDS: Final = 5.0
STATEMENTS: Final = 256
LOG_LIMIT_BYTES: Final = 64 << 20
WRITER_CACHE_KIB: Final = 64 << 10
READER_CACHE_KIB: Final = 16 << 10


class Bridge:
    """Runs functions of one connection on that connection's thread, first come first served."""

    def __init__(self, aio: aiosqlite.Connection) -> None:
        self._aio = aio

    @classmethod
    async def open(
        cls, connect: Callable[[], sqlite3.Connection], give_up: Callable[[], None] = lambda: None
    ) -> Bridge:
        """Start the thread and call `connect` on it. Raises what `connect` raises.

        A cancelled caller waits until `connect` has ended; it is told by `give_up` that nobody wants its connection.
        """
        opened: list[sqlite3.Connection] = []

        def keep() -> sqlite3.Connection:
            opened.append(connect())
            return opened[0]

        aio = aiosqlite.Connection(keep, iter_chunk_size=64)
        aio._thread.daemon = True  # a process that forgot to close must still be able to end
        try:
            await aio
        except BaseException:
            give_up()
            # it has told its thread to stop, but neither waits for it nor closes what a cancelled caller left behind
            await asyncio.to_thread(aio._thread.join)
            for conn in opened:
                conn.close()
            raise
        return cls(aio)

    async def run(self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`fn(connection, ...)` on the thread: one hop. A cancelled caller leaves; the function runs to its end."""
        aio = self._aio
        result: T = await aio._execute(fn, aio._conn, *args, **kwargs)  # type: ignore[no-untyped-call]
        return result

    async def run_to_end(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, bool]:
        """As `run`, but a cancelled caller waits for the result too; the bool says that it was cancelled.

        `fn` must not raise.
        """
        box: list[T] = []

        def fill(conn: sqlite3.Connection) -> None:
            box.append(fn(conn, *args, **kwargs))

        try:
            await self.run(fill)
        except asyncio.CancelledError:
            while not box:
                with contextlib.suppress(asyncio.CancelledError):
                    await self.barrier()
            return box[0], True
        return box[0], False

    async def barrier(self) -> None:
        """Wait until everything queued so far has run."""
        await self.run(_nothing)

    def interrupt(self) -> None:
        """Stop the statement that runs now, if any. The one call that is not made on the thread."""
        self._aio._conn.interrupt()

    async def close(self) -> None:
        """Let what is queued run, then close. Once only."""
        await self._aio.close()


def _nothing(conn: sqlite3.Connection) -> None:
    pass


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{mode}"


def connect(path: Path, mode: str, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A bare connection without transactions of its own. `mode` is the query of an SQLite URI."""
    return sqlite3.connect(
        _uri(path, mode),
        uri=True,
        isolation_level=None,
        timeout=busy_seconds,
        cached_statements=STATEMENTS,
        check_same_thread=False,
    )


def set_up_writer(conn: sqlite3.Connection, durability: Durability) -> sqlite3.Connection:
    """The settings of the connection that writes (DESIGN 4.2)."""
    conn.execute("PRAGMA busy_timeout = 0")  # stores/batch waits for the lock by itself
    conn.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    conn.execute("PRAGMA foreign_keys = ON")
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    conn.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
    conn.execute("PRAGMA mmap_size = 0")
    return conn


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read (DESIGN 4.3)."""
    conn = connect(path, "mode=ro")
    conn.execute("PRAGMA query_only = ON")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    conn.execute("PRAGMA mmap_size = 0")
    return conn
