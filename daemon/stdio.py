"""Standard input and output as one connection, kept to the protocol alone (DESIGN 3.1, C04, C05).

Owns the two private descriptors and the transport that joins them for one asyncio.Protocol. How bytes get through where
the loop cannot wait for a descriptor is for `pump`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, cast

from .pump import Inlet, Outlet

STDERR: Final = 2


class Wire(NamedTuple):
    """The private duplicates of descriptors 0 and 1."""

    stdin: int
    stdout: int


def open_standard_descriptors() -> None:
    """Put /dev/null where 0, 1 or 2 is closed. Call it before anything is opened.

    Otherwise the next file that is opened, the store perhaps, becomes standard error, and logs are written into it.
    Python has no `sys.stdout` and `sys.stderr` then; it gets them, so that whoever writes to them need not ask.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)
    for number, name in (1, "stdout"), (STDERR, "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", errors="backslashreplace", closefd=False))


def take() -> Wire:
    """Take descriptors 0 and 1 for the protocol. Then 0 is null and 1 is stderr: a stray print is a line in the log."""
    open_standard_descriptors()
    wire = Wire(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(STDERR, 1)
    return wire


async def open_stdio(protocol: asyncio.Protocol, wire: Wire | None = None) -> asyncio.Transport:
    """Connect standard input and output, or `wire`, to `protocol`, and return their common transport.

    `eof_received` comes once, at the end of input; when it returns true, output goes on until `close`.
    `connection_lost` comes when everything that was written is out, or cannot get out. The descriptors belong to the
    transport from here on.
    """
    wire = take() if wire is None else wire
    loop = asyncio.get_running_loop()
    if _kind(wire.stdin) == "socket" and _same(wire.stdin, wire.stdout) and _kind(wire.stdout) == "socket":
        os.close(wire.stdout)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, socket.socket(fileno=wire.stdin))
        return transport
    joined = StdioTransport(loop, protocol)
    await joined.connect(wire)
    return joined


class StdioTransport(asyncio.Transport):
    """One transport out of a reading and a writing half. It is lost when both are, and says so once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._owed: set[str] = {"input", "output"}
        self._closing = False
        self._paused = False
        self._ended = False
        self._error: Exception | None = None

    async def connect(self, wire: Wire) -> None:
        """Connect the halves; the protocol hears of it before the first byte."""
        output, source = _WriteHalf(self, self._protocol), _ReadHalf(self)
        match _kind(wire.stdout):
            case "socket":
                # Not as a pipe: the loop takes readable for closed there, and a peer may well write to its own end.
                await self._loop.connect_accepted_socket(lambda: output, socket.socket(fileno=wire.stdout))
            case "pipe":
                await self._loop.connect_write_pipe(lambda: output, os.fdopen(wire.stdout, "wb", 0))
            case "other":
                self._owed.add("outlet")
                pipe = Outlet(wire.stdout, self._outlet_done).start()
                await self._loop.connect_write_pipe(lambda: output, os.fdopen(pipe, "wb", 0))
        match _kind(wire.stdin):
            case "socket":
                await self._loop.connect_accepted_socket(lambda: source, socket.socket(fileno=wire.stdin))
            case "pipe":
                await self._loop.connect_read_pipe(lambda: source, os.fdopen(wire.stdin, "rb", 0))
            case "other":
                await self._loop.connect_read_pipe(lambda: source, os.fdopen(Inlet(wire.stdin).start(), "rb", 0))

    # What the halves report.

    def output_made(self, writer: asyncio.WriteTransport) -> None:
        """The writing half is there. The reading one comes next."""
        self._writer = writer

    def input_made(self, reader: asyncio.ReadTransport) -> None:
        """The reading half is there, and nothing has come from it yet."""
        self._reader = reader
        self._protocol.connection_made(self)
        if self._closing:  # the output was gone before there was an input
            reader.close()

    def received(self, data: bytes) -> None:
        """Bytes came."""
        if not self._closing:
            self._protocol.data_received(data)

    def input_ended(self) -> None:
        """The input is at its end."""
        if self._ended or self._closing:
            return
        self._ended = True
        if not self._protocol.eof_received():
            self.close()

    def lost(self, half: str, error: Exception | None) -> None:
        """A half is closed. An input that broke has ended; an output that broke takes all down."""
        self._owed.discard(half)
        if half == "input":
            self.input_ended()
        else:
            self._error = self._error or error
            self.close()
        if not self._owed:
            self._owed.add("nothing")  # so that it is said once
            self._protocol.connection_lost(self._error)

    def _outlet_done(self, error: OSError | None) -> None:
        with suppress(RuntimeError):  # the loop is gone, and everybody with it
            self._loop.call_soon_threadsafe(self.lost, "outlet", error)

    # What the protocol calls.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Queue bytes for the output."""
        if self._writer is not None and not self._closing:
            self._writer.write(data)

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing

    def close(self) -> None:
        """Stop reading, write what is queued, then be lost."""
        self._closing = True
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.close()

    def abort(self) -> None:
        """Be lost at once, without writing what is queued."""
        self._closing = True
        self._owed.discard("outlet")  # its thread may wait for a reader that never comes
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.abort()

    def is_reading(self) -> bool:
        """Whether bytes are taken in."""
        # Not asked of the half: the pipes of early releases of Python 3.11 cannot say.
        return self._reader is not None and not (self._paused or self._ended or self._closing)

    def pause_reading(self) -> None:
        """Take no more bytes in until `resume_reading`."""
        self._paused = True
        if self._reader is not None:
            self._reader.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes in again."""
        self._paused = False
        if self._reader is not None:
            self._reader.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Bytes that are queued and not out."""
        return 0 if self._writer is None else self._writer.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The low and the high mark in bytes."""
        return (0, 0) if self._writer is None else self._writer.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Above `high` queued bytes the protocol is told to pause, below `low` to go on."""
        if self._writer is not None:
            self._writer.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        """No: the output ends with the transport."""
        return False


class _ReadHalf(asyncio.Protocol):
    def __init__(self, whole: StdioTransport) -> None:
        self._whole = whole

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._whole.input_made(cast("asyncio.ReadTransport", transport))

    def data_received(self, data: bytes) -> None:
        self._whole.received(data)

    def eof_received(self) -> None:
        self._whole.input_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._whole.lost("input", exc)


class _WriteHalf(asyncio.Protocol):
    def __init__(self, whole: StdioTransport, protocol: asyncio.Protocol) -> None:
        self._whole = whole
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._whole.output_made(cast("asyncio.WriteTransport", transport))

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def eof_received(self) -> bool:
        return True  # a peer that will not write to our output still reads it

    def connection_lost(self, exc: Exception | None) -> None:
        self._whole.lost("output", exc)


def _kind(fd: int) -> Literal["pipe", "socket", "other"]:
    """How the loop can wait for it; "other": not at all, or it would make standard error non-blocking with it."""
    mode = os.fstat(fd).st_mode
    if _same(fd, STDERR):
        return "other"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) and _is_stream(fd) else "other"


def _is_stream(fd: int) -> bool:
    with socket.socket(fileno=os.dup(fd)) as sock:
        return sock.type == socket.SOCK_STREAM


def _same(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))
