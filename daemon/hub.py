"""The one place that tells who waits that something happened (DESIGN 4.5).

Own commits are handed in as they happen; another process's are noticed by polling `data_version` while somebody
listens, and read from the store. Listeners see every event once, in the order of `seq`, with no gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from interlock.lifecycle.events import Event
from interlock.stores import feed
from interlock.stores.database import Database
from interlock.stores.feed import FeedFilter

from .logs import get_logger

POLL_S: Final = 0.025
SLOW_POLL_S: Final = 0.25
LINGER: Final = 20
"""Slow looks after the last listener has gone: a consumer that pulls again and again need not begin anew."""
PAGE: Final = 500
EVERYTHING: Final = FeedFilter()


class Listener(Protocol):
    """Somebody who is told. `offer` must not block and must not raise."""

    def offer(self, event: Event) -> None:
        """One event, in order."""

    def nudge(self) -> None:
        """Look again: something may have happened that is not told one by one."""


class Waiter:
    """Wakes when an event matches, or might have been missed. The store is the truth; this is only a hint to look."""

    def __init__(self, matches: Callable[[Event], bool]) -> None:
        self._matches = matches
        self._woken = asyncio.Event()

    def offer(self, event: Event) -> None:
        if self._matches(event):
            self._woken.set()

    def nudge(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        """Until woken since the last `clear`."""
        await self._woken.wait()

    def clear(self) -> None:
        """From now on. Call it before looking at the store, never after."""
        self._woken.clear()


class Mark:
    """A moment in the feed: everything that this process commits after it lies above it.

    A caller that waits from now on looks at the store a little later. What was sent behind its call on the same
    connection may be stored by then, and must not be taken for something that came before.
    """

    def __init__(self) -> None:
        self._first: int | None = None

    def committed(self, seq: int) -> None:
        """This process committed events from `seq` on."""
        if self._first is None:
            self._first = seq

    def not_after(self, seq: int) -> int:
        """`seq`, but not above the moment as far as it is known. Says so once: later looks go on where one ended."""
        if not self._first:
            return seq
        first, self._first = self._first, 0
        return min(seq, first - 1)


class Hub:
    """Owns the position up to which listeners were told."""

    def __init__(self, database: Database, head: int) -> None:
        self.head = head
        self._database = database
        self._listeners: dict[Listener, bool] = {}
        self._marks: set[Mark] = set()
        self._catch_up = asyncio.Event()
        self._poll = asyncio.Event()
        self._missed = False
        self._impatient = 0
        self._log = get_logger("hub")

    def committed(self, events: Sequence[Event]) -> None:
        """Events of a commit of this process, in order."""
        if not events:
            return
        for mark in self._marks:
            mark.committed(events[0].seq)
        if events[0].seq == self.head + 1 and not self._catch_up.is_set():
            self._tell(events)
        elif self._listeners:
            self._missed = True
            self._catch_up.set()  # another process wrote in between: read both from the store, in order
        else:
            self.head = max(self.head, events[-1].seq)

    def _tell(self, events: Sequence[Event]) -> None:
        self.head = events[-1].seq
        for listener in list(self._listeners):
            for event in events:
                listener.offer(event)

    @contextmanager
    def listening(self, listener: Listener, *, slow: bool = False) -> Iterator[None]:
        """Tell the listener from now on. `slow`: other processes' events may take 250 ms instead of 25.

        The listener is nudged once the poll has its base line, so what another process did just before is not missed.
        """
        self._listeners[listener] = slow
        self._impatient += not slow
        self._poll.set()
        try:
            yield
        finally:
            del self._listeners[listener]
            self._impatient -= not slow

    @contextmanager
    def marking(self) -> Iterator[Mark]:
        """A mark of this moment."""
        mark = Mark()
        self._marks.add(mark)
        try:
            yield mark
        finally:
            self._marks.discard(mark)

    async def run(self) -> None:
        """Until cancelled: notice other processes' commits, fill gaps."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._fill())

    async def _watch(self) -> None:
        while True:
            await self._poll.wait()
            self._poll.clear()
            try:
                await self._watch_while_heard()
            except Exception:  # a store that cannot be read now may be later; nobody would notice again otherwise
                self._log.exception("poll_failed")
                await asyncio.sleep(1)
                self._poll.set()

    async def _watch_while_heard(self) -> None:
        """Poll at the pace of the most impatient listener, until nobody has listened for a while.

        As long as it polls, what another process did is told at the next look, however briefly listeners come and go.
        """
        version = await self._database.data_version()
        self.head = max(self.head, await self._database.read(lambda snap: snap.head()))
        self._nudge()
        idle = 0
        while idle < LINGER:
            await self._pause()
            idle = 0 if self._listeners else idle + 1
            seen = await self._database.data_version()
            if seen != version:
                version = seen
                self._catch_up.set()

    async def _pause(self) -> None:
        """Until the next look: never sooner than an impatient listener needs; one that comes cuts the rest short."""
        await asyncio.sleep(POLL_S)
        self._poll.clear()
        if not self._impatient:
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOW_POLL_S - POLL_S):
                    await self._poll.wait()

    def _nudge(self) -> None:
        for listener in list(self._listeners):
            listener.nudge()

    async def _fill(self) -> None:
        while True:
            await self._catch_up.wait()
            try:
                while await self._read_page():
                    pass
            except Exception:  # as above
                self._log.exception("catch_up_failed")
                await asyncio.sleep(1)

    async def _read_page(self) -> bool:
        """Tell one page of what the store has beyond the head; whether there is more.

        An own commit that comes while the page is read is not in it and was not told: it asks for another page.
        """
        self._missed = False
        after = self.head
        page = await self._database.read(
            lambda snap: feed.events_since(snap, max(after, snap.floor()), EVERYTHING, PAGE)
        )
        if page.floor > after:
            self._nudge()  # retention took what was not told yet: whoever needs each event must look for himself
        fresh = [event for event in page.events if event.seq > self.head]
        if fresh:
            self._tell(fresh)
        self.head = max(self.head, page.scanned_seq)
        more = page.has_more or self._missed
        if not more:
            self._catch_up.clear()
        return more
