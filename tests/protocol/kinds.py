"""Params with a field of each kind that the families use, and what the decoder makes of them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.types import Id, Json, JsonObject, Name, Rule, Seq, Text64, Time, WaitMs, meta
from interlock.protocol.contract import Params
from interlock.protocol.params import Decoder

A_NAME = "a name without white space and control characters, 1 to 256 bytes"
AN_ID = "trimmed text without control characters, 1 to 256 bytes"
A_TIME = "an RFC 3339 time such as 2026-12-01T12:00:00.000Z"


class Circle(Params, frozen=True, kw_only=True, tag_field="shape", tag="circle"):
    """One of two told apart by a word."""

    radius: int


class Square(Params, frozen=True, kw_only=True, tag_field="shape", tag="square"):
    """The other."""

    side: Annotated[int, meta(Rule(kind="int", min=1, max=9))]


class EveryKind(Params, frozen=True, kw_only=True):
    """A field of each kind that the families use."""

    id: Id = "i"
    name: Name = "n"
    text: Text64 = ""
    some_text: Annotated[str, meta(Rule(kind="text", min=3, max=9))] = "abc"
    at: Time | None = None
    seq: Seq = 0
    wait_ms: WaitMs = 0
    some_ms: Annotated[int, meta(Rule(kind="limit", min=5, max=9))] = 5
    number: int = 0
    share: Annotated[float, meta(Rule(kind="int", max=1))] = 0.5
    flag: bool = False
    word: Literal["red", "green"] = "red"
    anything: Json = None
    thing: JsonObject = {}
    names: Annotated[list[Name], meta(Rule(kind="list", min=1, max=3))] = []
    numbers: dict[str, int] = {}
    drawn: Circle | Square | None = None
    round: Circle | None = None
    one_or_more: Name | Annotated[list[Name], meta(Rule(kind="list", max=2))] = "a"
    one_or_named: Name | dict[Name, Seq] = "a"
    evens: list[Annotated[int, Meta(multiple_of=2)]] = []
    patched: Name | UnsetType | None = UNSET
    bearer_token: Id = "b"
    even: Annotated[int, Meta(multiple_of=2)] = 0
    secret_even: Annotated[int, Meta(multiple_of=2)] = 0


def decode(params_type: type[msgspec.Struct], value: object) -> Any:
    """Decode these params as they would arrive."""
    return Decoder(params_type).decode(json.dumps(value).encode())


def refusal(params_type: type[msgspec.Struct], value: object) -> Refusal:
    """The refusal of these params, given as values, or as bytes where JSON cannot be written from values."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(Refusal) as caught:
        Decoder(params_type).decode(raw)
    return caught.value
