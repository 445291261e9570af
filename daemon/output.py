"""What goes out on one connection: gathered per turn of the loop, bounded, and never in anybody else's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.protocol.framing import Framing, wrap
from interlock.protocol.limits import OUTPUT_BYTES

HIGH_WATER = 1 << 16
"""Above this, work that would make more output waits (paced reads, subscriptions); requests are not read.

It is small, since what waits here counts as written: a subscription's backlog stands behind it (contract ledger 8)."""
STALL_S = 5.0
"""A client that is owed answers and reads not one byte for so long, while that much waits for it, does not read."""


class Output:
    """The sending half of a connection. `on_overflow` is called for a client that does not read: it has cost 8 MiB, or
    has stood still for `STALL_S` while `owes` says that answers wait for it. What it held is then given back.

    One answer may be larger, when it gives back the largest message there can be: it goes out where all before it was
    read, or that message could never be delivered.
    """

    def __init__(self, on_overflow: Callable[[], None], owes: Callable[[], bool] = lambda: False) -> None:
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._pending = 0
        self._on_overflow = on_overflow
        self._owes = owes
        self._handed = 0
        self._watch: asyncio.TimerHandle | None = None
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
        unread = self._unread()
        self._pieces.append(piece)
        self._pending += len(piece)
        if unread and unread + len(piece) > OUTPUT_BYTES:
            self._pieces.clear()
            self._pending = 0
            self._on_overflow()
        elif self._pending > HIGH_WATER:
            self.flush()  # so that `room` tells at once those who would add to it in this same turn

    async def roomy(self) -> None:
        """Until the client has room for more. Whoever waited looks again, since another may have filled it first."""
        while not self.room.is_set() or self._unread() > HIGH_WATER:
            await self.room.wait()
            await asyncio.sleep(0)

    def pause(self) -> None:
        """The transport has enough; from now on the client must read."""
        self.room.clear()
        self._watch = self._loop.call_later(STALL_S, self._look, self._read())

    def resume(self) -> None:
        """There is room again, or nobody is left to read."""
        self.room.set()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self, before: int) -> None:
        read = self._read()
        if read == before and self._owes():
            self._on_overflow()
        else:
            self._watch = self._loop.call_later(STALL_S, self._look, read)

    def _read(self) -> int:
        """How many bytes have left for the client."""
        return self._handed - (0 if self._transport is None else self._transport.get_write_buffer_size())

    def _unread(self) -> int:
        return self._pending + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def flush(self) -> None:
        """Hand what was gathered to the transport."""
        if self._pieces and self._transport is not None and not self._transport.is_closing():
            self._handed += self._pending
            self._transport.write(b"".join(self._pieces))
        self._pieces.clear()
        self._pending = 0
