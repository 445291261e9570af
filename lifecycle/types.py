"""The types used everywhere on the wire (contract README), as annotations.

msgspec checks only their Python type. Their bounds are `Rule`s, which `interlock.protocol.params` enforces when it
decodes and shows in the schemas, so that a bound is written once and a refusal can say what the contract says.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

RuleKind = Literal["id", "name", "principal", "text", "json", "time", "int", "limit", "list"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A bound of one field: `max` in bytes for text and JSON, in items for lists, a value for numbers."""

    kind: RuleKind
    max: int = 2**63 - 1
    min: int = 0


def meta(rule: Rule, **schema: object) -> Meta:
    """The annotation of a field that `rule` bounds; `schema` is what its JSON schema shows beside."""
    return Meta(extra={"rule": rule}, extra_json_schema=schema)


def _text(n: int) -> Meta:
    return meta(Rule(kind="text", max=n), maxLength=n, description=f"at most {n} bytes of UTF-8, no NUL")


NAME_BYTES = 256
TEXT_BYTES = 1 << 20
JSON_BYTES = 65536
PAGE_LIMIT = 500
PAGE_DEFAULT = 100

Id = Annotated[
    str,
    meta(
        Rule(kind="id", max=NAME_BYTES),
        minLength=1,
        maxLength=NAME_BYTES,
        description="trimmed, non-empty, no control character, at most 256 bytes",
    ),
]
Name = Annotated[
    str,
    meta(
        Rule(kind="name", max=NAME_BYTES),
        minLength=1,
        maxLength=NAME_BYTES,
        description="non-empty, no white space, no control character, at most 256 bytes",
    ),
]
OpId = Annotated[
    str, meta(Rule(kind="id", max=128), minLength=1, maxLength=128, description="caller's id of this operation")
]
Text64 = Annotated[str, _text(64)]
Text256 = Annotated[str, _text(256)]
Text1K = Annotated[str, _text(1024)]
Text2K = Annotated[str, _text(2048)]
Text4K = Annotated[str, _text(4096)]
Text8K = Annotated[str, _text(8192)]
Text1M = Annotated[str, _text(TEXT_BYTES)]
Time = Annotated[str, meta(Rule(kind="time"), format="date-time")]
"""RFC 3339 text. Any offset is accepted in; what the daemon writes is UTC with milliseconds and `Z`."""
Seq = Annotated[int, meta(Rule(kind="int"), minimum=0)]
Rev = Annotated[int, meta(Rule(kind="int", min=1), minimum=1, description="a revision, for compare-and-swap")]
Count = Annotated[int, meta(Rule(kind="int"), minimum=0)]
WaitMs = Annotated[int, meta(Rule(kind="limit", max=60_000), minimum=0, maximum=60_000)]
TtlMs = Annotated[int, meta(Rule(kind="limit", min=1), minimum=1)]
PrincipalText = Annotated[
    str,
    meta(Rule(kind="principal", max=2 * NAME_BYTES + 1), description="`role` or `role#session`"),
]
PageLimit = Annotated[
    int, meta(Rule(kind="limit", max=PAGE_LIMIT), minimum=0, maximum=PAGE_LIMIT, description="0 means 100")
]
Json = Annotated[Any, meta(Rule(kind="json", max=JSON_BYTES), description="any JSON value, at most 64 KiB")]
JsonObject = Annotated[
    dict[str, Any], meta(Rule(kind="json", max=JSON_BYTES), description="a JSON object, at most 64 KiB")
]
