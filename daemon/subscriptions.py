"""A subscription: pages from the store at the reader's pace until it has caught up, then live (contract ledger 8).

It listens before it pages and drops what it has already sent, so there is no gap and no repeat. Only a live
subscription can lag: then it ends with the seq to resume from, and nobody else notices.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.protocol import envelope
from interlock.protocol.limits import SUBSCRIBER_LAG
from interlock.stores import feed
from interlock.stores.feed import FeedFilter

if TYPE_CHECKING:
    from .connection import Connection

LAG_BYTES: Final = 1 << 20
PAGE: Final = 100
_encode = msgspec.json.Encoder().encode


class Subscription:
    """One subscription of one connection."""

    def __init__(self, connection: Connection, subscription_id: str, wanted: FeedFilter, after_seq: int) -> None:
        self.id = subscription_id
        self.sent_seq = after_seq
        self._connection = connection
        self._services = connection.services
        self._filter = wanted
        self._live = False
        self._lagged = False
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        prefix = _encode({"subscription": subscription_id})[:-1]
        self._prefix = b'{"jsonrpc":"2.0","method":"events/event","params":' + prefix + b","

    def start(self) -> None:
        """Begin to send, unless it was closed already. Called once the answer to the request is queued."""
        if self._connection.subscriptions.get(self.id) is not self:
            return
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End silently: unsubscribed, or the connection has gone."""
        self._connection.subscriptions.pop(self.id, None)
        if self._task is not None:
            self._task.cancel()

    def close(self, reason: str) -> None:
        """End with a word: the daemon drains, or the store failed."""
        self._say("events/closed", reason=reason)
        self.stop()

    def offer(self, event: Event) -> None:
        """A live event: queued for this reader, or the reader has lagged."""
        if not self._live or event.seq <= self.sent_seq or not self._filter.matches(event):
            return  # what another process wrote may have been read from the store before it is told here
        data = _encode(event)
        self._queue.append((event.seq, data))
        self._queued_bytes += len(data)
        if len(self._queue) > SUBSCRIBER_LAG or self._queued_bytes > LAG_BYTES:
            self._live, self._lagged = False, True
            self._queue.clear()
        self._wake.set()

    def nudge(self) -> None:
        """Events may have passed that were not told: page once more."""
        self._live = False
        self._wake.set()

    async def _run(self) -> None:
        try:
            with self._services.hub.listening(self):
                while not self._lagged:
                    await self._catch_up()
                    await self._follow()
            self._services.metrics.subscription_lagged += 1
            self._say("events/lagged")
        except Refusal as refusal:
            if refusal.code == "cursor_expired":  # retention overtook a slow reader
                self._say("events/lagged")
            else:
                self._services.log.warning("subscription_failed", code=refusal.code)
                self._say("events/closed", reason="store_failed")
        self._connection.subscriptions.pop(self.id, None)

    async def _catch_up(self) -> None:
        """Send pages until what the hub has told is sent; from then on the queue is complete."""
        self._queue.clear()
        self._queued_bytes = 0
        while True:
            after = self.sent_seq
            page = await self._services.database.read(
                lambda snap: feed.events_since(snap, after, self._filter, PAGE)  # noqa: B023 - awaited here
            )
            for event in page.events:
                await self._send(event.seq, _encode(event))
            self.sent_seq = page.scanned_seq
            # No await between this test and going live: what the hub tells next is queued.
            if not page.has_more and self.sent_seq >= self._services.hub.head:
                self._live = True
                return

    async def _follow(self) -> None:
        """Send what comes, while live."""
        while self._live or self._queue:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            seq, data = self._queue[0]
            await self._send(seq, data)
            if self._queue and self._queue[0][0] == seq:  # it may have been dropped meanwhile
                self._queue.popleft()
                self._queued_bytes -= len(data)

    async def _send(self, seq: int, data: bytes) -> None:
        await self._connection.output.room.wait()
        if seq > self.sent_seq:
            self._connection.output.send(self._prefix + data[1:] + b"}")
            self.sent_seq = seq

    def _say(self, method: str, **more: object) -> None:
        params = {"subscription": self.id, "after_seq": self.sent_seq, **more}
        self._connection.output.send(envelope.encode_notification(method, params))
