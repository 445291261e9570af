"""Joins standard input and output to the daemon's socket, byte for byte, so that a client needs no socket code."""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

CHUNK: Final = 1 << 16


def join(connection: socket.socket, source: int = 0, sink: int = 1) -> None:
    """Copy `source` to the socket and the socket to `sink` until either side ends.

    The end of `source` is passed on as a half-close: what is under way is still answered, then the daemon closes.
    The end of the socket, or of whoever reads `sink`, ends it at once.
    """
    connection.settimeout(None)
    # A thread per direction: each may block without holding the other up. This one may be left inside its read.
    threading.Thread(target=_send_all, args=(source, connection), daemon=True).start()
    try:
        while chunk := connection.recv(CHUNK):
            _write_all(sink, chunk)
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        connection.close()


def _send_all(source: int, connection: socket.socket) -> None:
    try:
        while chunk := os.read(source, CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction sees the same end, and says so


def _write_all(sink: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(sink, view) :]
