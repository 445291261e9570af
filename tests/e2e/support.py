"""A client that writes raw bytes and judges every answer, and what several of these tests look at."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from tests.harness import PATIENCE_S, Client, Spawned, environment, spawned

Framing = Literal["line", "header"]
Where = tuple[Literal["socket", "stdio"], Framing]
WHERES: Final[list[Where]] = [("socket", "line"), ("socket", "header"), ("stdio", "line"), ("stdio", "header")]


class Wire:
    """Two streams and a framing. What is read must be lawful JSON-RPC and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framing: Framing) -> None:
        self.reader = reader
        self.writer = writer
        self.framing = framing
        self._serial = itertools.count(1)

    def send(self, payload: bytes) -> None:
        """One message of these bytes."""
        head = b"Content-Length: %d\r\n\r\n" % len(payload) if self.framing == "header" else b""
        self.writer.write(head + payload + (b"" if head else b"\n"))

    async def read(self) -> Any:
        """The next answer, parsed; None at the end."""
        with anyio.fail_after(PATIENCE_S):
            payload = await self._payload()
        if payload is None:
            return None
        message = json.loads(payload, parse_constant=_no_constant)
        for member in message if isinstance(message, list) else [message]:
            check_lawful(member)
        return message

    async def answers(self, payload: bytes, count: int = 1) -> list[Any]:
        """Send a message; exactly `count` answers come to it, and the connection still serves."""
        self.send(payload)
        found = [await self.read() for _ in range(count)]
        probe = f"probe-{next(self._serial)}"
        self.send(request(probe, "daemon/ping"))
        answer = await self.read()
        assert answer is not None, (payload[:200], "the connection was closed")
        assert answer.get("id") == probe, (payload[:200], answer)
        return found

    async def _payload(self) -> bytes | None:
        if self.framing == "line":
            line = await self.reader.readline()
            assert line[-1:] in (b"", b"\n")
            assert b"\r" not in line
            return line or None
        header = await self.reader.readline()
        if not header:
            return None
        name, _, length = header.partition(b": ")
        assert name == b"Content-Length"
        assert await self.reader.readline() == b"\r\n"
        return await self.reader.readexactly(int(length))


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def check_lawful(message: Any) -> None:
    """A message of the daemon is an answer, a notification or a request of its own, by the letter of JSON-RPC 2.0."""
    assert isinstance(message, dict), message
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        assert isinstance(message["method"], str)
        assert set(message) <= {"jsonrpc", "id", "method", "params"}
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), message
    assert message["id"] is None or type(message["id"]) in (int, str)
    if "error" in message:
        error = message["error"]
        assert set(error) == {"code", "message", "data"}
        assert type(error["code"]) is int
        assert type(error["message"]) is str
        assert type(error["data"]["code"]) is str
        assert type(error["data"]["retryable"]) is bool


def request(request_id: Any, method: str, params: Any = None, **more: Any) -> bytes:
    """The bytes of a request."""
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, **more}
    return json.dumps(body if params is None else {**body, "params": params}).encode()


@asynccontextmanager
async def wire(tmp_path: Path, where: Where) -> AsyncIterator[Wire]:
    """A raw connection to a process of its own, over its socket or its stdio."""
    transport, framing = where
    async with spawned(tmp_path, stdio=transport == "stdio") as daemon:
        if transport == "stdio":
            assert daemon.process.stdin is not None
            assert daemon.process.stdout is not None
            yield Wire(daemon.process.stdout, daemon.process.stdin, framing)
            return
        await (await daemon.client()).close()
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=1 << 26)
        try:
            yield Wire(reader, writer, framing)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def on(daemon: Spawned) -> AsyncIterator[Client]:
    """A client on a process's socket, as soon as it listens."""
    client = await daemon.client()
    try:
        yield client
    finally:
        await client.close()


async def until(look: Callable[[], Awaitable[Any]], patience: float = PATIENCE_S) -> Any:
    """What `look` gives as soon as it is true: for what another process does, which tells nobody."""
    with anyio.fail_after(patience):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.02)


def folded(events: list[dict[str, Any]]) -> dict[str, str]:
    """The state of each message that the feed tells."""
    states = (event["data"] for event in events if event["type"] == "ledger_state")
    return {data["msg_id"]: data["state"] for data in states}


async def rows(client: Client) -> dict[str, str]:
    """The state of each message that the table has."""
    found: dict[str, str] = {}
    cursor: dict[str, str] = {}
    while True:
        page = await client.call("ledger/query", limit=500, **cursor)
        found |= {row["msg_id"]: row["state"] for row in page["rows"]}
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}


def note(n: int | str, text: str = "work", to: str = "w") -> dict[str, Any]:
    """The params of a send."""
    return {"kind": "note", "to": to, "body": {"text": f"{text} {n}"}, "op_id": f"op-{n}"}


@contextmanager
def locked(store: Path) -> Iterator[sqlite3.Connection]:
    """Another process's write lock on a store, held for as long as this lasts."""
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        other.execute("ROLLBACK")


def run(tmp_path: Path, *arguments: str, module: str = "interlock.daemon", **options: Any) -> tuple[int, str, str]:
    """Run a process to its end: its code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        **{"stdin": subprocess.DEVNULL, "timeout": PATIENCE_S, "capture_output": True, **options},
        cwd=tmp_path,
        env=environment(tmp_path),
        text=True,
        check=False,
    )
    return done.returncode, done.stdout or "", done.stderr or ""


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def inode(path: Path) -> int:
    """Which file it is."""
    return os.lstat(path).st_ino
