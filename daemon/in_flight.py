"""What a connection has begun, what it still owes, and why something ends (contract daemon 1.2 to 1.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from interlock.lifecycle.refusal import Refusal
from interlock.protocol.envelope import Member
from interlock.protocol.framing import BadHeader, Oversized

Reply = Callable[[bytes], None]
"""Where an answer goes; nothing where none is owed."""
CANCELLED = Refusal("cancelled", "cancelled before anything was committed")
DOUBLE = Refusal("invalid_request", "a request with this id is still in flight", path="#/id")
CLIENT_GONE = Refusal("cancelled", "the client's side of the connection has ended")


class InFlight:
    """One request that has begun. A cancel may come before its task ran for the first time, so it leaves a note.

    `late`: it was read while the daemon drains.
    """

    __slots__ = ("late", "started", "task", "why")

    def __init__(self, late: bool) -> None:
        self.late = late
        self.started = False
        self.task: asyncio.Task[None] | None = None
        self.why: Refusal | None = None

    def cancel(self, why: Refusal) -> None:
        """End it with this answer, unless its transaction has begun: then its result is the answer."""
        self.why = why
        if self.started and self.task is not None:
            self.task.cancel()

    def check(self) -> None:
        """Raise what it was ended with: a transaction that had begun took the cancellation itself back."""
        if self.why is not None:
            raise another(self.why)


class Owed(NamedTuple):
    """A member of a batch that waits for its turn, and where its answer goes."""

    message: Member
    reply: Reply


class Draining:
    """What was read behind it is late."""


Item = bytes | Oversized | BadHeader | Owed | Draining
"""What waits to be begun."""


def another(why: Refusal) -> Refusal:
    """The same refusal as an object of its own: one that many requests raise would keep the frames of them all."""
    return Refusal(why.code, why.message, **why.data)


def no_answer(_answer: bytes) -> None:
    """Where the answer of a notification goes."""
