"""JSON-RPC 2.0 envelopes: a message's bytes to what it is, and answers to bytes (contract daemon 1.1 and 1.2).

Owns everything that can be said about a message without knowing any method: `decode` never raises, and what must be
refused comes back as `Invalid`. `params` stay bytes, for the one decoder that knows their type. What it cannot see, an
id in flight or an unknown method, is the connection's; `Invalid.method` says where those come first.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from interlock.lifecycle.refusal import Refusal

from . import strictjson
from .errors import CODES, TOO_LARGE_MESSAGE, error_object
from .limits import BATCH_MEMBERS, DEPTH, ID_BYTES, MESSAGE_BYTES
from .mobkit_errors import PREFIX, mobkit_error
from .strictjson import NotJson
from .strictjson import bad_value as bad_value
from .strictjson import suspicious as suspicious

ID_MAX: Final = (1 << 53) - 1
"""The largest integer id, and its negative the smallest: beyond, JavaScript would echo another one."""

Id = str | int

_OBJECT: Final = ord("{")


class Request(msgspec.Struct, frozen=True, gc=False):
    """To be answered once. `params` is a JSON object, `{}` when there was none; see `suspicious` before decoding it."""

    id: Id
    method: str
    params: bytes


class Notification(msgspec.Struct, frozen=True, gc=False):
    """To be run and never answered, not even with an error."""

    method: str
    params: bytes


class Response(msgspec.Struct, frozen=True, gc=False):
    """The peer's answer to a request of ours, never answered itself. An `id` of None is none that we ever used.

    `result` and `error` are JSON; an error of null beside a result, which JSON-RPC 1.0 has, counts as none.
    """

    id: Id | None
    result: bytes | None
    error: bytes | None


class Invalid(msgspec.Struct, frozen=True):
    """To be answered with `refusal` under `number`, unless `answer` is False: then it was a notification or response.

    `method` is there when nothing but the params is wrong: an id in flight and an unknown method come before that.
    """

    id: Id | None
    number: int
    refusal: Refusal
    answer: bool = True
    method: str | None = None


Member = Request | Notification | Response | Invalid
"""What a message is, or one in a batch."""


class Batch(msgspec.Struct, frozen=True):
    """1 to 256 messages, to be answered by one array."""

    members: list[Member]


class _Call(msgspec.Struct, frozen=True, gc=False):
    """What nearly every message is."""

    method: str
    jsonrpc: Literal["2.0"]
    id: Id | UnsetType = UNSET
    params: Raw = Raw(b"{}")


class _Object(msgspec.Struct, frozen=True, gc=False):
    """Any object, with the members that mean something still as JSON."""

    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


# Any array: the members that a batch may have and one more. Longer ones are read on, but nothing of them is kept.
_Array: Final = msgspec.defstruct(
    "_Array", [(f"m{n}", Raw | UnsetType, UNSET) for n in range(BATCH_MEMBERS + 1)], array_like=True, gc=False
)

_decode_call: Final = msgspec.json.Decoder(_Call).decode
_decode_object: Final = msgspec.json.Decoder(_Object).decode
_decode_array: Final = msgspec.json.Decoder(_Array).decode
_decode_scalar: Final = msgspec.json.Decoder(Raw).decode


def decode(message: bytes) -> Member | Batch:
    """What a message is: the rows of contract daemon 1.1 in their order, but those that need methods. Never raises."""
    unreadable = None if strictjson.is_plain(message) else _unreadable(message)
    return unreadable or _quick(message) or _slow(message)


def oversized(head: bytes) -> Invalid:
    """A message over `message_bytes`, of which only the beginning is known."""
    known = _usable(strictjson.member_in_head(head, "id"))
    refusal = Refusal("too_large", f"the message is larger than {MESSAGE_BYTES} bytes", max_bytes=MESSAGE_BYTES)
    return _invalid(known, refusal, TOO_LARGE_MESSAGE)


def _quick(message: bytes) -> Request | Notification | None:
    """A message in which nothing is wrong, None when something may be."""
    try:
        call = _decode_call(message)
    except msgspec.DecodeError:
        return None
    params = bytes(call.params)
    if params[0] != _OBJECT:
        return None
    if call.id is UNSET:
        return Notification(call.method, params)
    usable = _usable(call.id)
    return None if usable is None else Request(usable, call.method, params)


def _slow(message: bytes) -> Member | Batch:
    try:
        opened = _open(message)
    except NotJson as error:
        return _parse_error(error)
    return _batch(opened) if isinstance(opened, list) else _judge(opened)


def _unreadable(message: bytes) -> Invalid | None:
    """What is wrong with a message that msgspec alone would take, or could not read. None when nothing is."""
    try:
        strictjson.check_text(message)
        if strictjson.is_too_deep(message):
            return _too_deep(message)
        strictjson.check_numbers(message)
    except NotJson as error:
        return _parse_error(error)
    return None


def _parse_error(error: NotJson) -> Invalid:
    data = {} if error.position is None else {"position": error.position}
    return _invalid(None, Refusal("parse_error", f"the message is no JSON: {error.reason}", **data))


def _too_deep(message: bytes) -> Invalid:
    try:
        opened = _open(strictjson.without_depths(message))
    except NotJson as error:
        return _parse_error(NotJson(error.reason))  # its position is not the message's
    refusal = Refusal("too_deep", f"the message is nested deeper than {DEPTH}", max=DEPTH)
    if isinstance(opened, list):
        return _invalid(None, refusal)
    match _judge(opened):
        case Request(id=known) | Invalid(id=known, answer=True):
            return _invalid(known, refusal)
        case _:
            return _invalid(None, refusal, answer=False)


def _open(message: bytes) -> _Object | list[bytes] | None:
    """One level of a message: its members as JSON, at most one more of an array than a batch has. None: a scalar.

    Raises `NotJson`. A lone surrogate, which msgspec refuses, does not make it so: such a message is written anew.
    """
    first = message.lstrip(strictjson.SPACE)[:1]
    try:
        if first == b"{":
            return _decode_object(message)
        if first == b"[":
            return [bytes(raw) for raw in msgspec.structs.astuple(_decode_array(message)) if raw is not UNSET]
        _decode_scalar(message)
        return None
    except msgspec.DecodeError as error:
        if b"\\u" not in message:
            raise strictjson.refused_by_msgspec(error, message) from None
    value = strictjson.load(message)
    if isinstance(value, dict):
        members = {name: Raw(strictjson.dump(value[name])) for name in _Object.__struct_fields__ if name in value}
        return _Object(**members)
    return [strictjson.dump(member) for member in value[: BATCH_MEMBERS + 1]] if isinstance(value, list) else None


def _batch(members: list[bytes]) -> Invalid | Batch:
    if not members:
        return _invalid(None, Refusal("invalid_request", "a batch must not be empty", path="#"))
    if len(members) > BATCH_MEMBERS:
        refusal = Refusal("too_large", f"a batch has at most {BATCH_MEMBERS} members", max=BATCH_MEMBERS)
        return _invalid(None, refusal, TOO_LARGE_MESSAGE)
    return Batch([_member(member) for member in members])


def _member(message: bytes) -> Member:
    """One message of a batch, which as a whole was found readable."""
    quick = _quick(message)
    opened = None if quick else _open(message)
    return quick or _judge(None if isinstance(opened, list) else opened)


def _judge(opened: _Object | None) -> Member:
    """What an object is, member by member. None stands for what is no object."""
    if opened is None:
        return _invalid(None, Refusal("invalid_request", "a request is an object", path="#"))
    known = _usable(_scalar(opened.id))
    if opened.method is UNSET and (opened.result is not UNSET or opened.error is not UNSET):
        return _response(known, opened)
    method = _scalar(opened.method)
    if _scalar(opened.jsonrpc) != "2.0":
        return _invalid(known, Refusal("invalid_request", 'jsonrpc must be "2.0"', path="#/jsonrpc"))
    if not isinstance(method, str) or not strictjson.is_text(method):
        return _invalid(known, Refusal("invalid_request", "method must be a string", path="#/method"))
    if opened.id is not UNSET and known is None:
        allowed = f"a string of at most {ID_BYTES} bytes without NUL, or an integer within ±{ID_MAX}"
        return _invalid(None, Refusal("invalid_request", f"id must be {allowed}", path="#/id"))
    params = b"{}" if opened.params is UNSET else bytes(opened.params)
    if params[0] != _OBJECT:
        refusal = Refusal("invalid_params", "params must be an object", path="")
        return _invalid(known, refusal, answer=known is not None, method=method)
    return Notification(method, params) if known is None else Request(known, method, params)


def _response(known: Id | None, opened: _Object) -> Response:
    result = None if opened.result is UNSET else bytes(opened.result)
    error = None if opened.error is UNSET else bytes(opened.error)
    return Response(known, result, None if result is not None and error == b"null" else error)


def _scalar(raw: Raw | UnsetType) -> object:
    """The value of a member, None also when it is absent or an object or array."""
    if raw is UNSET or bytes(raw).startswith((b"{", b"[")):
        return None
    return strictjson.load(bytes(raw))


def _usable(value: object) -> Id | None:
    """An id that can be echoed exactly, else None."""
    if type(value) is int:
        return value if -ID_MAX <= value <= ID_MAX else None
    if type(value) is str and "\0" not in value and strictjson.is_text(value):
        return value if len(value.encode()) <= ID_BYTES else None
    return None


def _invalid(
    known: Id | None, refusal: Refusal, number: int | None = None, *, answer: bool = True, method: str | None = None
) -> Invalid:
    return Invalid(known, number or CODES[refusal.code].number, refusal, answer, method)


class _Result(msgspec.Struct, tag_field="jsonrpc", tag="2.0"):
    id: Id
    result: object


class _Error(msgspec.Struct, tag_field="jsonrpc", tag="2.0"):
    id: Id | None
    error: dict[str, Any]


class _Asked(msgspec.Struct, tag_field="jsonrpc", tag="2.0"):
    id: str | UnsetType
    method: str
    params: object


_encode: Final = msgspec.json.Encoder().encode


def encode_result(id: Id, result: object) -> bytes:  # noqa: A002 (its name on the wire)
    """The answer of a request that succeeded. A `msgspec.Raw` result is JSON already."""
    return _encode(_Result(id, result))


def encode_error(
    id: Id | None,  # noqa: A002
    refusal: Refusal,
    number: int | None = None,
    method: str = "",
) -> bytes:
    """The answer of a request that was refused; `number` overrides that of the code (see `TOO_LARGE_MESSAGE`).

    `method` is what was asked for, where that was judged: MobKit's names are answered in MobKit's numbers.
    """
    if method.startswith(PREFIX):
        return _encode(_Error(id, mobkit_error(refusal, method)))
    return _encode(_Error(id, error_object(refusal, number=number)))


def encode_request(id: str, method: str, params: object) -> bytes:  # noqa: A002
    """A server-to-client request."""
    return _encode(_Asked(id, method, params))


def encode_notification(method: str, params: object) -> bytes:
    """What the daemon tells without being asked."""
    return _encode(_Asked(UNSET, method, params))
