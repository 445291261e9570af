"""Pages: how much is in one, and the cursor to the next, which is opaque to the client and good only for the query that
it came from (contract README)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, TypedDict, TypeVar, cast

import msgspec

from interlock.lifecycle.refusal import Refusal

from .limits import PAGE_BYTES, PAGE_DEFAULT

_encode = msgspec.json.Encoder().encode
_PAGING = {"limit", "cursor"}
_ROW_IDS = range(2**63)
Row = TypeVar("Row")
Record = TypeVar("Record")


def limit_of(params: Any) -> int:
    """How many items a page may have; 0 is the default."""
    limit: int = params.limit or PAGE_DEFAULT
    return limit


def key_of(method: str, params: Any, kind: type[Any]) -> Any:
    """The key in the params' cursor, None without one. Raises `invalid_params` for one that is not of this query."""
    if params.cursor is None:
        return None
    try:
        data = urlsafe_b64decode(params.cursor + "=" * (-len(params.cursor) % 4))
        if data[:8] == _mark(method, params):
            key = msgspec.json.decode(data[8:], type=kind)
            if kind is not int or key in _ROW_IDS:  # somebody may have made a cursor up
                return key
    except (ValueError, msgspec.MsgspecError):
        pass
    raise Refusal(
        "invalid_params",
        "this cursor does not belong to this query",
        path="/cursor",
        expected="next_cursor of a page with the same filters",
    )


def _mark(method: str, params: msgspec.Struct) -> bytes:
    filters = {name: getattr(params, name) for name in params.__struct_fields__ if name not in _PAGING}
    return sha256(_encode((method, filters))).digest()[:8]


class Tail(TypedDict):
    """The ends of a page, as `PageResult` has them."""

    has_more: bool
    next_cursor: str | None


def tail(method: str, params: msgspec.Struct, key: object) -> Tail:
    """How a page ends that goes on behind `key`; None is the end of all."""
    if key is None:
        return {"has_more": False, "next_cursor": None}
    cursor = urlsafe_b64encode(_mark(method, params) + _encode(key)).decode().rstrip("=")
    return {"has_more": True, "next_cursor": cursor}


def page(
    found: Iterable[Row], limit: int, record: Callable[[Row], Record], key_of: Callable[[Row], object]
) -> tuple[list[Record], object]:
    """The records that make a page, `limit` and 4 MiB at most but never less than one of any.

    Beside them the key of the last one where there is more behind it; None at the end of what was found.
    """
    made: list[Record] = []
    size, last = 0, None
    for row in found:
        if len(made) == limit:
            return made, key_of(cast(Row, last))
        one = record(row)
        size += len(_encode(one))
        if made and size > PAGE_BYTES:
            return made, key_of(cast(Row, last))
        made.append(one)
        last = row
    return made, None
