"""What is sent: every answer, request and notification is one line of JSON that reads back as what it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import envelope
from interlock.protocol.envelope import ID_MAX, Id, Notification, Request, Response

FEW = settings(max_examples=40)  # each makes many values, and the encoder is msgspec's
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CLEAN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)
IDS = st.integers(-ID_MAX, ID_MAX) | TEXT.filter(lambda text: "\0" not in text)


@FEW
@given(IDS, CLEAN)
def test_a_sent_result_is_read_as_a_response_with_the_same_id(id: Id, result: object) -> None:  # noqa: A002
    sent = envelope.encode_result(id, result)
    assert b"\n" not in sent
    assert envelope.decode(sent) == Response(id, msgspec.json.encode(result), None)


@FEW
@given(IDS | st.none(), TEXT, st.dictionaries(st.sampled_from(["path", "max", "near"]), CLEAN))
def test_a_sent_error_is_read_as_a_response_with_the_same_id(id: Id | None, text: str, data: dict[str, Any]) -> None:  # noqa: A002
    sent = envelope.encode_error(id, Refusal("not_found", text, **data))
    found = envelope.decode(sent)
    assert isinstance(found, Response)
    assert (found.id, found.result) == (id, None)
    error = json.loads(found.error or b"")
    assert (error["code"], error["message"]) == (-32001, text)
    assert error["data"] == {"code": "not_found", "retryable": False} | data


@FEW
@given(IDS, TEXT, st.dictionaries(TEXT, CLEAN))
def test_a_sent_request_and_notification_are_read_as_such(id: Id, method: str, params: dict[str, object]) -> None:  # noqa: A002
    raw = msgspec.json.encode(params)
    assert envelope.decode(envelope.encode_request(str(id), method, params)) == Request(str(id), method, raw)
    assert envelope.decode(envelope.encode_notification(method, params)) == Notification(method, raw)


def test_a_result_that_is_json_already_is_sent_as_it_is() -> None:
    sent = envelope.encode_result("a", msgspec.Raw(b'{"x": 1}'))
    assert sent == b'{"jsonrpc":"2.0","id":"a","result":{"x": 1}}'


def test_the_number_of_an_error_is_the_codes_unless_another_is_given() -> None:
    refusal = Refusal("too_large", "the text is too large", path="/text", max=3)
    assert json.loads(envelope.encode_error(1, refusal))["error"] == {
        "code": -32004,
        "message": "the text is too large",
        "data": {"code": "too_large", "retryable": False, "path": "/text", "max": 3},
    }
    assert json.loads(envelope.encode_error(None, refusal, -32600))["error"]["code"] == -32600
