"""The gate: one admission at a time, in this process and across processes (contract workgraph 5.3).

It is courtesy: who comes through finds nobody else at work on who occupies what, so that racers are told of each other
in turn. The guarantee is in the store's transaction, which judges again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from interlock.lifecycle.refusal import Refusal

from .sidecar import Sidecar

FIRST_PAUSE_S: Final = 0.0002
LAST_PAUSE_S: Final = 0.005
GROWTH: Final = 1.25


class Gate:
    """First come, first served within the process; then the lock of the file at `path`, for which there is no queue.

    `wait_ms` is how long each one waits at most for both, from its arrival on, by the clock of the loop.
    """

    def __init__(self, path: Path, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self._sidecar = Sidecar(path)
        self._turn = anyio.Lock(fast_acquire=True)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the gate and hold it. Raises `admission_lock_timeout`, and what the file's state is refused with.

        A cancelled caller leaves nothing behind.
        """
        arrived = anyio.current_time()
        with anyio.CancelScope(deadline=arrived + self.wait_ms / 1000) as patience:
            await self._enter()
        if patience.cancelled_caught:
            raise self._timed_out(round((anyio.current_time() - arrived) * 1000))
        try:
            yield
        finally:
            self._leave()

    def close(self) -> None:
        """Let go of the file. Nobody is at the gate any more."""
        self._sidecar.close()

    async def _enter(self) -> None:
        await self._turn.acquire()
        try:
            pause = FIRST_PAUSE_S
            while not self._sidecar.try_lock():
                await anyio.sleep(pause)
                pause = min(pause * GROWTH, LAST_PAUSE_S)
        except BaseException:
            self._turn.release()
            raise

    def _leave(self) -> None:
        self._sidecar.unlock()
        self._turn.release()

    def _timed_out(self, waited_ms: int) -> Refusal:
        file = str(self._sidecar.path)
        message = f"others held the admission gate for {waited_ms} ms ({file}); nothing was written"
        return Refusal("admission_lock_timeout", message, file=file, waited_ms=waited_ms)
