"""Refusals in MobKit's error numbers (contract workgraph 11). One table; its rows are tried in order. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock.lifecycle.authority import TRUSTED_PRINCIPAL
from interlock.lifecycle.refusal import Refusal

from .errors import error_object

PREFIX: Final = "mobkit/"
MISMATCH: Final = "attention_target_realm_mismatch"


class Row(NamedTuple):
    """Which refusals: a code, and where they are given its data's `value` of `field`, and the end of the method's name.

    What they become: a number, a `kind` of MobKit's, and what is put before the message.
    """

    codes: tuple[str, ...]
    number: int
    kind: str | None = None
    prefix: str = ""
    field: str | None = None
    value: str | None = None
    method: str = ""


_CONFLICTS: Final = (
    *("stale_revision", "occupied", "op_conflict", "duplicate", "stale_lease", "fence_required"),
    "concurrent_update",
)
_INVALID: Final = "Invalid params: "
_TRUSTED: Final = ("authority_missing",)
_DENIED: Final = "access_denied"

ROWS: Final = (
    Row(("method_not_found",), -32601, prefix="Method not found: "),
    Row(("invalid_params",), -32602, MISMATCH, _INVALID, field="reason", value=MISMATCH),
    Row(("invalid_params", "limit_out_of_range", "too_large"), -32602, prefix=_INVALID),
    Row(("invalid_transition",), -32602, prefix=_INVALID, field="reason", value="not_an_escalation"),
    Row(_TRUSTED, -32602, prefix=_INVALID, field="capability", value=TRUSTED_PRINCIPAL, method="goal/confirm"),
    Row(_TRUSTED, -32030, _DENIED, field="capability", value=TRUSTED_PRINCIPAL, method="break_glass_reassign"),
    Row(("not_admin",), -32030, _DENIED),
    Row(_CONFLICTS, -32042, "workgraph_conflict", "workgraph conflict: "),
    Row(("unavailable",), -32041, "workgraph_unavailable"),
    Row(("starting",), -32018, "init_in_progress"),
)
REST: Final = Row((), -32000, "workgraph_error")


def mobkit_error(refusal: Refusal, method: str) -> dict[str, Any]:
    """The error object of a refusal of `method`, for MobKit's SDK: our data, its `kind`, and `detail`.

    Where a refusal has a `kind` of ours, of what it is about, that is `record_kind` here.
    """
    row = next((row for row in ROWS if _is_for(row, refusal, method)), REST)
    spoken = error_object(refusal, number=row.number)
    data, detail = spoken["data"], _detail(refusal)
    if "kind" in data:
        data["record_kind"] = data.pop("kind")
    data |= {"detail": detail} if row.kind is None else {"kind": row.kind, "detail": detail}
    return {**spoken, "message": row.prefix + detail}


def _is_for(row: Row, refusal: Refusal, method: str) -> bool:
    return (
        refusal.code in row.codes
        and (row.field is None or refusal.data.get(row.field) == row.value)
        and method.endswith(row.method)
    )


def _detail(refusal: Refusal) -> str:
    """The message, with what MobKit's clients look for in it."""
    if refusal.code == "stale_revision" and "stale" not in refusal.message:
        return f"stale revision: {refusal.message}"
    remedy = refusal.data.get("remedy")
    if refusal.code != "occupied" or remedy is None or str(remedy) in refusal.message:
        return refusal.message
    return f"{refusal.message}; {remedy}"
