"""Another process at the admission lock, for real."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

PATIENCE_S = 20.0

HOLD = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
conn.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


class Holder:
    """A process that holds the lock of a file until it is told to let go, or killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def let_go(self) -> None:
        """End it in order: its lock is free then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with anyio.fail_after(PATIENCE_S):
            assert await self._process.wait() == 0

    async def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        with anyio.fail_after(PATIENCE_S):
            await self._process.wait()


@asynccontextmanager
async def holding(path: Path) -> AsyncIterator[Holder]:
    """Another process holds the lock of the file, which it makes where there is none."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(path), stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    try:
        with anyio.fail_after(PATIENCE_S):
            assert await process.stdout.readline() == b"held\n"
        yield Holder(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
