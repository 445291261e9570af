"""Whose work it is about, and the family's events (contract workgraph 2, 10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from interlock.lifecycle.roles import Caller

from ..tx import Tx

FAMILY = "workgraph"


class Scope(NamedTuple):
    """A realm and a namespace: rows of another scope are not there."""

    realm_id: str
    namespace: str


def emit(
    tx: Tx,
    scope: Scope | None,
    type: str,  # noqa: A002 - the column's and the record's name
    subject: str,
    data: msgspec.Struct | dict[str, Any],
    caller: Caller | None = None,
) -> int:
    """Append an event of this family. `role` is the caller's attached role, absent for the operator and the sweeper."""
    return tx.emit(
        FAMILY,
        type,
        subject,
        data,
        role=None if caller is None else caller.op_role,
        realm_id=None if scope is None else scope.realm_id,
        namespace=None if scope is None else scope.namespace,
    )


def present(**fields: Any) -> dict[str, Any]:
    """The fields that are there: an event omits what is empty."""
    return {name: value for name, value in fields.items() if value is not None and value != [] and value is not False}
