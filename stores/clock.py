"""Where time comes from, and the instant of a transaction (DESIGN 1 rule 9, 4.2)."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The one source of time. Both readings are whole milliseconds."""

    def now_ms(self) -> int:
        """The wall clock: since 1970 in UTC. It may jump either way."""
        ...

    def monotonic_ms(self) -> int:
        """Since some start. It never goes back, and stands still while the machine sleeps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns() // 1_000_000


class Timeline:
    """Instants that never go back and never stand still. May be used from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offset = clock.now_ms() - clock.monotonic_ms()
        self._last = 0

    def now(self, floor_ms: int) -> int:
        """The present instant in ms since 1970, never earlier than `floor_ms` or than any instant given out before.

        When the wall clock steps back, time runs on by the monotonic clock from where it was, or from the floor, which
        is where it was for another process; when it steps forward (a wrong clock set right, a machine that slept), time
        follows.
        """
        with self._lock:
            monotonic = self._clock.monotonic_ms()
            self._offset = max(self._offset, max(self._clock.now_ms(), floor_ms) - monotonic)
            self._last = max(self._last, monotonic + self._offset)
            return self._last
