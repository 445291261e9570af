"""JSON as the wire takes it: quick tests miss nothing that exact ones find, and those agree with a plain reading."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.protocol import strictjson
from interlock.protocol.limits import DEPTH

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

TEXT = st.text(st.characters(), max_size=8) | st.sampled_from(["\0", "\ud800", "]}", '\\"[', "a/b~c", "3e1234", "é"])
INTEGERS = st.integers() | st.sampled_from([INT64_MIN, INT64_MIN - 1, INT64_MAX, INT64_MAX + 1, 10**300])
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


def pointed_at(value: object, path: str) -> object:
    """What a JSON pointer into `value` points at."""
    for token in path.split("/")[1:]:
        if isinstance(value, list):
            value = value[int(token)]
        else:
            assert isinstance(value, dict)
            value = value[token.replace("~1", "/").replace("~0", "~")]
    return value


def is_bad(value: object) -> bool:
    """Whether a value, its keys included, holds what `bad_value` looks for."""
    match value:
        case str():
            return "\0" in value or any("\ud800" <= character <= "\udfff" for character in value)
        case int():
            return not INT64_MIN <= value <= INT64_MAX
        case list():
            return any(map(is_bad, value))
        case dict():
            return any(is_bad(part) for item in value.items() for part in item)
        case _:
            return False


def depth(value: object) -> int:
    """How deep a value is nested."""
    match value:
        case list():
            return 1 + max(map(depth, value), default=0)
        case dict():
            return 1 + max(map(depth, value.values()), default=0)
        case _:
            return 0


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b'{"a":"\\ud800"}', ("/a", "lone surrogates")),
        (b'{"a":"x\\uDFFFy"}', ("/a", "lone surrogates")),
        (b'{"a":["\\ud83d\\ude00","\\ude00\\ud83d"]}', ("/a/1", "lone surrogates")),
        (b'{"a":[1,{"b":"\\u0000"}]}', ("/a/1/b", "NUL characters")),
        (
            b'{"a":[-9223372036854775808,9223372036854775807,9223372036854775808]}',
            ("/a/2", "integers outside signed 64 bit"),
        ),
        (b'{"a":-9223372036854775809}', ("/a", "integers outside signed 64 bit")),
        (b'{"a/b":{"~":{"":99999999999999999999}}}', ("/a~1b/~0/", "integers outside signed 64 bit")),
        (b'{"\\ud800":1}', ("", "lone surrogates")),
        (b'{"a":{"x\\u0000":1}}', ("/a", "NUL characters")),
        (b'{"a":"\\u0000","b":"\\ud800"}', ("/a", "NUL characters")),
        (b'{"a":"\\\\u0000 \\\\ud800 99999999999999999999","b":1e30,"c":0.9999999999999999999999}', None),
        (b'{"a":"\\ud83d\\ude00","b":true,"c":null}', None),
        (b"{}", None),
        (b'{"a":' * (DEPTH - 1) + b'"\\u0000"' + b"}" * (DEPTH - 1), ("/a" * (DEPTH - 1), "NUL characters")),
        (
            b'{"a":' + b"[" * (DEPTH - 1) + b"99999999999999999999" + b"]" * (DEPTH - 1) + b"}",
            ("/a" + "/0" * (DEPTH - 1), "integers outside signed 64 bit"),
        ),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_the_first_bad_value_is_found_and_its_path_can_be_sent(params: bytes, expected: tuple[str, str] | None) -> None:
    assert strictjson.bad_value(params) == expected
    msgspec.json.encode(expected)
    if expected:
        assert strictjson.suspicious(params)


@pytest.mark.parametrize(
    "params", [b"{}", b'{"a":"\\u00e9\\n","b":1234567890123456,"c":"x"}', '{"a":"é\U0001f600"}'.encode()]
)
def test_ordinary_params_are_not_suspicious(params: bytes) -> None:
    assert not strictjson.suspicious(params)


@given(VALUES, st.booleans())
def test_bad_value_finds_exactly_what_is_bad_and_the_quick_test_misses_none(value: object, spaced: bool) -> None:
    raw = json.dumps(value, indent=1 if spaced else None).encode()
    found = strictjson.bad_value(raw)
    assert (found is not None) is is_bad(value)
    if found:
        path, _ = found
        assert strictjson.suspicious(raw)
        assert is_bad(pointed_at(value, path))
        path.encode()


@given(VALUES)
def test_what_load_reads_and_dump_writes_is_the_same_value(value: object) -> None:
    raw = strictjson.dump(value)
    assert raw.isascii()
    assert strictjson.load(raw) == value


def wrapped(value: object, layers: list[str]) -> object:
    """The value inside so many arrays and objects, with neighbours that hold brackets and quotes."""
    for layer in layers:
        value = [layer, value, []] if len(layer) % 2 else {layer: [], '"': {}, "v": value}
    return value


@given(VALUES, st.lists(st.sampled_from(["", "]", "[{", '"', '\\"]', "\\"]), max_size=DEPTH + 5), st.booleans())
@example(1, ["]"] * DEPTH, True)
@example(1, ["]"] * (DEPTH - 1), True)
@example([], ["]"] * DEPTH, True)
@example(1, ["[{"] * (DEPTH + 1), False)
def test_depth_is_what_a_recursive_reading_says(value: object, layers: list[str], spaced: bool) -> None:
    value = wrapped(value, layers)
    raw = json.dumps([value, value], indent=1 if spaced else None).encode()
    assert strictjson.is_too_deep(raw) is (depth([value, value]) > DEPTH)
    if strictjson.is_too_deep(raw):
        assert not strictjson.is_plain(raw)


@pytest.mark.parametrize("opener", [b"[", b'{"a":'])
def test_an_array_or_object_at_the_limit_is_not_too_deep_and_one_below_it_is(opener: bytes) -> None:
    closer = b"]" if opener == b"[" else b"}"
    assert not strictjson.is_too_deep(opener * DEPTH + b"1" + closer * DEPTH)
    assert strictjson.is_too_deep(opener * (DEPTH + 1) + b"1" + closer * (DEPTH + 1))
    assert not strictjson.is_too_deep(b"[" + (opener * (DEPTH - 1) + b"1" + closer * (DEPTH - 1) + b",") * 50 + b"1]")


def test_brackets_count_outside_strings_only_wherever_a_string_ends() -> None:
    deep = b"[" * DEPTH + b"]" * DEPTH
    for inside in (deep, b'\\"' + deep, b'\\\\\\"' + deep, deep + b"\\\\", b'\\"' + deep + b'\\"'):
        assert not strictjson.is_too_deep(b'["%b",[]]' % inside)
        assert strictjson.is_too_deep(b'["%b",%b]' % (inside, deep))
    for before in (b"", b"\\\\", b'\\"', b'\\\\\\"'):
        assert strictjson.is_too_deep(b'["%b",%b,"%b"]' % (before, deep, before))


@given(VALUES, st.lists(st.sampled_from(["", "]", "[{", '"', '\\"]']), min_size=DEPTH, max_size=DEPTH + 40))
def test_without_its_depths_a_message_is_json_that_is_the_same_above(value: object, layers: list[str]) -> None:
    value = {"v": wrapped(value, layers), "id": 7}
    left = strictjson.without_depths(json.dumps(value).encode())
    assert not strictjson.is_too_deep(left)
    assert json.loads(left) == cut_off(value, DEPTH)


def cut_off(value: object, levels: int) -> object:
    """The value with null for what is nested deeper."""
    match value:
        case list() | dict() if levels == 0:
            return None
        case list():
            return [cut_off(item, levels - 1) for item in value]
        case dict():
            return {key: cut_off(item, levels - 1) for key, item in value.items()}
        case _:
            return value


@given(
    st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b"1", b",", b'{"a":', b"[" * 100]), max_size=60).map(
        b"".join
    )
)
def test_no_parser_goes_too_deep_in_what_is_not_too_deep_or_was_cut(message: bytes) -> None:
    left = strictjson.without_depths(message) if strictjson.is_too_deep(message) else message
    assert depth_reached(left) <= DEPTH


def depth_reached(message: bytes) -> int:
    """How deep a parser gets, up to the first bracket that does not match, or the end."""
    open_ones: list[int] = []
    deepest = at = 0
    while at < len(message):
        byte = message[at]
        if byte == ord('"'):
            at += 1
            while at < len(message) and message[at] != ord('"'):
                at += 2 if message[at] == ord("\\") else 1
        elif byte == ord("\\"):
            break
        elif byte in b"[{":
            open_ones.append(byte)
            deepest = max(deepest, len(open_ones))
        elif byte in b"]}" and (not open_ones or open_ones.pop() != byte - 2):
            break
        at += 1
    return deepest


NUMBERS = st.from_regex(rb"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,5})?", fullmatch=True)


@given(NUMBERS, st.sampled_from([b"%b", b"[%b]", b'{"a":%b}', b'{"a": %b }', b'[1,%b,"x"]', b'["0e000x3e123",\n%b\t]']))
@example(b"1" + b"0" * 308, b"[%b]")
@example(b"2" + b"0" * 308, b"[%b]")
@example(b"1e309", b"%b")
@example(b"1E+309", b'{"a": %b }')
@example(b"9" * 63 + b"e99", b"%b")
def test_a_number_is_refused_exactly_when_a_double_cannot_hold_it(number: bytes, template: bytes) -> None:
    message = template % number
    if abs(float(number)) < float("inf"):
        strictjson.check_numbers(message)
    else:
        assert not strictjson.is_plain(message)
        with pytest.raises(strictjson.NotJson, match="a number beyond double range"):
            strictjson.check_numbers(message)


@given(st.binary(max_size=20))
def test_text_is_refused_exactly_when_it_is_no_utf_8(message: bytes) -> None:
    good = message.decode(errors="ignore").encode()
    if message == good:
        assert strictjson.check_text(message) == message.decode()
        return
    assert not strictjson.is_plain(message)
    with pytest.raises(strictjson.NotJson) as found:
        strictjson.check_text(message)
    assert found.value.position is not None
    assert message[: found.value.position] == good[: found.value.position]


def test_ordinary_messages_are_plain() -> None:
    assert strictjson.is_plain('{"id":1,"t":"3e123-é","f":1e99,"n":1733000000000000000}'.encode())
