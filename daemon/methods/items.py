"""`workgraph/create` … `workgraph/evidence/add`: items and claims."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_ms, parse_rfc3339
from interlock.lifecycle.work import Owner, OwnerGiven, OwnerKey, SelfAttest
from interlock.protocol import paging
from interlock.protocol import workgraph_items as contract
from interlock.protocol.limits import LEASE_DEFAULT_SECONDS, LEASE_SECONDS
from interlock.protocol.workgraph import ItemParams
from interlock.protocol.workgraph_goals import RequestCloseParams
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import changes, claims, closing, listing, queue, rows
from interlock.stores.workgraph.changes import NewItem
from interlock.stores.workgraph.claims import Wish
from interlock.stores.workgraph.closing import Cause, Ending
from interlock.stores.workgraph.judging import Guard, act_under, admit

from ..dispatch import Call, reads, writes
from .work import (
    LIST_KEY,
    Int64,
    admitted,
    check_all_evidence,
    check_claim,
    check_evidence,
    check_guard,
    check_lease,
    check_title,
    guard_of,
    scope_of,
    wrong,
)

READY_KEY: Final = tuple[Int64, Int64, Int64, str]


def new_item(params: contract.ItemFields, title: str) -> NewItem:
    """What the params make."""
    return NewItem(
        title=title.strip(),
        description=params.description,
        status=params.status,
        priority=params.priority,
        labels=params.labels,
        policy=params.completion_policy,
        failed_join=params.failed_child_join_policy,
        cancelled_join=params.cancelled_child_join_policy,
        due_at=as_ms(params.due_at),
        not_before=as_ms(params.not_before),
        snoozed_until=as_ms(params.snoozed_until),
        external_refs=params.external_refs,
        evidence=params.evidence_refs,
    )


def check_beginning(status: str) -> None:
    """Raise `invalid_transition` for a status that no item begins with: judged after all that is common."""
    if status not in ("open", "blocked"):
        message = f"an item begins open or blocked, not {status}"
        raise Refusal("invalid_transition", message, reason="create_status", status=status)


def _check_new(params: contract.CreateParams) -> None:
    if not isinstance(params.completion_policy, SelfAttest):
        message = "only a goal carries another policy: workgraph/goal/create"
        raise wrong("/completion_policy", message, "self_attest")
    check_title(params.title)
    check_all_evidence(params.evidence_refs)


@writes(contract.CREATE, check=_check_new, creates=lambda result: result.item.id)
def create(tx: Tx, call: Call, params: contract.CreateParams) -> contract.ItemResult:
    if params.binding_id is not None:
        act_under(tx, scope_of(params), params.binding_id, None, "can_create")
    check_beginning(params.status)
    item = changes.create(tx, scope_of(params), new_item(params, params.title), call.caller)
    changes.tell_ready(tx, item, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


@reads(contract.GET)
def get(snap: Snapshot, call: Call, params: ItemParams) -> contract.ItemResult:
    return contract.ItemResult(item=rows.record(snap, rows.find(snap, scope_of(params), params.id)))


@reads(contract.LIST)
def list_items(snap: Snapshot, call: Call, params: contract.ListParams) -> contract.ItemsResult:
    wanted = listing.Wanted(
        listing.statuses_of(params.statuses, params.include_terminal),
        tuple(dict.fromkeys(params.labels)),
        params.owner_key,
        params.order == "updated_desc",
    )
    after = paging.key_of(contract.LIST.name, params, LIST_KEY)
    scanned = listing.page(snap, scope_of(params), wanted, after, paging.limit_of(params))
    items, key = paging.page(scanned.items, len(scanned.items), lambda item: rows.record(snap, item), listing.key_of)
    ends = paging.tail(contract.LIST.name, params, scanned.next_key if key is None else key)
    return contract.ItemsResult(items=items, as_of_seq=snap.head(), **ends)


@reads(contract.READY)
def ready(snap: Snapshot, call: Call, params: contract.ReadyParams) -> contract.ItemsResult:
    after = paging.key_of(contract.READY.name, params, READY_KEY) or queue.FIRST
    labels = tuple(dict.fromkeys(params.labels))
    limit = paging.limit_of(params)
    found = queue.ready(snap, scope_of(params), labels, limit + 1, after)
    items, key = paging.page(found, limit, lambda item: rows.record(snap, item), lambda item: item.order)
    ends = paging.tail(contract.READY.name, params, key)
    return contract.ItemsResult(items=items, as_of_seq=snap.head(), **ends)


def owner_of(given: OwnerGiven) -> Owner:
    """The owner, which was checked to have one of its two forms."""
    if given.key is not None:
        return Owner(key=given.key, display_name=given.display_name)
    assert given.kind is not None
    assert given.id is not None
    return Owner(key=OwnerKey(kind=given.kind, id=given.id), display_name=given.display_name)


def lease_end(tx: Tx, call: Call, seconds: int | None, end: str | None) -> int | None:
    """When a lease that is asked for now ends; None is never. Raises `invalid_params`."""
    if end is None:
        if seconds is None and call.alias:
            return None  # its clients cannot renew
        seconds = LEASE_DEFAULT_SECONDS if seconds is None else seconds
        return tx.now + seconds * 1000 if seconds else None
    until = parse_rfc3339(end)
    if not tx.now < until <= tx.now + LEASE_SECONDS * 1000:
        raise wrong("/lease_expires_at", "a lease ends in the future, within 365 days", "a time within 365 days")
    return until


def _wish(tx: Tx, call: Call, params: contract.ClaimParams | contract.ClaimNextParams) -> Wish:
    until = lease_end(tx, call, params.lease_seconds, params.lease_expires_at)
    return Wish(owner_of(params.owner), until, call.alias)


@writes(contract.CLAIM, check=check_claim)
def claim(tx: Tx, call: Call, params: contract.ClaimParams) -> contract.ClaimResult:
    wish = _wish(tx, call, params)
    taken = claims.claim(tx, admitted(tx, call, params, "claim"), wish)
    if taken.item is None:
        assert taken.settled is not None
        return contract.ClaimResult(settled=rows.record(tx, taken.settled))
    return contract.ClaimResult(item=rows.record(tx, taken.item), fence=taken.item.fence)


@writes(contract.CLAIM_NEXT, check=check_claim)
def claim_next(tx: Tx, call: Call, params: contract.ClaimNextParams) -> contract.ClaimNextResult:
    labels = tuple(dict.fromkeys(params.labels))
    item, settled = claims.claim_next(tx, scope_of(params), labels, _wish(tx, call, params), call.caller)
    return contract.ClaimNextResult(
        item=None if item is None else rows.record(tx, item),
        fence=None if item is None else item.fence,
        settled_ids=settled,
        as_of_seq=tx.head(),
    )


@writes(contract.RENEW, check=check_lease)
def renew(tx: Tx, call: Call, params: contract.RenewParams) -> contract.RenewResult:
    until = lease_end(tx, call, params.lease_seconds, params.lease_expires_at)
    item = rows.find(tx, scope_of(params), params.id)
    item = claims.renew(tx, admit(tx, item, call.caller, "renew", guard=Guard(params.fence)), until)
    return contract.RenewResult(item=rows.record(tx, item), fence=item.fence)


@writes(contract.RELEASE, check=check_guard)
def release(tx: Tx, call: Call, params: contract.ReleaseParams) -> contract.ItemResult:
    found = admitted(tx, call, params, "release", guard_of(call, params, "can_release"))
    return contract.ItemResult(item=rows.record(tx, claims.release(tx, found)))


def _check_patch(params: contract.UpdateParams) -> None:
    check_guard(params)
    if params.title is not UNSET:
        check_title(params.title)


def _patch(params: contract.UpdateParams) -> dict[str, Any]:
    """The fields that are given, as they are stored."""
    names = ("priority", "completion_policy", "failed_child_join_policy", "cancelled_child_join_policy", "description")
    patch = {name: value for name in names if (value := getattr(params, name)) is not UNSET}
    if params.title is not UNSET:
        patch["title"] = params.title.strip()
    if params.labels is not UNSET:
        patch["labels"] = sorted(set(params.labels or ()))
    if params.external_refs is not UNSET:
        patch["external_refs"] = params.external_refs or []
    for name in ("due_at", "not_before", "snoozed_until"):
        value = getattr(params, name)
        if value is not UNSET:
            patch[name] = as_ms(value)
    return patch


@writes(contract.UPDATE, check=_check_patch)
def update(tx: Tx, call: Call, params: contract.UpdateParams) -> contract.ItemResult:
    found = admitted(tx, call, params, "update", guard_of(call, params, "can_update"))
    return contract.ItemResult(item=rows.record(tx, changes.update(tx, found, _patch(params))))


@writes(contract.BLOCK, check=check_guard)
def block(tx: Tx, call: Call, params: contract.BlockParams) -> contract.ItemResult:
    found = admitted(tx, call, params, "block", guard_of(call, params, "can_block"))
    return contract.ItemResult(item=rows.record(tx, changes.block(tx, found, params.note)))


@writes(contract.UNBLOCK)
def unblock(tx: Tx, call: Call, params: contract.UnblockParams) -> contract.ItemResult:
    return contract.ItemResult(item=rows.record(tx, changes.unblock(tx, admitted(tx, call, params, "unblock"))))


def ending_of(call: Call, params: contract.CloseParams | RequestCloseParams, cause: Cause) -> Ending:
    """How an item is to end. Clients of `mobkit/` know no children in the way (contract workgraph 11)."""
    incomplete = call.alias if params.even_if_incomplete is UNSET else params.even_if_incomplete
    return Ending(params.status, incomplete, cause)


@writes(contract.CLOSE, check=check_guard)
def close(tx: Tx, call: Call, params: contract.CloseParams) -> contract.CloseResult:
    found = admitted(tx, call, params, "close", guard_of(call, params, None))
    item, stopped = closing.close(tx, found, ending_of(call, params, "closed"))
    return contract.CloseResult(item=rows.record(tx, item), stopped_bindings=stopped)


def _check_added(params: contract.AddEvidenceParams) -> None:
    check_guard(params)
    check_evidence(params.evidence, "/evidence")


@writes(contract.ADD_EVIDENCE, check=_check_added)
def add_evidence(tx: Tx, call: Call, params: contract.AddEvidenceParams) -> contract.ItemResult:
    found = admitted(tx, call, params, "evidence", guard_of(call, params, "can_add_evidence"))
    signed = changes.signed(tx, params.evidence, call.caller)
    return contract.ItemResult(item=rows.record(tx, changes.add_evidence(tx, found, signed)))
