"""A small blocking client of the daemon: JSON-RPC 2.0 over its Unix socket, one message per line.

The command line calls through it, and it is the reference for clients in other languages: it needs nothing but a
socket and JSON, knows no method, and has no limit of its own on the size of an answer (C27).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

CHUNK: Final = 1 << 18
CONNECT_SECONDS: Final = 5.0
"""How long a full backlog may hold a connect up. A daemon that lives accepts within milliseconds."""


class RpcFailure(Exception):
    """The daemon answered with an error object (contract README); `error` is that object, whole."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message", "")))
        self.error = error
        data = error.get("data")
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def code(self) -> str:
        """The string code, such as `not_found`."""
        return str(self.data.get("code", ""))

    @property
    def retryable(self) -> bool:
        """Whether the same request, unchanged, can succeed later."""
        return self.data.get("retryable") is True


class NoDaemon(Exception):
    """Nobody answers at `address`; `reason` says what was tried."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no daemon answers at {address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectionLost(NoDaemon):
    """The connection ended before the answer came. Whether the request was carried out is not known."""


class TimedOut(Exception):
    """No answer within the time that the caller gave."""


class Notification(NamedTuple):
    """What the daemon sends unasked: `events/event` and the like."""

    method: str
    params: dict[str, Any]


class Client:
    """One connection. Not for use by two threads at once.

    `with Client.connect(path) as client: client.call("daemon/ping")`
    """

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.address = address
        self._socket = connection
        self._buffer = bytearray()
        self._searched = 0
        self._last_id = 0
        self._notifications: deque[Notification] = deque()

    @classmethod
    def connect(cls, path: str | os.PathLike[str], timeout: float = CONNECT_SECONDS) -> Self:
        """Connect to the socket at `path`. Raises NoDaemon."""
        address = os.fspath(path)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            connection.connect(address)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            connection.close()
            raise NoDaemon(address, getattr(error, "strerror", None) or str(error)) from error
        return cls(connection, address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what is held for it goes back, as the ledger's rules say."""
        self._socket.close()

    def detach(self) -> socket.socket:
        """Give the connection away, before anything was sent on it."""
        return self._socket

    def call(self, method: str, params: Any = None, timeout: float | None = None) -> Any:
        """Send one request and return its result. `timeout` in seconds; none waits as long as the connection lives.

        Raises RpcFailure, ConnectionLost, TimedOut (the request is cancelled then, and a late answer dropped), and
        ValueError for params that no JSON can hold.
        """
        deadline = _deadline(timeout)
        self._last_id += 1
        request = self._last_id
        self._send({"jsonrpc": "2.0", "id": request, "method": method, **_params(params)}, deadline)
        try:
            return self._answer(request, deadline)
        except TimedOut:
            self.notify("$/cancelRequest", {"id": request})
            raise

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification: nothing answers it."""
        self._send({"jsonrpc": "2.0", "method": method, **_params(params)}, _deadline(CONNECT_SECONDS))

    def notifications(self, timeout: float | None = None) -> Iterator[Notification]:
        """What comes unasked, in order, also what came during a call; ends with the connection.

        Raises TimedOut when `timeout` seconds pass without one.
        """
        while True:
            if not self._notifications:
                try:
                    self._read(_deadline(timeout))
                except ConnectionLost:
                    return
            while self._notifications:
                yield self._notifications.popleft()

    def _answer(self, request: int, deadline: float | None) -> Any:
        while True:
            message = self._read(deadline)
            # An error without an id is about the one request that is under way: it could not be read.
            if message is None or message.get("id", request) not in (request, None):
                continue
            if "error" in message:
                raise RpcFailure(message["error"])
            return message.get("result")

    def _read(self, deadline: float | None) -> dict[str, Any] | None:
        """One answer, or None for a message that was no answer: notifications are kept, requests are not for us."""
        try:
            line = self._line(deadline)
            if not line.strip():
                return None
            message = json.loads(line)
        except ValueError as error:
            raise ConnectionLost(self.address, "what answers there is no JSON-RPC server") from error
        if not isinstance(message, dict):
            return None
        if "method" not in message:
            return message
        if "id" not in message:
            params = message.get("params")
            self._notifications.append(Notification(str(message["method"]), params if isinstance(params, dict) else {}))
        return None

    def _line(self, deadline: float | None) -> bytes:
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            self._buffer += self._receive(deadline)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _receive(self, deadline: float | None) -> bytes:
        try:
            self._socket.settimeout(_left(deadline))
            chunk = self._socket.recv(CHUNK)
        except TimeoutError as error:
            raise TimedOut(f"no answer from {self.address} in time") from error
        except OSError as error:
            raise ConnectionLost(self.address, error.strerror or str(error)) from error
        if not chunk:
            raise ConnectionLost(self.address, "the connection was closed")
        return chunk

    def _send(self, message: Mapping[str, Any], deadline: float | None) -> None:
        line = _encode(message)
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(line)
        except TimeoutError as error:
            raise TimedOut(f"{self.address} does not read") from error
        except OSError as error:
            raise ConnectionLost(self.address, error.strerror or str(error)) from error


def _params(params: Any) -> dict[str, Any]:
    return {} if params is None else {"params": params}


def _encode(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate: sent as an escape, so that the daemon can say where it stands.
        return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    """Seconds until `deadline`; never 0, which would mean non-blocking."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.001)
