"""JSON as the wire takes it (contract daemon 1.1), where msgspec skips too lightly or refuses too early.

What msgspec does not look at inside `msgspec.Raw` is looked at here: UTF-8, numbers beyond double range, depth. What it
takes for a syntax error and the contract does not, a lone surrogate, is read with the standard library instead.
Everything has a quick test that may be wrong in one direction only, and an exact one for the few messages it stops.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NoReturn

import msgspec

from .limits import DEPTH

SPACE: Final = b" \t\r\n"
"""JSON's white space, narrower than Python's."""
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

# One pass makes every digit a 0, so that a substring search finds a run of them. A plus sign becomes one as well, so
# that "1e+400" looks like "1e400"; openers become one, so that they are counted at once.
_SCREEN: Final = bytes.maketrans(b"123456789+E[", b"0000000000e{")
_LARGE_EXPONENT: Final = b"0e000"
_EXPONENTS_LOOKED_AT: Final = 16
_AFTER_NUMBER: Final = b",]}" + SPACE
_MANY_DIGITS: Final = b"0" * 64
"""Without so many digits in a row, and with an exponent below 100, no number is beyond double range."""
_SHORT: Final = 200
"""No JSON of so few bytes is too deep, and without a large exponent no number in it is beyond double range."""
_NEARLY_INT64: Final = b"0" * 19
_ODD_ESCAPE: Final = re.compile(
    rb"\\u(?:0000|[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|[c-fC-F](?<!(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F])))"
)
"""A NUL, a high surrogate without a low one behind it, a low one without a high one before it. The high one before it
must not itself be behind a backslash: then it is no escape. What this takes for odd by mistake, `bad_value` clears."""

_STRING_OR_BRACKETS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]++|[\]}]++', re.DOTALL)
_NO_STRUCTURE: Final = bytes(set(range(256)) - set(b'{[}]"'))
_UNESCAPED_STRING: Final = re.compile(rb'"[^"]*+"?')
_STEP: Final = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_OUT_AND_IN: Final = b"\xff\x01"

_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_ANYTHING: Final = msgspec.json.Decoder()


class NotJson(Exception):
    """The message is no JSON. `position` is the offset of the byte where that shows, None where it is not known."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


def refused_by_msgspec(error: msgspec.DecodeError, message: bytes) -> NotJson:
    """What msgspec found wrong, with the position that it only has in its text."""
    reason = str(error).removeprefix("JSON is malformed: ")
    if found := _BYTE.search(reason):
        return NotJson(reason[: found.start()].strip(), int(found[1]))
    return NotJson("it ends too early", len(message)) if "truncated" in reason else NotJson(reason)


def is_plain(message: bytes) -> bool:
    """Quick: False when the message needs `check_text`, `is_too_deep` or `check_numbers`."""
    screened = message.translate(_SCREEN)
    if len(message) > _SHORT and (screened.count(b"{") > DEPTH or screened.find(_MANY_DIGITS) >= 0):
        return False
    return not _has_large_exponent(screened) and (message.isascii() or _is_utf8(message))


def _has_large_exponent(screened: bytes) -> bool:
    """Quick: whether a number may have an exponent of three digits. Hexadecimal ids, full of 3e123, seldom count."""
    at = -1
    for _ in range(_EXPONENTS_LOOKED_AT):
        at = screened.find(_LARGE_EXPONENT, at + 1)
        if at < 0:
            return False
        after = screened[at + len(_LARGE_EXPONENT) : at + 32].lstrip(b"0")
        if not after or after[0] in _AFTER_NUMBER:
            return True
    return True


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_text(message: bytes) -> str:
    """The message as text. Raises `NotJson` unless it is UTF-8."""
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise NotJson("invalid UTF-8", error.start) from None


def check_numbers(message: bytes) -> None:
    """Raises `NotJson` when a number is beyond double range. The message must not be too deep."""
    screened = message.translate(_SCREEN)
    if screened.find(_MANY_DIGITS) >= 0:
        load(message)
    elif _has_large_exponent(screened):
        try:
            _ANYTHING.decode(message)
        except msgspec.DecodeError:
            load(message)


def load(message: bytes) -> Any:
    """Read JSON whose strings may hold lone surrogates. Slow; of equal names the last counts, as with msgspec.

    The message must not be too deep. Raises `NotJson`.
    """
    text = check_text(message)
    try:
        return _STDLIB.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg.lower(), len(text[: error.pos].encode())) from None


def dump(value: object) -> bytes:
    """What `load` read, as JSON again, a lone surrogate as its escape."""
    return json.dumps(value, separators=(",", ":")).encode()


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson("a number beyond double range")
    return number


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


_STDLIB: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, parse_int=_integer)


def is_too_deep(message: bytes) -> bool:
    """Whether it is nested deeper than `DEPTH`, the outermost object or array counting as 1.

    Exact for JSON; in what is none, up to the first fault, so no parser that stops there can go deeper.
    """
    if message.count(b"{") + message.count(b"[") <= DEPTH:
        return False
    unescaped = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side, of one string or of two, can go: what is inside a string and what is not stays so.
    structure = unescaped.translate(None, _NO_STRUCTURE).replace(b'""', b"")
    steps = _UNESCAPED_STRING.sub(b"", structure).translate(_STEP)
    # A step out and in again reaches no new depth. Without the outermost of these a list of records is soon walked.
    for _ in range(4):
        steps = steps.replace(_OUT_AND_IN, b"")
    return any(map(DEPTH.__lt__, accumulate(memoryview(steps).cast("b"))))


def without_depths(message: bytes) -> bytes:
    """The message with null for every object or array below `DEPTH`: a parser can read what is left.

    What is left is JSON when the message is, and cut off where the message ends too early.
    """
    return b"".join(_shallow_pieces(message))


def _shallow_pieces(message: bytes) -> Iterator[bytes]:
    depth = start = 0
    for token in _STRING_OR_BRACKETS.finditer(message):
        at, length = token.start(), token.end() - token.start()
        if message[at] in b"{[":
            if depth <= DEPTH < depth + length:
                yield message[start : at + DEPTH - depth]
            depth += length
        elif message[at] in b"}]":
            if depth - length <= DEPTH < depth:
                yield b"null"
                start = at + depth - DEPTH
            depth -= length
    if depth <= DEPTH:
        yield message[start:]


def suspicious(value: bytes) -> bool:
    """Quick: whether `bad_value` could find anything in this JSON. There are false alarms, no misses."""
    if ord("\\") in value and _ODD_ESCAPE.search(value):
        return True
    return value.translate(_SCREEN).find(_NEARLY_INT64) >= 0


def bad_value(value: bytes) -> tuple[str, str] | None:
    """The first lone surrogate, NUL or integer outside signed 64 bit: its JSON pointer, and what may not be there.

    `value` is JSON, not too deep. A bad key has the pointer of the object it is in, since it could not be written.
    """
    return _fault(load(value), "")


def _fault(value: object, path: str) -> tuple[str, str] | None:
    match value:
        case str():
            return _fault_of_text(value, path)
        case int():
            return None if INT64_MIN <= value <= INT64_MAX else (path, "integers outside signed 64 bit")
        case list():
            faults = (_fault(item, f"{path}/{index}") for index, item in enumerate(value))
        case dict():
            faults = (_fault_of_text(key, path) or _fault(item, _below(path, key)) for key, item in value.items())
        case _:
            return None
    return next(filter(None, faults), None)


def _fault_of_text(text: str, path: str) -> tuple[str, str] | None:
    if "\0" in text:
        return path, "NUL characters"
    return None if is_text(text) else (path, "lone surrogates")


def is_text(text: str) -> bool:
    """Whether it can be encoded: no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _below(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


def member_in_head(head: bytes, name: str) -> object:
    """The value of a member of the outermost object, when it stands whole in the beginning of a message; else None."""
    # Bytes that are no UTF-8, a cut character among them, become lone surrogates.
    text = head.decode(errors="surrogateescape")
    try:
        return _scan(text, name)
    except (NotJson, ValueError, IndexError, RecursionError):
        return None


def _scan(text: str, name: str) -> object:
    """As `member_in_head`; raises what a parser raises where the text stops being JSON."""
    at = _expect(text, 0, "{")
    while True:
        key, at = _STDLIB.raw_decode(text, _skip(text, at))
        value, at = _STDLIB.raw_decode(text, _skip(text, _expect(text, at, ":")))
        # Also read where it is followed by nothing that ends it: a number at the very end may be half of one.
        follower = text[_skip(text, at)]
        if key == name and follower in ",}":
            return value
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _expect(text: str, at: int, character: str) -> int:
    at = _skip(text, at)
    if text[at] != character:
        raise NotJson(f"Expected {character}", None)
    return at + 1
