"""The readers: four read-only connections, each read one function in one snapshot, at most 5 s long (DESIGN 4.3)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from interlock.lifecycle.refusal import Refusal

from .clock import Timeline
from .connection import Bridge, open_reader
from .errors import breaks_the_connection, closed, translate
from .files import StoreFile
from .tx import Params, Snapshot, last_instant

T = TypeVar("T")

READERS: Final = 4
READ_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.05

_Place = Bridge | None
"""What a read takes and gives back: a connection, or the right to open one."""


class _Read:
    """One read under way on one connection."""

    def __init__(self, bridge: Bridge, seconds: float) -> None:
        self.broken = False
        self.bridge = bridge
        self._refusal: Callable[[], Refusal] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self.stop, _timeout)

    def stop(self, refusal: Callable[[], Refusal]) -> None:
        """End it from the loop. An interrupt between two statements has no effect, hence the flag; one between the
        check of the flag and its statement has none either, hence again and again until the read is over."""
        self._refusal = refusal
        self._timer.cancel()
        self._timer = self._loop.call_later(_AGAIN_SECONDS, self.stop, refusal)
        self.bridge.interrupt()

    def over(self) -> None:
        """The function has ended: the connection must not be interrupted any more."""
        self._timer.cancel()

    def __call__(self, conn: sqlite3.Connection, timeline: Timeline, fn: Callable[[Snapshot], T]) -> T:
        """The read itself, on the connection's thread."""

        def execute(sql: str, params: Params = (), /) -> sqlite3.Cursor:
            if self._refusal is not None:
                raise self._refusal()
            return conn.execute(sql, params)

        try:
            conn.execute("BEGIN")
            return fn(Snapshot(execute, timeline.now(last_instant(conn))))
        except BaseException as error:
            # a cursor left in one of its frames would keep the next read in this snapshot
            traceback.clear_frames(error.__traceback__)
            if not isinstance(error, sqlite3.Error):
                raise
            self.broken = breaks_the_connection(error)
            raise (self._refusal() if self._refusal is not None else translate(error)) from error
        finally:
            self._leave(conn)

    def _leave(self, conn: sqlite3.Connection) -> None:
        for _ in range(3):  # an interrupt can hit this very statement
            with contextlib.suppress(sqlite3.Error):
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                return
        self.broken = True


class Readers:
    """The pool. A connection is opened when it is first needed; a read takes the first that is free."""

    def __init__(
        self, file: StoreFile, timeline: Timeline, *, size: int = READERS, seconds: float = READ_SECONDS
    ) -> None:
        self._file = file
        self._timeline = timeline
        self._size = size
        self._seconds = seconds
        self._free: deque[_Place] = deque([None] * size)
        self._waiting: deque[asyncio.Future[_Place]] = deque()
        self._under_way: set[_Read] = set()
        self._aside: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self, fn: Callable[[Snapshot], T]) -> T:
        """`fn` in one snapshot. Raises what `fn` raises, and the refusals `read_timeout`, `busy`, `store_failed`.

        A cancelled caller leaves at once; its read is stopped, and the connection is free again when that is over.
        """
        if self._closed:
            raise closed()
        place = await self._take()
        bridge = await self._open() if place is None else place
        if self._closed:  # meanwhile
            self._give(bridge)
            raise closed()
        read = _Read(bridge, self._seconds)
        self._under_way.add(read)
        try:
            value = await bridge.run(read, self._timeline, fn)
        except asyncio.CancelledError:
            read.stop(closed)
            self._later(self._settle(read))
            raise
        except BaseException:
            self._end(read)
            raise
        self._end(read)
        return value

    async def close(self) -> None:
        """Stop what runs and close the connections; reads that wait and later ones are refused. Idempotent."""
        if self._closed:
            return
        self._closed = True
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(closed())
        for read in self._under_way:
            read.stop(closed)
        for _ in range(self._size):
            place = await self._take()
            if place is not None:
                await place.close()

    async def _take(self) -> _Place:
        if self._free:
            return self._free.pop()
        waiter: asyncio.Future[_Place] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give(waiter.result())
            raise

    def _give(self, place: _Place) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(place)
                return
        if place is None:
            self._free.appendleft(place)  # taken last: open ones first
        else:
            self._free.append(place)

    async def _open(self) -> Bridge:
        opening = asyncio.get_running_loop().create_task(open_checked(self._file))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._later(self._keep(opening))
            raise
        except BaseException:
            self._give(None)
            raise

    async def _keep(self, opening: asyncio.Task[Bridge]) -> None:
        """Whoever wanted this connection has left; the next one takes it."""
        place: _Place = None
        with contextlib.suppress(Refusal):
            place = await opening
        self._give(place)

    async def _settle(self, read: _Read) -> None:
        await read.bridge.barrier()
        self._end(read)

    def _end(self, read: _Read) -> None:
        read.over()
        self._under_way.discard(read)
        if read.broken:
            self._later(self._replace(read.bridge))
        else:
            self._give(read.bridge)

    async def _replace(self, bridge: Bridge) -> None:
        with contextlib.suppress(sqlite3.Error):
            await bridge.close()
        self._give(None)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


async def open_checked(file: StoreFile) -> Bridge:
    """A reader of the very file that the writer has open. Raises Refusal."""

    def connect() -> sqlite3.Connection:
        file.check()
        conn = open_reader(file.path)
        try:
            conn.execute("PRAGMA data_version").fetchone()  # opens the file, which SQLite puts off
            file.check()
        except BaseException:
            conn.close()
            raise
        return conn

    try:
        return await Bridge.open(connect)
    except sqlite3.Error as error:
        raise translate(error) from error


def _timeout() -> Refusal:
    return Refusal("read_timeout", f"the read took longer than {READ_SECONDS:g} s", max_ms=int(READ_SECONDS * 1000))
