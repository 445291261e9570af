"""Real daemons for tests: in this loop (`served`), or as processes of their own (`spawned`), and a client for both.

Live things come from `async with` helpers used in the test's own body, never from fixtures.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio

from interlock.daemon.app import App
from interlock.daemon.settings import LedgerSettings, Settings

PATIENCE_S = 20
"""How long a test waits for something that must happen. Never a measure of speed."""


class Refused(Exception):
    """The daemon answered with an error object."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.number: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error["data"]
        self.code: str = error["data"]["code"]


class Client:
    """A JSON-RPC client over a pair of streams, in either framing. One reader task hands answers out by id."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        framing: Literal["line", "header"] = "line",
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.framing = framing
        self.notifications: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.strays: list[Any] = []
        self.ended = asyncio.Event()
        self._answers: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._serial = itertools.count(1)
        self._task = asyncio.get_running_loop().create_task(self._read())

    def send(self, message: Any) -> None:
        """Write one message as it is."""
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, payload: bytes) -> None:
        """Write bytes as one message of the client's framing."""
        if self.framing == "line":
            self.writer.write(payload + b"\n")
        else:
            self.writer.write(b"Content-Length: %d\r\n\r\n" % len(payload) + payload)

    def start(self, method: str, /, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request; the future is its whole answer."""
        return self.begin(method, params)[1]

    def begin(self, method: str, params: Any) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        """Send a request; its id and the future of its whole answer."""
        request_id = next(self._serial)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = future
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return request_id, future

    async def call(self, method: str, /, **params: Any) -> Any:
        """The result of a request. Raises Refused."""
        with anyio.fail_after(PATIENCE_S):
            return result_of(await self.start(method, **params))

    async def refused(self, method: str, /, **params: Any) -> Refused:
        """The refusal of a request that must be refused."""
        with anyio.fail_after(PATIENCE_S):
            answer = await self.start(method, **params)
        assert "error" in answer, f"{method} was not refused: {answer}"
        return Refused(answer["error"])

    async def notified(self, method: str | None = None) -> dict[str, Any]:
        """The next notification (of a method); its params."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                message = await self.notifications.get()
                if method is None or message["method"] == method:
                    params: dict[str, Any] = message["params"]
                    return params

    async def end_input(self) -> None:
        """Say that nothing more comes, and wait until the daemon has said all it had to say."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.writer.close()
        with anyio.fail_after(PATIENCE_S):
            await self.ended.wait()

    async def close(self) -> None:
        """Close both directions and wait for the reader to end."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _read(self) -> None:
        try:
            while (payload := await self._payload()) is not None:
                self._take(json.loads(payload))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended.set()
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(ConnectionError("the daemon closed the connection"))
                    future.exception()

    async def _payload(self) -> bytes | None:
        if self.framing == "line":
            return await self.reader.readline() or None
        length = 0
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return await self.reader.readexactly(length) if line else None

    def _take(self, message: Any) -> None:
        if isinstance(message, dict) and "method" in message:
            self.notifications.put_nowait(message)
        elif isinstance(message, dict) and (future := self._answers.pop(message.get("id"), None)) is not None:
            if not future.done():
                future.set_result(message)
        else:
            self.strays.append(message)


def result_of(answer: dict[str, Any]) -> Any:
    """The result of an answer. Raises Refused."""
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["result"]


async def connect(path: Path | str, framing: Literal["line", "header"] = "line") -> Client:
    """A client on a Unix socket."""
    reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 26)
    return Client(reader, writer, framing)


class Served:
    """A daemon that runs in this loop."""

    def __init__(self, app: App, socket: Path, state_dir: Path) -> None:
        self.app = app
        self.socket = socket
        self.state_dir = state_dir

    @asynccontextmanager
    async def client(
        self, framing: Literal["line", "header"] = "line", role: str | None = None
    ) -> AsyncIterator[Client]:
        """A client of it, attached to `role` where one is given."""
        client = await connect(self.socket, framing)
        try:
            if role is not None:
                await client.call("ledger/attach", role=role)
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def served(
    tmp_path: Path, *, roles: tuple[str, ...] = (), ledger: LedgerSettings | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """A daemon in this loop on real files and a real socket, with these roles, stopped in order at the end."""
    state_dir = tmp_path / "state"
    socket = tmp_path / "s.sock"
    app = App(Settings(state_dir=state_dir, socket=socket, ledger=ledger or LedgerSettings(), **settings), None)
    ready = asyncio.Event()
    running = asyncio.get_running_loop().create_task(app.run(ready.set))
    try:
        with anyio.fail_after(PATIENCE_S):
            await first_of(ready.wait(), running)
        daemon = Served(app, socket, state_dir)
        if roles:
            async with daemon.client() as operator:
                for role in roles:
                    await operator.call("ledger/role/upsert", name=role)
        yield daemon
    finally:
        app.stop(2000)
        with anyio.fail_after(PATIENCE_S):
            await running


async def first_of(event: Any, task: asyncio.Task[None]) -> None:
    """Until `event` has come; raises what `task` ends with if that is first."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        await task
        raise AssertionError("the daemon ended")


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment in which a spawned process finds nothing of the person who runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("INTERLOCK_", "XDG_"))}
    places = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    return {**kept, **places, **more}


class Spawned:
    """A daemon process."""

    def __init__(self, process: asyncio.subprocess.Process, socket: Path | None, state_dir: Path) -> None:
        self.process = process
        self.socket = socket
        self.state_dir = state_dir
        self.log: list[str] = []
        self._logging = asyncio.get_running_loop().create_task(self._keep_log())

    async def ended(self) -> int:
        """Its exit code, once it has ended and its log is whole."""
        with anyio.fail_after(PATIENCE_S):
            await self._logging
            return await self.process.wait()

    async def kill(self) -> None:
        """End it with SIGKILL if it is still there."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()

    async def _keep_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())

    async def client(self, framing: Literal["line", "header"] = "line") -> Client:
        """A client on its socket, as soon as it listens."""
        assert self.socket is not None
        return await listening(self.socket, framing)

    def stdio(self, framing: Literal["line", "header"] = "line") -> Client:
        """A client on its stdin and stdout."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return Client(self.process.stdout, self.process.stdin, framing)


async def listening(path: Path, framing: Literal["line", "header"] = "line") -> Client:
    """A client on a socket, as soon as somebody listens there."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                return await connect(path, framing)
            except OSError:
                await asyncio.sleep(0.01)  # there is no event for a socket that another process binds


@asynccontextmanager
async def spawned(
    tmp_path: Path,
    *arguments: str,
    stdio: bool = False,
    socket: str | None = "s.sock",
    state_dir: str = "state",
    **environ: str,
) -> AsyncIterator[Spawned]:
    """A daemon process; killed at the end if it is still there."""
    path = None if socket is None else tmp_path / socket
    argv = [
        *(sys.executable, "-m", "interlock.daemon", "--state-dir", str(tmp_path / state_dir)),
        *("--socket", "none" if path is None else str(path)),
        *(("--stdio",) if stdio else ()),
        *arguments,
    ]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=pipe if stdio else asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=environment(tmp_path, **environ),
        cwd=tmp_path,
        limit=1 << 26,
    )
    daemon = Spawned(process, path, tmp_path / state_dir)
    try:
        yield daemon
    finally:
        await daemon.kill()
