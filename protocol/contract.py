"""What a method is. One declaration drives dispatch, `daemon/discover`, the CLI verbs and the docs (DESIGN 2)."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import msgspec

from interlock.lifecycle.types import PageLimit, Seq

Kind = Literal["read", "write", "async"]
Idempotency = Literal["op_id", "nature", "cas"]


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every method's params: an object; unknown fields are refused; `_meta` is dropped before this."""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of every method's result: optional and empty fields are omitted, arrays are never null."""


class PageParams(Params, frozen=True, kw_only=True):
    """A page: `cursor` comes from `next_cursor` of a page with the same filters."""

    limit: PageLimit = 0
    cursor: str | None = None


class PageResult(Result, frozen=True, kw_only=True):
    """What every page says."""

    has_more: bool
    as_of_seq: Seq
    next_cursor: str | None = None


P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)


class Method(msgspec.Struct, Generic[P, R], frozen=True, kw_only=True):
    """One method of the contract.

    `kind` decides where its function runs (DESIGN 2): `read` on a reader's snapshot, `write` in the writer's
    transaction, `async` on the loop. `errors` are the string codes worth naming beside `COMMON_ERRORS`.
    `kept_as_history`: what it creates has no one subject, so its op id is kept as long as final rows are (DESIGN 3.4).
    """

    name: str
    summary: str
    params: type[P]
    result: type[R]
    kind: Kind
    batch: bool = False
    gate: bool = False
    idempotent: Idempotency = "nature"
    operator_only: bool = False
    kept_as_history: bool = False
    aliases: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """`ledger` of `ledger/role/list`; a method without a slash belongs to `daemon`."""
        return self.name.split("/", 1)[0] if "/" in self.name else "daemon"


AnyMethod = Method[Any, Any]

COMMON_ERRORS = (
    "invalid_params",
    "too_large",
    "busy",
    "draining",
    "storage_full",
    "store_failed",
    "cancelled",
    "internal",
)
"""What every method can answer (contract README)."""
