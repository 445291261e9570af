"""Threads that carry bytes between a pipe, which a loop can wait for, and a descriptor, which it cannot.

That is: a regular file, a terminal, a device, and whatever standard error shares, because a loop makes descriptors
non-blocking, which would reach everyone who shares them.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Final

CHUNK: Final = 1 << 16


class Inlet:
    """Reads a descriptor to its end, into a pipe. It stops when the pipe's reader closes, also while it waits."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def start(self) -> int:
        """Start the thread and return the end to read from. The descriptor is closed by the thread."""
        reader, writer = os.pipe()
        threading.Thread(target=self._run, args=(writer,), name="stdin", daemon=True).start()
        return reader

    def _run(self, writer: int) -> None:
        try:
            while self._wait(writer) and (data := os.read(self._fd, CHUNK)):
                write_all(writer, data)
        except OSError:  # the terminal hung up, or nobody wants to know: either is the end of input
            pass
        finally:
            os.close(writer)
            os.close(self._fd)

    def _wait(self, writer: int) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(writer, 0)  # reports only that the other end was closed
        return writer not in dict(poll.poll())


class Outlet:
    """Writes what comes through a pipe to a descriptor, to the last byte."""

    def __init__(self, fd: int, done: Callable[[OSError | None], None]) -> None:
        """`done` is called by the thread when all is written, or with why it could not be."""
        self._fd = fd
        self._done = done

    def start(self) -> int:
        """Start the thread and return the end to write to. The descriptor is closed by the thread."""
        reader, writer = os.pipe()
        threading.Thread(target=self._run, args=(reader,), name="stdout", daemon=True).start()
        return writer

    def _run(self, reader: int) -> None:
        failure: OSError | None = None
        try:
            while data := os.read(reader, CHUNK):
                write_all(self._fd, data)
        except OSError as error:
            failure = error
        finally:
            os.close(reader)
            os.close(self._fd)
        self._done(failure)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, waiting as long as it takes, also where somebody else made the descriptor non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()
