"""Standard input and output as one connection, on both loops and on whatever a client may put there."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pty
import socket
import stat
import threading
import tty
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import pytest

from interlock.daemon.pump import write_all
from interlock.daemon.stdio import Wire, open_stdio

LOOPS: Final = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
every_loop = pytest.mark.parametrize("loop", LOOPS)


class Recorder(asyncio.Protocol):
    """Remembers what it is told; `stay` is its answer to the end of input."""

    def __init__(self, *, stay: bool = True) -> None:
        self.calls: list[str] = []
        self.data = b""
        self.error: Exception | None = None
        self.transport: asyncio.Transport | None = None
        self._changed = asyncio.Event()
        self._stay = stay

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until what was told is enough."""
        async with asyncio.timeout(10):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def heard(self, call: str) -> None:
        """Wait for this call."""
        await self.until(lambda: call in self.calls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    def eof_received(self) -> bool:
        self._note("eof")
        return self._stay

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("lost")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()


def run(loop: str, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's body on this loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(test())


def send_all(fd: int, data: bytes) -> None:
    """Write everything and close."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)


def write_and_close(fd: int, data: bytes) -> None:
    """As our own threads write, then close."""
    write_all(fd, data)
    os.close(fd)


def read_all(fd: int) -> bytes:
    """Read to the end and close."""
    data = b""
    while more := os.read(fd, 1 << 16):
        data += more
    os.close(fd)
    return data


@contextmanager
def client(kind: str, folder: Path, sent: bytes) -> Iterator[tuple[Wire, Callable[[], bytes]]]:
    """The other end, which sends and then ends its input: our wire, and how to read what came out to its end."""
    if kind == "file":
        (folder / "input").write_bytes(sent)
        out = os.open(folder / "output", os.O_WRONLY | os.O_CREAT, 0o600)
        yield Wire(os.open(folder / "input", os.O_RDONLY), out), (folder / "output").read_bytes
        return
    if kind == "pipe":
        (source, sink), (back, out) = os.pipe(), os.pipe()
    elif kind == "two sockets":
        (source, sink), (back, out) = socket_pair(), socket_pair()
        # A peer may write to our output, and even end that: it reads it all the same.
        with socket.socket(fileno=os.dup(back)) as peer:
            peer.sendall(b"noise that nobody asked for")
            peer.shutdown(socket.SHUT_WR)
    else:
        source, sink = socket_pair()
        out, back = os.dup(source), os.dup(sink)
    sender = threading.Thread(target=send_to_the_end, args=(sink, sent))
    sender.start()
    yield Wire(source, out), lambda: read_all(back)
    sender.join()


def socket_pair() -> tuple[int, int]:
    """Two connected descriptors."""
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def send_to_the_end(fd: int, data: bytes) -> None:
    """Write everything and end the input, also where another descriptor of the same socket stays open."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        with socket.socket(fileno=fd) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
    else:
        send_all(fd, data)


@every_loop
@pytest.mark.parametrize("kind", ["pipe", "file", "two sockets", "one socket"])
def test_all_that_is_sent_is_received_and_all_that_is_written_is_out(loop: str, kind: str, tmp_path: Path) -> None:
    sent, written = os.urandom(500_000), os.urandom(500_000)

    async def body() -> None:
        protocol = Recorder()
        transport = await open_stdio(protocol, wire)
        assert protocol.transport is transport
        reading = asyncio.create_task(asyncio.to_thread(read)) if kind != "file" else None
        await protocol.heard("eof")
        assert protocol.data == sent
        for start in range(0, len(written), 50_000):
            transport.write(written[start : start + 50_000])
        assert not transport.is_closing()
        transport.close()
        assert transport.is_closing()
        await protocol.heard("lost")
        assert (await reading if reading else read()) == written
        told = [call for call in protocol.calls if call not in ("pause", "resume")]
        assert (told, protocol.error) == (["made", "eof", "lost"], None)

    with client(kind, tmp_path, sent) as (wire, read):
        run(loop, body)


@every_loop
@pytest.mark.parametrize("kind", ["pipe", "file", "two sockets", "one socket"])
def test_a_protocol_that_does_not_stay_is_closed_at_the_end_of_input(loop: str, kind: str, tmp_path: Path) -> None:
    async def body() -> None:
        protocol = Recorder(stay=False)
        await open_stdio(protocol, wire)
        await protocol.heard("lost")
        assert (protocol.calls, protocol.data) == (["made", "eof", "lost"], b"all")

    with client(kind, tmp_path, b"all") as (wire, read):
        run(loop, body)
        assert read() == b""


@every_loop
def test_nothing_is_written_after_close_and_nothing_received(loop: str) -> None:
    async def body() -> None:
        (source, sink), (back, out) = os.pipe(), os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        transport.write(b"in time")
        os.write(sink, b"too late")
        transport.close()
        transport.write(b"too late")
        transport.close()
        await protocol.heard("lost")
        assert (read_all(back), protocol.data, protocol.calls) == (b"in time", b"", ["made", "lost"])
        os.close(sink)

    run(loop, body)


@every_loop
def test_a_null_input_is_at_its_end(loop: str) -> None:
    async def body() -> None:
        back, out = os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(os.open(os.devnull, os.O_RDONLY), out))
        await protocol.heard("eof")
        transport.write(b"still")
        transport.close()
        await protocol.heard("lost")
        assert read_all(back) == b"still"

    run(loop, body)


@every_loop
def test_an_input_that_cannot_be_read_is_at_its_end(loop: str, tmp_path: Path) -> None:
    async def body() -> None:
        back, out = os.pipe()
        protocol = Recorder(stay=False)
        await open_stdio(protocol, Wire(os.open(tmp_path, os.O_RDONLY), out))
        await protocol.heard("lost")
        assert protocol.calls == ["made", "eof", "lost"]
        os.close(back)

    run(loop, body)


def test_a_thread_writes_all_also_where_somebody_made_the_descriptor_non_blocking() -> None:
    back, out = os.pipe()
    os.set_blocking(out, False)
    writing = threading.Thread(target=write_and_close, args=(out, bytes(1_000_000)))
    writing.start()
    assert len(read_all(back)) == 1_000_000
    writing.join()


@every_loop
def test_a_terminal_is_read_to_its_end_and_written_whole(loop: str) -> None:
    async def body() -> None:
        keyboard, follower = pty.openpty()
        screen, out = pty.openpty()
        tty.setraw(out)
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(follower, out))
        os.write(keyboard, b"hello\n")
        await protocol.until(lambda: protocol.data == b"hello\n")
        assert os.get_blocking(keyboard)
        os.write(keyboard, b"\x04")  # what a person types at the end
        await protocol.heard("eof")
        transport.write(b"answer")
        transport.close()
        assert os.read(screen, 100) == b"answer"
        await protocol.heard("lost")
        os.close(keyboard)
        os.close(screen)

    run(loop, body)


@every_loop
def test_a_terminal_that_hangs_up_is_the_end_of_input(loop: str) -> None:
    async def body() -> None:
        keyboard, follower = pty.openpty()
        back, out = os.pipe()
        protocol = Recorder(stay=False)
        await open_stdio(protocol, Wire(follower, out))
        os.close(keyboard)
        await protocol.heard("lost")
        assert protocol.calls == ["made", "eof", "lost"]
        os.close(back)

    run(loop, body)


@every_loop
def test_closing_ends_a_thread_that_waits_at_a_terminal(loop: str) -> None:
    async def body() -> None:
        keyboard, follower = pty.openpty()
        back, out = os.pipe()
        before = set(threading.enumerate())
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(follower, out))
        (waiting,) = set(threading.enumerate()) - before
        transport.close()
        await protocol.heard("lost")
        await asyncio.to_thread(waiting.join, 10)
        assert not waiting.is_alive()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(follower)
        os.close(keyboard)
        os.close(back)

    run(loop, body)


@every_loop
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_client_that_reads_no_more_takes_the_connection_down(loop: str, kind: str) -> None:
    async def body() -> None:
        source, sink = os.pipe()
        out, back = socket_pair() if kind == "socket" else reversed(os.pipe())
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        os.close(back)
        transport.write(b"x")
        await protocol.heard("lost")
        assert protocol.calls == ["made", "lost"]
        os.close(sink)

    run(loop, body)


@every_loop
def test_an_output_that_fails_is_told_as_the_reason(loop: str) -> None:
    async def body() -> None:
        source, sink = os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, os.open("/dev/full", os.O_WRONLY)))
        transport.write(b"x")
        await protocol.heard("lost")
        assert "No space left" in str(protocol.error)
        assert protocol.calls == ["made", "lost"]
        os.close(sink)

    run(loop, body)


@every_loop
def test_who_writes_faster_than_the_client_reads_is_told_to_pause_and_to_go_on(loop: str) -> None:
    async def body() -> None:
        (source, sink), (back, out) = os.pipe(), os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        transport.set_write_buffer_limits(high=1000, low=100)
        assert transport.get_write_buffer_limits() == (100, 1000)
        transport.write(bytes(1_000_000))
        assert transport.get_write_buffer_size() > 1000
        await protocol.heard("pause")
        reading = asyncio.create_task(asyncio.to_thread(read_all, back))
        await protocol.heard("resume")
        transport.close()
        assert len(await reading) == 1_000_000
        await protocol.heard("lost")
        assert transport.get_write_buffer_size() == 0
        os.close(sink)

    run(loop, body)


@every_loop
def test_reading_pauses_and_goes_on(loop: str) -> None:
    async def body() -> None:
        (source, sink), (back, out) = os.pipe(), os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        assert transport.is_reading()
        transport.pause_reading()
        assert not transport.is_reading()
        os.write(sink, b"later")
        ticket = os.pipe()  # the loop has looked at its descriptors when this one came through
        seen = asyncio.Event()
        asyncio.get_running_loop().add_reader(ticket[0], seen.set)
        os.write(ticket[1], b"x")
        await seen.wait()
        assert protocol.data == b""
        transport.resume_reading()
        await protocol.until(lambda: protocol.data == b"later")
        asyncio.get_running_loop().remove_reader(ticket[0])
        transport.close()
        await protocol.heard("lost")
        transport.pause_reading()
        transport.resume_reading()
        assert not transport.is_reading()
        for fd in (*ticket, sink, back):
            os.close(fd)

    run(loop, body)


@every_loop
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_aborting_waits_for_nobody(loop: str, kind: str) -> None:
    async def body() -> None:
        source, sink = os.pipe()
        back, out = pty.openpty() if kind == "terminal" else os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        transport.write(bytes(1_000_000))
        transport.abort()
        assert transport.is_closing()
        await protocol.heard("lost")
        assert protocol.calls[-1] == "lost"
        assert "eof" not in protocol.calls
        os.close(sink)
        os.close(back)

    run(loop, body)


@every_loop
def test_the_output_cannot_be_ended_alone(loop: str) -> None:
    async def body() -> None:
        (source, sink), (back, out) = os.pipe(), os.pipe()
        protocol = Recorder()
        transport = await open_stdio(protocol, Wire(source, out))
        assert transport.can_write_eof() is False
        assert transport.get_extra_info("socket") is None
        transport.close()
        await protocol.heard("lost")
        os.close(sink)
        os.close(back)

    run(loop, body)
