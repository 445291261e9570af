"""The error table: string codes, their numbers and whether sending the same request again can succeed (DESIGN 3.3)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock.lifecycle.refusal import Refusal


class Code(NamedTuple):
    """One string code. `number` is its JSON-RPC class; `meaning` is one sentence for the docs."""

    number: int
    retryable: bool
    meaning: str


CODES: Final[dict[str, Code]] = {
    "parse_error": Code(-32700, False, "The message is no JSON."),
    "invalid_request": Code(-32600, False, "The message is no JSON-RPC 2.0 request."),
    "too_deep": Code(-32600, False, "The message is nested deeper than `depth`."),
    "method_not_found": Code(-32601, False, "No method has this name; `expected` is the nearest."),
    "invalid_params": Code(-32602, False, "`path` points to what is wrong, `expected` says what belongs there."),
    "internal": Code(-32603, False, "A bug. `error_id` is to be found in the log."),
    "invalid_transition": Code(-32000, False, "The thing is in a state that does not allow this."),
    "hop_budget_exhausted": Code(-32000, False, "The family of tasks has used up its hops."),
    "deadline_passed": Code(-32000, False, "The family's deadline is over."),
    "policy_unsatisfied": Code(-32000, False, "The item's completion policy is not satisfied; `missing` says by what."),
    "not_found": Code(-32001, False, "`kind` says what there is none of; `near` names similar ones."),
    "op_conflict": Code(-32002, False, "This `op_id` was used for something else, by `method`."),
    "duplicate": Code(-32002, False, "An id that the caller chose exists already."),
    "stale_revision": Code(-32002, False, "It has changed since: `current_revision` is not `expected_revision`."),
    "occupied": Code(-32002, False, "The target attends to something already: `occupant`; `remedy` is the way out."),
    "already_claimed": Code(-32002, False, "Somebody holds the item: `holder`."),
    "stale_lease": Code(-32002, False, "This fence is not that of a live claim."),
    "fence_required": Code(-32002, False, "The item is claimed by `holder`: send the fence of the claim."),
    "not_owner": Code(-32003, False, "The connection does not act for this role."),
    "not_admin": Code(-32003, False, "Only the operator may do this."),
    "authority_missing": Code(-32003, False, "The binding, or who calls, lacks `capability`; `remedy` is the way out."),
    "sender_not_allowed": Code(-32003, False, "The addressee does not take mail from this sender."),
    "too_large": Code(-32004, False, "Larger than its bound; `max` says how large it may be."),
    "at_capacity": Code(-32004, False, "A bound on how many is reached."),
    "in_use": Code(-32004, False, "What would be removed is still used."),
    "limit_out_of_range": Code(-32004, False, "A limit, a wait or a time-out is outside its bounds."),
    "cancelled": Code(-32005, False, "Cancelled before anything was committed."),
    "busy": Code(-32006, True, "The writer's queue is full, or another process holds the store."),
    "admission_lock_timeout": Code(-32006, True, "Another process held the admission gate; nothing was written."),
    "starting": Code(-32006, True, "The daemon is not ready yet."),
    "draining": Code(-32006, True, "The daemon is stopping."),
    "storage_full": Code(-32006, True, "The disk is full; reads go on."),
    "read_timeout": Code(-32006, True, "The read took longer than 5 s."),
    "recipient_offline": Code(-32006, True, "Nobody is attached to the addressee and it queues no notes."),
    "unavailable": Code(-32007, False, "A peer that this needs cannot be reached."),
    "store_failed": Code(-32007, False, "The store cannot be used; `daemon/doctor` says why."),
    "unsupported_schema": Code(-32007, False, "The store was written by another version."),
    "cursor_expired": Code(-32008, False, "Retention has removed what followed this cursor; `floor` is the oldest."),
    "cursor_ahead": Code(-32008, False, "The cursor is above the feed's `head`."),
}
"""Codes of later families join with them."""

TOO_LARGE_MESSAGE: Final = -32600
"""`too_large` for a whole message or batch is -32600, for a value -32004 (contract daemon 1.1)."""


def error_object(refusal: Refusal, *, number: int | None = None) -> dict[str, Any]:
    """The wire's error object of a refusal; `number` overrides the table's (see `TOO_LARGE_MESSAGE`)."""
    code = CODES[refusal.code]
    retryable = refusal.data.get("retryable", code.retryable)
    data = {"code": refusal.code, "retryable": retryable, **refusal.data}
    return {"code": number or code.number, "message": refusal.message, "data": data}
