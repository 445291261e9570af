"""What a refusal says to a person: its message, a corrected example, and never a secret."""

from __future__ import annotations

import json
from typing import Literal

import msgspec
import pytest

from interlock.protocol.contract import Params
from interlock.protocol.daemon import BatchParams
from interlock.protocol.ledger_mail import PruneParams

from .kinds import A_NAME, EveryKind, decode, refusal


@pytest.mark.parametrize(
    ("params_type", "value", "example_"),
    [
        (EveryKind, {"nmae": "a", "seq": 1}, {"name": "a", "seq": 1}),
        (EveryKind, {"name": "a", "nmae": "b"}, {"name": "a"}),
        (EveryKind, {"utterly_other": "a", "seq": 1}, {"seq": 1}),
        (EveryKind, {"word": "Green"}, {"word": "green"}),
        (EveryKind, {"seq": "12"}, {"seq": 12}),
        (EveryKind, {"seq": 12.0}, {"seq": 12}),
        (EveryKind, {"numbers": {"a": " 7 "}}, {"numbers": {"a": 7}}),
        (EveryKind, {"name": " a\n"}, {"name": "a"}),
        (EveryKind, {"names": ["a", " b"]}, {"names": ["a", "b"]}),
        (EveryKind, {"number": None, "seq": 1}, {"seq": 1}),
        (EveryKind, {"drawn": {"shape": "sqare", "side": 1}}, {"drawn": {"shape": "square", "side": 1}}),
        (EveryKind, {"_meta": {}, "nmae": "a"}, {"name": "a"}),
    ],
)
def test_one_slip_is_answered_with_params_that_would_be_accepted(
    params_type: type[msgspec.Struct], value: object, example_: dict[str, object]
) -> None:
    assert refusal(params_type, value).data["example"] == example_
    decode(params_type, example_)


@pytest.mark.parametrize(
    "value",
    [
        {"nmae": "a", "sqe": 1},
        {"word": "something"},
        {"seq": "twelve"},
        {"seq": "-12"},
        {"name": "a b"},
        {"nmae": "a", "anything": "x" * 5000},
        {"nmae": "a", "anything": "x" * 65536},
        {"drawn": {"radius": 1}},
        5,
    ],
)
def test_there_is_no_example_where_one_repair_is_not_enough_or_takes_a_guess(value: object) -> None:
    assert "example" not in refusal(EveryKind, value).data


@pytest.mark.parametrize(
    "value",
    [
        {"bearer_token": "hush hush\n"},
        {"bearer_token": 7171},
        {"bearer_token": ["hush"]},
        {"bearer_tokn": "hush"},
        {"nmae": "a", "bearer_token": "hush"},
        {"nmae": "a", "anything": [{"client_secret": "hush"}]},
        {"bearer_token": "hush" * 100},
        {"secret_even": 7171},
    ],
)
def test_what_is_in_a_secret_field_is_never_repeated(value: dict[str, object]) -> None:
    found = refusal(EveryKind, value)
    said = json.dumps([found.message, found.data])
    assert "hush" not in said
    assert "7171" not in said


class Login(Params, frozen=True, kw_only=True):
    """A closed set in a field that looks like a secret's."""

    token: Literal["none"]


def test_an_unknown_word_is_shown_in_the_message_unless_its_field_is_a_secrets() -> None:
    assert refusal(EveryKind, {"word": "blue"}).message == '`word` cannot be "blue"; it is one of `green`, `red`'
    assert refusal(Login, {"token": "hush"}).message == "`token` cannot be this; it is `none`"


@pytest.mark.parametrize(
    ("params_type", "value", "message"),
    [
        (EveryKind, {"nmae": 1}, "`nmae` is unknown; did you mean `name`?"),
        (PruneParams, {"x": 1}, "`x` is unknown; known here are `before`, `what`, `limit`"),
        (PruneParams, {}, "`before` is missing; it is an RFC 3339 time such as 2026-12-01T12:00:00.000Z"),
        (EveryKind, {"names": ["a", 5]}, f"`names[1]` must be {A_NAME}, not an integer"),
        (EveryKind, {"names": []}, "`names` must have at least 1 entry"),
        (EveryKind, {"some_ms": 1}, "`some_ms` must be from 5 to 9"),
        (EveryKind, {"some_text": "ab"}, "`some_text` must have at least 3 bytes"),
        (EveryKind, [1], "`params` must be an object, not a list"),
        (BatchParams, {}, "`steps` is missing; it is a list of 1 to 64 entries"),
        (EveryKind, {"at": "2026-02-30T00:00:00Z"}, "`at` is no valid time: day is out of range for month"),
    ],
)  # fmt: skip
def test_a_message_is_one_sentence_that_names_the_field(
    params_type: type[msgspec.Struct], value: object, message: str
) -> None:
    assert refusal(params_type, value).message == message


def test_a_long_unknown_field_is_neither_compared_nor_repeated_in_full() -> None:
    found = refusal(EveryKind, {"x" * 100_000: 1})
    assert len(found.message) < 1000
    assert len(str(found.data["path"])) < 2000
