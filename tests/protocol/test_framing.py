"""Where messages begin and end, in both framings and however the input is cut (contract daemon 1.1)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.protocol.framing import HEAD_BYTES, BadHeader, Framing, Item, Oversized, Splitter, wrap
from interlock.protocol.limits import HEADER_BYTES, MESSAGE_BYTES

MESSAGE_LIMIT = 8
HEADER_LIMIT = 64


def split(
    pieces: Sequence[bytes], *, message_bytes: int = MESSAGE_BYTES, header_bytes: int = HEADER_BYTES
) -> list[Item]:
    """Everything that a new splitter gives for the pieces and the end of input."""
    splitter = Splitter(message_bytes=message_bytes, header_bytes=header_bytes)
    return [item for piece in pieces for item in splitter.feed(piece)] + splitter.end()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces, cut at the places that lie inside it; some pieces may be empty."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds)]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def header(length: int | str) -> bytes:
    return f"Content-Length: {length}\r\n\r\n".encode()


LINES: dict[str, tuple[bytes, list[Item]]] = {
    "one line": (b"{}\n", [b"{}"]),
    "several lines": (b"1\n22\n333\n", [b"1", b"22", b"333"]),
    "CRLF": (b"1\r\n2\n3\r\n", [b"1", b"2", b"3"]),
    "only one CR belongs to the end of a line": (b"1\r\r\n", [b"1\r"]),
    "a CR inside a line stays": (b"1\r2\n", [b"1\r2"]),
    "blank lines": (b"\n\r\n \t \n1\n\n", [b"1"]),
    "white space that is not JSON's is no blank line": (b"\x0b\n", [b"\x0b"]),
    "space around a message stays": (b" 1 \n", [b" 1 "]),
    "the last line without its end": (b"1\n2", [b"1", b"2"]),
    "the last line with half of its end": (b"1\n2\r", [b"1", b"2"]),
    "blank rest": (b"1\n  ", [b"1"]),
    "nothing": (b"", []),
    "white space first": (b" \nC: 1\r\n\r\n1", [b"C: 1", b"1"]),
    "a line of exactly the limit": (b"12345678\n12345678\r\n12345678", [b"12345678"] * 3),
    "a line over the limit": (b"1\n123456789\n2\n", [b"1", Oversized(b"12345678"), b"2"]),
    "a line far over the limit": (b"x" * 100 + b"\n2\n", [Oversized(b"xxxxxxxx"), b"2"]),
    "a blank line over the limit": (b" " * 9 + b"\n2\n", [Oversized(b" " * 8), b"2"]),
    "CR is not counted, twice it is": (b"12345678\r\r\n2\n", [Oversized(b"12345678"), b"2"]),
    "a last line over the limit": (b"1\n123456789", [b"1", Oversized(b"12345678")]),
    "two lines over the limit": (b"123456789\nabcdefghi\n", [Oversized(b"12345678"), Oversized(b"abcdefgh")]),
}

NO_LENGTH = BadHeader("the header block has not exactly one usable Content-Length")
LARGE_HEADER = BadHeader(f"the header block is larger than {HEADER_LIMIT} bytes")

BLOCKS: dict[str, tuple[bytes, list[Item]]] = {
    "one message": (header(2) + b"{}", [b"{}"]),
    "several messages": (header(1) + b"1" + header(2) + b"22", [b"1", b"22"]),
    "a body may hold anything": (header(4) + b"\n\r\nC" + header(1) + b"1", [b"\n\r\nC", b"1"]),
    "an empty body is a message": (header(0) + header(1) + b"1" + header(0), [b"", b"1", b""]),
    "other headers": (b"Content-Type: x; charset=utf-8\r\nContent-Length: 1\r\nA\r\n\r\n1", [b"1"]),
    "case and space": (b"CONTENT-length :  1 \r\n\r\n1", [b"1"]),
    "lines of the block that end in LF": (b"Content-Length: 1\n\n1", [b"1"]),
    "leading zeros": (header("001") + b"1", [b"1"]),
    "a message of exactly the limit": (header(8) + b"12345678", [b"12345678"]),
    "a message over the limit": (header(9) + b"123456789" + header(1) + b"1", [Oversized(b"12345678"), b"1"]),
    "a message over the limit that is cut off": (header(99) + b"123456789", [Oversized(b"12345678")]),
    "a message over the limit whose head is cut off": (header(99) + b"1234", []),
    "an unfinished body is dropped": (header(1) + b"1" + header(3) + b"12", [b"1"]),
    "an unfinished header block is dropped": (header(1) + b"1" + b"Content-Length: 3\r\n", [b"1"]),
    "no Content-Length": (b"Content-Type: x\r\n\r\n{}", [NO_LENGTH]),
    "an empty block": (header(1) + b"1" + b"\r\n" + header(1) + b"1", [b"1", NO_LENGTH]),
    "a negative length": (header("-1") + b"1", [NO_LENGTH]),
    "a length with a sign": (header("+1") + b"1", [NO_LENGTH]),
    "a length that is no number": (header("1x") + b"1", [NO_LENGTH]),
    "a length in other digits": (header("\u0661") + b"1", [NO_LENGTH]),
    "no length": (header("") + b"1", [NO_LENGTH]),
    "a length without end": (header("9" * 19) + b"1", [NO_LENGTH]),
    "two lengths": (b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n1", [NO_LENGTH]),
    "nothing is read after it": (b"Content-Bad: 1\r\n\r\n" + header(1) + b"1", [NO_LENGTH]),
    "a block of exactly the limit": (b"C:" + b"x" * 39 + b"\r\n" + header(1) + b"1", [b"1"]),
    "a block over the limit": (b"C:" + b"x" * 40 + b"\r\n" + header(1) + b"1", [LARGE_HEADER]),
    "a block without end": (b"C" * 200, [LARGE_HEADER]),
}

TABLES = [pytest.param(*case, id=name) for table in (LINES, BLOCKS) for name, case in table.items()]


@pytest.mark.parametrize(("data", "expected"), TABLES)
def test_the_input_at_once_gives_these_messages(data: bytes, expected: list[Item]) -> None:
    assert split([data], message_bytes=MESSAGE_LIMIT, header_bytes=HEADER_LIMIT) == expected


@pytest.mark.parametrize(("data", "expected"), TABLES)
def test_the_input_byte_by_byte_gives_the_same_messages(data: bytes, expected: list[Item]) -> None:
    assert split(bytewise(data), message_bytes=MESSAGE_LIMIT, header_bytes=HEADER_LIMIT) == expected


WORDS = st.sampled_from(
    [
        b"\n", b"\r", b"\r\n", b"\r\n\r\n", b" ", b"C", b"x", b"{}", b"1234567", b"Content-Length:", b" 0", b" 5",
        b" 9", b" 700", header(3), header(8), header(9), b"y" * 30,
    ]
)  # fmt: skip
STREAMS = st.lists(WORDS, max_size=20).map(b"".join)


@given(st.one_of(st.binary(max_size=100), STREAMS, STREAMS.map(b"C".__add__)), st.lists(st.integers(0, 1000)))
@example(b"12345678\r", [8])
def test_no_cut_of_any_input_changes_the_messages(data: bytes, places: list[int]) -> None:
    whole = split([data], message_bytes=MESSAGE_LIMIT, header_bytes=HEADER_LIMIT)
    assert split(cut(data, places), message_bytes=MESSAGE_LIMIT, header_bytes=HEADER_LIMIT) == whole
    assert split(bytewise(data), message_bytes=MESSAGE_LIMIT, header_bytes=HEADER_LIMIT) == whole


@pytest.mark.parametrize("framing", Framing)
@given(payloads=st.lists(st.text(min_size=1)), places=st.lists(st.integers(0, 10_000)))
def test_what_wrap_makes_is_read_back_however_it_is_cut(
    framing: Framing, payloads: list[str], places: list[int]
) -> None:
    messages = [b'"%b"' % text.encode("unicode_escape") for text in payloads]
    assert split(cut(b"".join(wrap(message, framing) for message in messages), places)) == messages


def test_wrap_sends_lf_in_one_framing_and_crlf_in_the_headers_of_the_other() -> None:
    assert wrap(b"{}", Framing.LINE) == b"{}\n"
    assert wrap(b"{}", Framing.HEADER) == b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("first", range(256))
def test_the_first_byte_alone_decides_the_framing(first: int) -> None:
    splitter = Splitter()
    assert splitter.feed(b"") == []
    assert splitter.framing is None
    splitter.feed(bytes([first]))
    assert splitter.framing is (Framing.HEADER if first == ord("C") else Framing.LINE)
    splitter.feed(b"C\nC")
    assert splitter.framing is (Framing.HEADER if first == ord("C") else Framing.LINE)


def test_a_usual_header_block_is_held_to_the_limit_as_well() -> None:
    data = header(1) + b"1"
    large = [BadHeader("the header block is larger than 20 bytes")]
    assert split([data], header_bytes=20) == split(bytewise(data), header_bytes=20) == large
    assert split([data], header_bytes=21) == split(bytewise(data), header_bytes=21) == [b"1"]


def test_an_oversized_line_is_reported_before_it_ends() -> None:
    splitter = Splitter(message_bytes=MESSAGE_LIMIT)
    assert splitter.feed(b"123456789") == [Oversized(b"12345678")]
    assert splitter.feed(b"0" * 100) == []
    assert splitter.feed(b"0\n1\n") == [b"1"]


def test_a_bad_header_kills_the_splitter() -> None:
    splitter = Splitter()
    assert not splitter.dead
    assert splitter.feed(b"C\r\n\r\n" + header(1)) == [NO_LENGTH]
    assert splitter.dead
    assert splitter.feed(b"1" + header(1) + b"1") == []
    assert splitter.end() == []


def test_the_end_of_input_completes_a_last_line_once() -> None:
    splitter = Splitter()
    assert splitter.feed(b"1") == []
    assert splitter.end() == [b"1"]
    assert splitter.end() == []


def large(framing: Framing, size: int) -> Iterator[bytes]:
    """A message of `size` bytes, framed, in pieces of 64 KiB."""
    data = wrap(b"x" * size, framing)
    for start in range(0, len(data), 1 << 16):
        yield data[start : start + (1 << 16)]


@pytest.mark.parametrize("framing", Framing)
def test_a_message_of_the_real_limit_arrives_whole_and_one_byte_more_does_not(framing: Framing) -> None:
    assert split(list(large(framing, MESSAGE_BYTES))) == [b"x" * MESSAGE_BYTES]
    assert split(list(large(framing, MESSAGE_BYTES + 1))) == [Oversized(b"x" * HEAD_BYTES)]


@pytest.mark.parametrize("framing", Framing)
def test_of_an_oversized_message_nothing_but_the_head_is_kept(framing: Framing) -> None:
    limit = 1 << 20
    splitter = Splitter(message_bytes=limit)
    splitter.feed(b"Content-Length: %d\r\n\r\n" % (64 << 20) if framing is Framing.HEADER else b"x")
    piece = b"x" * (1 << 16)
    tracemalloc.start()
    try:
        items = [item for _ in range((64 << 20) // len(piece) - 1) for item in splitter.feed(piece)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert items == [Oversized(b"x" * HEAD_BYTES)]
    assert peak < 3 * limit
