"""Clients that cost a few microseconds a request, so that what is measured is the daemon."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

_ID: Final = re.compile(rb'"jsonrpc":"2.0","id":(\d+)')
_CHUNK: Final = 1 << 18
_encode: Final = msgspec.json.Encoder().encode


class WireError(Exception):
    """The daemon refused, or closed the connection."""


class RefusedError(WireError):
    """The daemon answered with an error object."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error}")
        self.code: str = error["data"]["code"]
        self.retryable: bool = error["data"]["retryable"]


def call(method: str, number: int, params: object) -> bytes:
    """One request as a line."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, method.encode(), _encode(params))


class Wire:
    """A blocking connection, one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""
        self._number = 0
        self._lines = self.lines()

    @classmethod
    def connect(cls, path: Path, timeout: float = 20.0) -> Wire:
        """A connection to the socket at `path`. Raises OSError."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        try:
            sock.connect(str(path))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.sock.close()

    def lines(self) -> Iterator[bytes]:
        """Messages as they come, for ever."""
        while True:
            head, found, tail = self._rest.partition(b"\n")
            if found:
                self._rest = tail
                yield head
                continue
            data = self.sock.recv(_CHUNK)
            if not data:
                raise WireError("the daemon closed the connection")
            self._rest += data

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request; notifications that come first are dropped. Raises WireError, OSError."""
        answer = self.ask_all(method, [params])[0]
        if "error" in answer:
            raise RefusedError(method, answer["error"])
        return answer["result"]

    def ask_all(
        self,
        method: str,
        several: Sequence[dict[str, Any]],
        heard: Callable[[int, Any], None] = lambda _n, _answer: None,
    ) -> list[Any]:
        """The answers of requests sent at once, in their order; `heard` is told each as it comes. Raises WireError."""
        first = self._number + 1
        self._number += len(several)
        self.sock.sendall(b"".join(call(method, first + n, params) for n, params in enumerate(several)))
        answers: dict[int, Any] = {}
        while len(answers) < len(several):
            answer = msgspec.json.decode(next(self._lines))
            if "id" in answer:
                answers[answer["id"]] = answer
                heard(answer["id"] - first, answer)
        return [answers[first + n] for n in range(len(several))]


def pump(wire: Wire, frames: list[bytes], window: int, seconds: float) -> list[float]:
    """Keep `window` of the frames in flight on one connection; seconds from sending to answer, of each.

    Frame n has the id n. Ends when all are answered, or no longer sends after `seconds`. Raises WireError.
    """
    lat: list[float] = []
    sent: list[float] = []
    clock = time.perf_counter
    end, rest, room = clock() + seconds, b"", window
    while True:
        first = len(sent)
        last = min(len(frames), first + room) if clock() < end else first
        if last > first:
            now = clock()
            sent += [now] * (last - first)
            wire.sock.sendall(b"".join(frames[first:last]))
        if len(lat) == last:
            return lat
        data = wire.sock.recv(_CHUNK)
        if not data:
            raise WireError("the daemon closed the connection")
        data = rest + data
        cut = data.rfind(b"\n") + 1
        rest, data = data[cut:], data[:cut]
        if b'"error":' in data:
            raise WireError(data[:500].decode())
        now = clock()
        done = _ID.findall(data)
        lat += [now - sent[int(number)] for number in done]
        room = window - (len(sent) - len(lat))


Step = Callable[[bytes], bytes | None]
"""What one actor does with an answer: its next request, or None when it is done."""


def act(path: Path, actors: list[tuple[bytes, Step]]) -> None:
    """One connection per actor: send its first request, then what it says to each answer, until all are done."""
    selector = selectors.DefaultSelector()
    try:
        for first, step in actors:
            wire = Wire.connect(path)
            selector.register(wire.sock, selectors.EVENT_READ, (step, [b""]))
            wire.sock.sendall(first)
        left = len(actors)
        while left:
            ready = selector.select(20.0)
            if not ready:
                raise WireError("no answer within 20 s")
            for key, _ in ready:
                left -= _turn(key)
    finally:
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        selector.close()


def _turn(key: selectors.SelectorKey) -> bool:
    """Let one actor read and go on; whether it is done."""
    sock: socket.socket = key.fileobj  # type: ignore[assignment]
    step, rest = key.data
    data = sock.recv(_CHUNK)
    if not data:
        raise WireError("the daemon closed the connection")
    rest[0] += data
    if not rest[0].endswith(b"\n"):
        return False
    line, rest[0] = rest[0], b""
    if b'"error":' in line:
        raise WireError(line[:500].decode())
    answer = step(line)
    if answer is None:
        return True
    sock.sendall(answer)
    return False
