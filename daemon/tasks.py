"""Ending tasks for sure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

AGAIN_S: Final = 0.05


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are done. Their errors are not raised.

    A write that has begun takes a cancellation back, so that what was committed is answered (DESIGN 4.2). A loop around
    it would then go on for ever: it is cancelled again, until it meets an await that lets go.
    """
    alive = {task for task in tasks if not task.done()}
    while alive:
        for task in alive:
            task.cancel()
        _, alive = await asyncio.wait(alive, timeout=AGAIN_S)
