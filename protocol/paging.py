"""Page cursors: opaque to the client, and good only for the query that they came from (contract README)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import msgspec

from interlock.lifecycle.refusal import Refusal

from .limits import PAGE_BYTES, PAGE_DEFAULT

_encode = msgspec.json.Encoder().encode
_PAGING = {"limit", "cursor"}
_ROW_IDS = range(2**63)


def limit_of(params: Any) -> int:
    """How many items a page may have; 0 is the default."""
    limit: int = params.limit or PAGE_DEFAULT
    return limit


def next_cursor(method: str, params: msgspec.Struct, key: object) -> str:
    """The cursor that goes on behind `key`."""
    return urlsafe_b64encode(_mark(method, params) + _encode(key)).decode().rstrip("=")


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


def fitting(items: list[Any]) -> int:
    """How many of the items fit into a page of 4 MiB; at least one of any."""
    total = 0
    for n, item in enumerate(items):
        total += len(_encode(item))
        if n and total > PAGE_BYTES:
            return n
    return len(items)
