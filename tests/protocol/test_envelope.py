"""What a message is and what it is answered: the rows of contract daemon 1.1 and 1.2 that need no method."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.protocol import envelope
from interlock.protocol.envelope import ID_MAX, Batch, Id, Invalid, Member, Notification, Request, Response
from interlock.protocol.limits import BATCH_MEMBERS, DEPTH, ID_BYTES, MESSAGE_BYTES

VALID = b'{"jsonrpc":"2.0","id":7,"method":"ledger/send","params":{"to":"a","n":1.5,"deep":[{"b":null}],"u":"\\u00e9"}}'


def request(*, jsonrpc: str = '"2.0"', id: str = "7", method: str = '"m"', params: str = "{}") -> bytes:  # noqa: A002
    """A request whose members are these pieces of JSON."""
    return f'{{"jsonrpc":{jsonrpc},"id":{id},"method":{method},"params":{params}}}'.encode()


def invalid(message: bytes) -> dict[str, Any]:
    """The error object that answers a message, with the id it is answered to."""
    found = envelope.decode(message)
    assert isinstance(found, Invalid), found
    assert found.answer
    answer = json.loads(envelope.encode_error(found.id, found.refusal, found.number))
    return {"id": answer["id"], "number": answer["error"]["code"], **answer["error"]["data"]}


def refused(code: str, number: int, id: Id | None = None, **data: object) -> dict[str, Any]:  # noqa: A002
    return {"id": id, "number": number, "code": code, "retryable": False, **data}


def nested(depth: int, inner: bytes = b"") -> bytes:
    return b"[" * depth + inner + b"]" * depth


def params_of_depth(depth: int) -> str:
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def shortened(value: object) -> str:
    """The id of a case whose message may be long."""
    return repr(value)[:50]


# -- what is well


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}', Request(1, "m", b"{}")),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}', Request(1, "m", b"{}")),
        (b' {"params" : {"a": [1 ]} ,"method":"m","id":"1","jsonrpc":"2.0"}\t\r\n', Request("1", "m", b'{"a": [1 ]}')),
        (b'{"jsonrpc":"2.0","method":"m"}', Notification("m", b"{}")),
        (b'{"jsonrpc":"2.0","method":"","params":{"a":1}}', Notification("", b'{"a":1}')),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","x":[{}],"result":1,"error":2}', Request(1, "m", b"{}")),
        (b'{"jsonrpc":"1","jsonrpc":"2.0","id":{},"id":1,"method":"m"}', Request(1, "m", b"{}")),
    ],
)
def test_a_request_or_notification_keeps_its_params_byte_for_byte(message: bytes, expected: Member) -> None:
    assert envelope.decode(message) == expected


@pytest.mark.parametrize(
    "params",
    [
        '{"é":"\U0001f600"}',
        '{"f":1e308,"g":1e-400,"n":"3e999,"}',
        '{"n":1733000000000000000,"h":"%s"}' % ("1" * 400),
        '{"n":%s}' % ("1" * 300),
        '{"t":"}}]]{{[[","u":"\\"[\\\\"}',
        '{"t":"%s"}' % ("[" * 1000),
        '{"t":[%s{}]}' % ("{}," * 1000),
        params_of_depth(DEPTH - 1),
        '{"uuid":"3e123-0e0001,","hex":"%s"}' % ("3e123" * 50),
        '{"n":[1e100, -2.5E+123 ,0.1e0000001]}',
        '{"\\ud800":"\\u0000\\udc00","n":%s}' % ("9" * 30),
    ],
)
def test_params_that_only_look_wrong_or_are_for_later_to_refuse_come_through_unchanged(params: str) -> None:
    assert envelope.decode(request(params=params)) == Request(7, "m", params.encode())


@pytest.mark.parametrize(
    "id",
    [0, 1, -1, ID_MAX, -ID_MAX, "", "1", "\x01\n", "x" * ID_BYTES, "é" * (ID_BYTES // 2)],
    ids=shortened,
)
@pytest.mark.parametrize("ascii", [True, False])
def test_an_id_within_its_bounds_is_echoed_with_its_type(id: Id, ascii: bool) -> None:  # noqa: A002
    message = json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"}, ensure_ascii=ascii).encode()
    found = envelope.decode(message)
    assert found == Request(id, "m", b"{}")
    assert type(found.id) is type(id)
    assert json.loads(envelope.encode_result(found.id, None)) == {"jsonrpc": "2.0", "id": id, "result": None}


# -- what is no JSON


@pytest.mark.parametrize(
    ("message", "position"),
    [
        (b"", 0),
        (b"x", 0),
        (b"{", 1),
        (b"[1", 2),
        (b"{'a':1}", 1),
        (b'{"a":1,}', 7),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"} x', 39),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}{}', 38),
        (b"\xef\xbb\xbf{}", 0),
        (b"\x0b{}", 0),
        (b'{"a":NaN}', 5),
        (b'{"a":Infinity}', 5),
        (b'{"a":-Infinity}', 6),
        (b'{"a":01}', 6),
        (b'{"a":"\x01"}', 6),
        (b'{"a":"\x00"}', 6),
        (b'{"a":"\\u0000","b":NaN}', None),
        (b'{"a":"\\q"}', 7),
        (b'{"a":"\xff"}', 6),
        (b'{"a":"\xed\xa0\x80"}', 6),
        (b'{"\xff":1}', 2),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["\xc3"]}}', 53),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","x":"\xc3("}', 42),
        (b'{"a":"\\ud800"', 13),
        ('{"a":"\\ud800","é":nul}'.encode(), 19),
        (b'{"a":"\\ud800","b":NaN}', None),
        (b'{"a":"\\ud800","b":1e999}', None),
        (b'{"a":1e400}', None),
        (b"-1.5E+400", None),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","x":[12.5e0000309]}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"b":[1e309]}}}', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":%b}}' % (b"9" * 309), None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":%b}}' % (b"9" * 9999), None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":%be99}}' % (b"9" * 250), None),
        (b'{"a":"%b","b":1e400}' % (b"3e123" * 50), None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":1e400}}]', None),
        (b"[1,2", 4),
        (b"[" * 100_000, None),
        (nested(DEPTH + 1) + b"x", None),
        (b'{"a":tru,"b":' + nested(DEPTH) + b"}", None),
    ],
)  # fmt: skip
def test_what_is_no_json_is_a_parse_error_with_its_position_where_known(message: bytes, position: int | None) -> None:
    where = {} if position is None else {"position": position}
    assert invalid(message) == refused("parse_error", -32700, **where)


# -- what is nested too deep


@pytest.mark.parametrize(
    ("message", "id"),
    [
        (request(params=params_of_depth(DEPTH)), 7),
        (b'{"params":{"a":' + nested(DEPTH) + b'},"jsonrpc":"2.0","method":"m","id":"late"}', "late"),
        (b'{"id":7,"a":' + nested(100_000) + b"}", 7),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, None),
        (b'{"id":7,"a":' + b'{"]}":[' * 64 + b"1" + b"]}" * 64 + b"}", 7),
        (request(id=nested(DEPTH).decode()), None),
        (nested(DEPTH + 1), None),
        (b"[" + request(params=params_of_depth(DEPTH - 1)) + b"]", None),
        (b'{"id":7,"a":' + nested(DEPTH, b'"\\ud800"') + b"}", 7),
    ],
)
def test_nesting_beyond_the_limit_is_refused_with_the_id_wherever_it_stands(message: bytes, id: Id | None) -> None:  # noqa: A002
    assert invalid(message) == refused("too_deep", -32600, id, max=DEPTH)


def test_nesting_up_to_the_limit_passes() -> None:
    assert isinstance(envelope.decode(request(params=params_of_depth(DEPTH - 1))), Request)
    assert isinstance(envelope.decode(nested(DEPTH)), Batch)
    batch = envelope.decode(b"[%b,%b]" % (nested(DEPTH - 1), VALID))
    assert isinstance(batch, Batch)
    assert isinstance(batch.members[1], Request)


def test_a_number_beyond_double_range_comes_before_the_depth_where_both_are_read() -> None:
    assert invalid(b'{"id":1e400,"a":%b}' % nested(DEPTH)) == refused("parse_error", -32700)


@pytest.mark.parametrize("rest", ['"method":"m","params":', '"id":"srv-1","result":', '"method":"m","params":[1],"x":'])
def test_nobody_waits_for_an_answer_to_a_notification_or_response_that_is_too_deep(rest: str) -> None:
    found = envelope.decode(f'{{"jsonrpc":"2.0",{rest}'.encode() + b'{"a":%b}}' % nested(DEPTH))
    assert isinstance(found, Invalid)
    assert (found.answer, found.refusal.code) == (False, "too_deep")


# -- what is no request


@pytest.mark.parametrize(
    ("message", "path", "id"),
    [
        *((scalar, "#", None) for scalar in (b"1", b"null", b"true", b'"x"', b'"\\ud800"', b" 1.5 ", b"-0")),
        (b"{}", "#/jsonrpc", None),
        (b'{"id":7,"method":"m"}', "#/jsonrpc", 7),
        (request(jsonrpc="2.0"), "#/jsonrpc", 7),
        (request(jsonrpc='"1.0"'), "#/jsonrpc", 7),
        (request(jsonrpc='["2.0"]'), "#/jsonrpc", 7),
        (request(jsonrpc="null", method="1", id="null"), "#/jsonrpc", None),
        (b'{"jsonrpc":"2.0","id":"a"}', "#/method", "a"),
        (b'{"jsonrpc":"2.0"}', "#/method", None),
        (request(method="1"), "#/method", 7),
        (request(method="null"), "#/method", 7),
        (request(method='["m"]'), "#/method", 7),
        (request(method='"\\ud800"'), "#/method", 7),
        (request(method="1", id="1.0"), "#/method", None),
        (request(id="true"), "#/id", None),
        (request(id="false"), "#/id", None),
        (request(id="null"), "#/id", None),
        (request(id="1.0"), "#/id", None),
        (request(id="1e2"), "#/id", None),
        (request(id="-0.0"), "#/id", None),
        (request(id="{}"), "#/id", None),
        (request(id="[1]"), "#/id", None),
        (request(id=str(ID_MAX + 1)), "#/id", None),
        (request(id=str(-ID_MAX - 1)), "#/id", None),
        (request(id="9" * 300), "#/id", None),
        (request(id='"%s"' % ("x" * (ID_BYTES + 1))), "#/id", None),
        (request(id='"%s"' % ("é" * (ID_BYTES // 2) + "x")), "#/id", None),
        (request(id='"%s"' % ("\\u00e9" * (ID_BYTES // 2) + "x")), "#/id", None),
        (request(id='"\\ud800"'), "#/id", None),
        (request(id='"\\u0000"'), "#/id", None),
        (request(id="null", params="[]"), "#/id", None),
        (b'{"\\ud800":1,"jsonrpc":"2.0","id":1}', "#/method", 1),
    ],
)
def test_what_is_no_request_is_refused_with_the_path_and_the_id_where_it_has_one(
    message: bytes,
    path: str,
    id: Id | None,  # noqa: A002
) -> None:
    assert invalid(message) == refused("invalid_request", -32600, id, path=path)


@pytest.mark.parametrize("params", ["null", "1", '"x"', "[]", "[{}]", "true", '"\\ud800"', "-1.5", '"{"'])
def test_params_that_are_no_object_are_refused_with_the_method_known(params: str) -> None:
    assert invalid(request(params=params)) == refused("invalid_params", -32602, 7, path="")
    found = envelope.decode(request(params=params))
    assert isinstance(found, Invalid)
    assert found.method == "m"
    notification = envelope.decode(request(params=params).replace(b'"id":7,', b""))
    assert isinstance(notification, Invalid)
    assert (notification.answer, notification.method) == (False, "m")


# -- answers to server-to-client requests


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":"srv-1","result":{"a": 1}}', Response("srv-1", b'{"a": 1}', None)),
        (b'{"jsonrpc":"2.0","id":"srv-1","result":null}', Response("srv-1", b"null", None)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1}}', Response(1, None, b'{"code":-1}')),
        (b'{"id":"srv-1","result":1,"error":null}', Response("srv-1", b"1", None)),
        (b'{"id":"srv-1","result":1,"error":{}}', Response("srv-1", b"1", b"{}")),
        (b'{"id":"srv-1","error":null}', Response("srv-1", None, b"null")),
        (b'{"jsonrpc":"2.0","id":null,"error":{}}', Response(None, None, b"{}")),
        (b'{"jsonrpc":"2.0","id":1.0,"result":1}', Response(None, b"1", None)),
        (b'{"jsonrpc":"2.0","result":1}', Response(None, b"1", None)),
        (b'{"jsonrpc":"2.0","id":"srv-1","result":"\\ud800"}', Response("srv-1", b'"\\ud800"', None)),
    ],
)
def test_a_message_with_a_result_or_error_and_no_method_is_a_response_and_never_an_error(
    message: bytes, expected: Response
) -> None:
    assert envelope.decode(message) == expected


# -- batches


def test_a_batch_keeps_its_members_in_their_places_the_bad_ones_too() -> None:
    members = [VALID, b"1", b'{"jsonrpc":"2.0","method":"n"}', b"[]", b"[%b]" % VALID, b'{"id":1,"result":2}', b"{}"]
    found = envelope.decode(b" [" + b" , ".join(members) + b"] ")
    assert isinstance(found, Batch)
    assert found.members[0] == envelope.decode(VALID)
    assert found.members[2] == Notification("n", b"{}")
    assert found.members[5] == Response(1, b"2", None)
    bad = [member for member in found.members if isinstance(member, Invalid)]
    assert [(member.id, member.number, member.refusal.code) for member in bad] == [
        (None, -32600, "invalid_request")
    ] * 4
    assert [member.refusal.data["path"] for member in bad] == ["#", "#", "#", "#/jsonrpc"]


def test_one_lone_surrogate_in_a_batch_leaves_every_member_what_it_is() -> None:
    odd = request(params='{"a":"\\udfff","b":"\\u00e9"}')
    found = envelope.decode(b"[%b,%b,3]" % (odd, VALID))
    assert isinstance(found, Batch)
    first, second, third = found.members
    assert isinstance(first, Request)
    assert envelope.bad_value(first.params) == ("/a", "lone surrogates")
    assert isinstance(second, Request)
    assert json.loads(second.params) == json.loads(VALID)["params"]
    assert isinstance(third, Invalid)


def test_an_empty_batch_is_no_request() -> None:
    assert invalid(b"[ ]") == refused("invalid_request", -32600, path="#")


@pytest.mark.parametrize("member", [VALID, b"1", b'"\\ud800"'])
def test_a_batch_has_at_most_256_members(member: bytes) -> None:
    found = envelope.decode(b"[" + b",".join([member] * BATCH_MEMBERS) + b"]")
    assert isinstance(found, Batch)
    assert len(found.members) == BATCH_MEMBERS
    over = refused("too_large", -32600, max=BATCH_MEMBERS)
    assert invalid(b"[" + b",".join([member] * (BATCH_MEMBERS + 1)) + b"]") == over
    assert invalid(b"[" + b",".join([member] * 10_000) + b"]") == over


# -- messages over the limit


@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"xx', 7),
        (b' { "id" : "a\\u00e9" , "x', "aé"),
        (b'{"params":{"id":1,"a":[{}]},"id":2}', 2),
        (b'{"params":{"id":1,"a":[{}', None),
        (b'{"params":"\\"id\\":1","id":3,', 3),
        (b'{"id":12', None),
        (b'{"id":12 ', None),
        (b'{"id":"ab', None),
        (b'{"id":"ab"', None),
        (b'{"id":"ab"x', None),
        (b'{"id":1.0,', None),
        (b'{"id":null,"id":3,', None),
        (b'{"id":"\\ud800",', None),
        (b'{"id":"\xff",', None),
        (b'{"x":"\xc3', None),
        (b'{"x":1e999,"id":1,', None),
        (b'{"x":"\xff\xfe","id":1,', 1),
        (b'{"x" 1,"id":1,', None),
        (b'{"x":1 "id":1,', None),
        (b'[{"id":1,', None),
        (b'{"x":' + b"[" * 4000, None),
        (b"{" * 4096, None),
        (b"", None),
        (b"   ", None),
        (b"x" * 4096, None),
    ],
)
def test_an_oversized_message_is_refused_with_the_id_that_stands_whole_in_its_head(head: bytes, id: Id | None) -> None:  # noqa: A002
    found = envelope.oversized(head)
    assert (found.id, found.number, found.answer) == (id, -32600, True)
    assert (found.refusal.code, found.refusal.data) == ("too_large", {"max_bytes": MESSAGE_BYTES})


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\id1. ', max_size=200).map(str.encode))
def test_no_head_makes_oversized_fail(head: bytes) -> None:
    envelope.oversized(head)


@given(
    st.integers(-ID_MAX, ID_MAX)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300),
    st.data(),
)
def test_a_cut_head_gives_the_id_of_the_message_or_none(id: Id, data: st.DataObject) -> None:  # noqa: A002
    message = json.dumps({"jsonrpc": "2.0", "method": "m", "id": id, "params": {"id": 5}}, ensure_ascii=False).encode()
    end = data.draw(st.integers(0, len(message)))
    whole = len(message) - len(b' "params": {"id": 5}}')
    assert envelope.oversized(message[:end]).id == (id if end >= whole else None)


# -- anything at all


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, len(VALID)),
        st.integers(0, 12),
        st.binary(max_size=3)
        | st.sampled_from(
            [b"\\ud800", b"\\u0000", b"1e400", b"9" * 320, b"NaN", b"[" * 140, b"]" * 140, b'"', b"\xc3\xa9"]
        ),
    ),
    max_size=4,
)


def mutated(changes: list[tuple[int, int, bytes]]) -> bytes:
    """The valid request with a few places overwritten."""
    message = VALID
    for at, length, new in changes:
        message = message[:at] + new + message[at + length :]
    return message


def is_json(message: bytes) -> bool:
    """What the standard library says, made strict."""

    def number(text: str) -> float:
        if abs(float(text)) == float("inf"):
            raise ValueError(text)
        return float(text)

    def no_constant(text: str) -> None:
        raise ValueError(text)

    try:
        text = message.decode()
        json.JSONDecoder(parse_float=number, parse_int=number, parse_constant=no_constant).decode(text)
    except ValueError:
        return False
    return True


def each(found: Member | Batch) -> list[Member]:
    return found.members if isinstance(found, Batch) else [found]


@given(st.binary() | MUTATIONS.map(mutated) | st.text(alphabet='{}[]":,\\u0d8e1-+. \n', max_size=40).map(str.encode))
@example(b'"\\ud800\\u0041')
@example(b'{"\\ud800":1e400}')
@example(b'["\\ud800",{"id":1,"result":"\\ud800"}]')
def test_decode_never_fails_and_its_errors_can_be_sent(message: bytes) -> None:
    found = envelope.decode(message)
    for member in each(found):
        match member:
            case Invalid(id=known, number=number, refusal=refusal):
                answer = json.loads(envelope.encode_error(known, refusal, number))
                assert answer["error"]["data"]["code"] == refusal.code
            case Request(params=params) | Notification(params=params):
                assert isinstance(json.loads(params), dict)
                member.method.encode()
            case Response(id=known):
                assert known is None or json.loads(envelope.encode_result(known, 1))["id"] == known
    codes = [member.refusal.code for member in each(found) if isinstance(member, Invalid)]
    assert ("parse_error" in codes) is not is_json(message) or codes == ["too_deep"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), VALUES))
def test_every_object_of_json_is_something(members: dict[str, object]) -> None:
    message = json.dumps({"jsonrpc": "2.0", "method": "m"} | members).encode()
    found = envelope.decode(message)
    match found:
        case Request(id=known, method=method) | Invalid(id=known, method=str(method), answer=True):
            assert known == members["id"]
            assert method == members.get("method", "m")
        case Notification() | Invalid(answer=False):
            assert "id" not in members
        case Response() | Batch():
            raise AssertionError(found)
        case Invalid(id=known, refusal=refusal):
            assert known is None or known == members["id"]
            assert refusal.code != "parse_error" or not is_json(message)
