"""Bytes to messages and back, in the two framings of the wire (DESIGN 3.1).

Owns where a message begins and ends and how large it may be. Knows nothing of JSON, sockets or connections: any split
of the same input gives the same messages.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import msgspec

from .limits import HEADER_BYTES, MESSAGE_BYTES

HEAD_BYTES: Final = 4096
"""How much of an oversized message is kept, so that its id can be looked for (contract daemon 1.1)."""

_CR: Final = 0x0D
_HEADER_FIRST_BYTE: Final = ord("C")
_BLANK: Final = b" \t\r"
_BLOCK_END: Final = re.compile(rb"(?:\A|\n)\r?\n")
_BLOCK_END_OVERLAP: Final = 2
"""How many bytes of a block's end may have been there before the byte that completes it."""
_LENGTH_VALUE: Final = re.compile(rb"[0-9]{1,18}")
_USUAL_BLOCK: Final = re.compile(rb"Content-Length: ([0-9]{1,18})\r\n\r\n")


class Framing(Enum):
    """How messages are delimited on one connection; decided by its first byte and then fixed."""

    LINE = "line"
    """One JSON message per line: LF, in also CRLF."""
    HEADER = "header"
    """The LSP base protocol: a header block with `Content-Length`, then that many bytes."""


class Oversized(msgspec.Struct, frozen=True):
    """A message over `message_bytes`. It was skipped; `head` is how it began, at most 4 KiB."""

    head: bytes


class BadHeader(msgspec.Struct, frozen=True):
    """A header block that does not say where its message ends, so nothing after it can be read."""

    message: str


Item = bytes | Oversized | BadHeader
"""What a splitter gives: a message without its framing, or what is wrong with one."""


def wrap(payload: bytes, framing: Framing) -> bytes:
    """A message as it is sent. In line framing `payload` holds no LF, as no JSON that an encoder makes does."""
    if framing is Framing.LINE:
        return payload + b"\n"
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)


class Splitter:
    """The reading half of one connection.

    Keeps at most one unfinished message of `message_bytes` bytes, and of an oversized one nothing but its head.
    """

    def __init__(self, *, message_bytes: int = MESSAGE_BYTES, header_bytes: int = HEADER_BYTES) -> None:
        self.framing: Framing | None = None
        """None until the first byte."""
        self.dead = False
        """True after a `BadHeader`: whatever follows is ignored."""
        self._message_bytes = message_bytes
        self._header_bytes = header_bytes
        # Not longer than the limit, else how much of it is known would depend on where the input was split.
        self._head_bytes = min(HEAD_BYTES, message_bytes)
        self._pending = bytearray()
        self._skipping_line = False
        self._body_bytes: int | None = None
        self._skip_bytes = 0

    def feed(self, data: bytes) -> list[Item]:
        """The messages that `data` completes, in their order."""
        if not data or self.dead:
            return []
        if self.framing is None:
            self.framing = Framing.HEADER if data[0] == _HEADER_FIRST_BYTE else Framing.LINE
        found: list[Item] = []
        if self.framing is Framing.LINE:
            self._feed_lines(data, found)
        else:
            self._feed_blocks(data, found)
        return found

    def end(self) -> list[Item]:
        """What the end of input completes: a last line without its end, never a part of a body."""
        found: list[Item] = []
        if self.framing is Framing.LINE and not self._skipping_line:
            self._take_line(bytes(self._pending), found)
        self._pending.clear()
        return found

    def _feed_lines(self, data: bytes, found: list[Item]) -> None:
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and (self._pending or self._skipping_line):
            self._extend_line(lines.pop(0), found)
            if not self._skipping_line:
                self._take_line(bytes(self._pending), found)
            self._pending.clear()
            self._skipping_line = False
        if len(data) <= self._message_bytes and _CR not in data:
            found += [line for line in lines if line.strip(_BLANK)]
        else:
            for line in lines:
                self._take_line(line, found)
        if tail:
            self._extend_line(tail, found)

    def _take_line(self, line: bytes, found: list[Item]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._message_bytes:
            found.append(Oversized(line[: self._head_bytes]))
        elif line.strip(_BLANK):
            found.append(line)

    def _extend_line(self, piece: bytes, found: list[Item]) -> None:
        """Keep a piece of a line whose end is still to come, unless the line is too long already."""
        if self._skipping_line:
            return
        self._pending += piece
        excess = len(self._pending) - self._message_bytes
        # A CR in the first byte too many may be half of the line's end.
        if excess > 1 or (excess == 1 and self._pending[-1] != _CR):
            found.append(Oversized(bytes(self._pending[: self._head_bytes])))
            self._pending.clear()
            self._skipping_line = True

    def _feed_blocks(self, data: bytes, found: list[Item]) -> None:
        at = 0
        while at < len(data) and not self.dead:
            if self._skip_bytes:
                skipped = min(self._skip_bytes, len(data) - at)
                self._skip_bytes -= skipped
                at += skipped
            elif self._body_bytes is None:
                at = self._read_header(data, at, found)
            else:
                at = self._read_body(data, at, self._body_bytes, found)

    def _read_header(self, data: bytes, at: int, found: list[Item]) -> int:
        """Read a header block on from `at`. Returns where it ends, or where the data does."""
        before = len(self._pending)
        usual = None if before else _USUAL_BLOCK.match(data, at, at + self._header_bytes)
        if usual:
            self._begin_body(int(usual[1]), found)
            return usual.end()
        piece = data[at : at + self._header_bytes - before]
        self._pending += piece
        end = _BLOCK_END.search(self._pending, max(0, before - _BLOCK_END_OVERLAP))
        if end is None:
            if len(self._pending) >= self._header_bytes:
                self._die(f"the header block is larger than {self._header_bytes} bytes", found)
            return at + len(piece)
        block = bytes(self._pending[: end.end()])
        self._pending.clear()
        length = _content_length(block)
        if length is None:
            self._die("the header block has not exactly one usable Content-Length", found)
        else:
            self._begin_body(length, found)
        return at + len(block) - before

    def _begin_body(self, length: int, found: list[Item]) -> None:
        if length:
            self._body_bytes = length
        else:
            found.append(b"")

    def _read_body(self, data: bytes, at: int, length: int, found: list[Item]) -> int:
        """Read a body, or the head of one too large, on from `at`. Returns where it ends, or where the data does."""
        oversized = length > self._message_bytes
        wanted = self._head_bytes if oversized else length
        piece = data[at : at + wanted - len(self._pending)]
        if self._pending or len(piece) < wanted:
            self._pending += piece
            if len(self._pending) < wanted:
                return at + len(piece)
            body = bytes(self._pending)
            self._pending.clear()
        else:
            body = piece
        found.append(Oversized(body) if oversized else body)
        self._skip_bytes = length - wanted
        self._body_bytes = None
        return at + len(piece)

    def _die(self, message: str, found: list[Item]) -> None:
        found.append(BadHeader(message))
        self._pending.clear()
        self.dead = True


def _content_length(block: bytes) -> int | None:
    """The length that a header block states, or None unless it does so once and in digits."""
    values = [
        value.strip()
        for name, colon, value in (line.partition(b":") for line in block.split(b"\n"))
        if colon and name.strip().lower() == b"content-length"
    ]
    if len(values) != 1 or not _LENGTH_VALUE.fullmatch(values[0]):
        return None
    return int(values[0])
