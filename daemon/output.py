"""What goes out on one connection: gathered per turn of the loop, bounded, and never in anybody else's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.protocol.framing import Framing, wrap
from interlock.protocol.limits import OUTPUT_BYTES

HIGH_WATER = 1 << 20
"""Above this, work that would make more output waits (paced reads, subscriptions); requests are not read."""


class Output:
    """The sending half of a connection. `on_overflow` is called once a client that does not read has cost 8 MiB.

    One answer may be larger, when it gives back the largest message there can be: it goes out where all before it was
    read, or that message could never be delivered.
    """

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._pending = 0
        self._on_overflow = on_overflow
        self._loop = asyncio.get_running_loop()
        self.framing = Framing.LINE
        self.room = asyncio.Event()
        self.room.set()

    def start(self, transport: asyncio.Transport) -> None:
        """From now on there is somewhere to write to."""
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport

    def send(self, payload: bytes) -> None:
        """Queue one message; it leaves at the end of this turn of the loop."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._pieces:
            self._loop.call_soon(self.flush)
        piece = wrap(payload, self.framing)
        unread = self._pending + self._transport.get_write_buffer_size()
        self._pieces.append(piece)
        self._pending += len(piece)
        if unread and unread + len(piece) > OUTPUT_BYTES:
            self._pieces.clear()
            self._pending = 0
            self._on_overflow()
        elif self._pending > HIGH_WATER:
            self.flush()  # so that `room` tells at once those who would add to it in this same turn

    def flush(self) -> None:
        """Hand what was gathered to the transport."""
        if self._pieces and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._pieces))
        self._pieces.clear()
        self._pending = 0
