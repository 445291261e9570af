"""How the process fares: the loop's delays, and clocks that jumped (DESIGN 5.2, 5.3).

The judgements are functions of readings; only `LoopLag.run` and `read_clocks` look at a clock.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

LAG_WINDOW: Final = 60.0
"""Seconds that `worst_ms` looks back."""
LAG_PERIOD: Final = 0.5
"""Seconds between two looks."""
JUMP_MS: Final = 500
"""A clock that moved less against another between two readings was slewed, not set."""
READING_MS: Final = 50
"""Readings further apart do not belong together."""


class LoopLag:
    """The event loop's worst delay in the last minute: how much later than asked a timer went off."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._worst: deque[tuple[float, float]] = deque()  # falling delays: a later, longer one makes earlier ones moot

    async def run(self, period: float = LAG_PERIOD) -> None:
        """Measure until cancelled. It wakes once per `period` and costs nothing between."""
        while True:
            asked = self._clock()
            await asyncio.sleep(period)
            now = self._clock()
            self.observe(now, now - asked - period)

    def observe(self, now: float, delay: float) -> None:
        """A timer was `delay` seconds late at `now`."""
        while self._worst and self._worst[-1][1] <= delay:
            self._worst.pop()
        self._worst.append((now, max(delay, 0.0)))
        self._forget(now)

    @property
    def worst_ms(self) -> int:
        """The worst delay of the last minute in whole milliseconds; 0 before the first look."""
        self._forget(self._clock())
        return int(self._worst[0][1] * 1000) if self._worst else 0

    def _forget(self, now: float) -> None:
        while self._worst and self._worst[0][0] < now - LAG_WINDOW:
            self._worst.popleft()


class Reading(NamedTuple):
    """The clocks at one moment, in milliseconds. `boot` goes on while the machine sleeps, `monotonic` does not."""

    wall: int
    monotonic: int
    boot: int | None


class Jump(NamedTuple):
    """What happened: the machine slept for `ms`, or the wall clock was set by `ms`, negative backwards."""

    kind: Literal["suspend", "clock_step"]
    ms: int


class SuspendWatch:
    """Finds sleeps and steps between one reading and the next. Pure: readings in, jumps out."""

    def __init__(self, first: Reading) -> None:
        self._last = first

    def observe(self, now: Reading) -> list[Jump]:
        """The jumps since the last reading, a sleep before a step.

        Where no clock counts sleep, a wall clock that is ahead means a sleep: who takes a step for a sleep gives the
        silent more time, who takes a sleep for a step takes it from them.
        """
        last, self._last = self._last, now
        elapsed = now.monotonic - last.monotonic
        wall = now.wall - last.wall
        if now.boot is not None and last.boot is not None:
            slept = now.boot - last.boot - elapsed
            stepped = wall - (now.boot - last.boot)
        else:
            slept, stepped = max(wall - elapsed, 0), min(wall - elapsed, 0)
        jumps = [Jump("suspend", slept)] if slept >= JUMP_MS else []
        return [*jumps, Jump("clock_step", stepped)] if abs(stepped) >= JUMP_MS else jumps


def read_clocks() -> Reading:
    """The clocks, read close enough together to be compared, also where the process is kept from running in between."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    while True:
        before = time.monotonic_ns() // 1_000_000
        wall = time.time_ns() // 1_000_000
        boot = time.clock_gettime_ns(boot_clock) // 1_000_000 if boot_clock is not None else None
        if time.monotonic_ns() // 1_000_000 - before < READING_MS:
            return Reading(wall, before, boot)
