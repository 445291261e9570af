"""`workgraph/create` … `workgraph/evidence/add`: items and claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import parse_rfc3339
from interlock.lifecycle.work import CONFIRMATIONS, Evidence, Owner, OwnerGiven, OwnerKey, SelfAttest, WorkItem
from interlock.protocol import paging
from interlock.protocol import workgraph_items as contract
from interlock.protocol.limits import LEASE_DEFAULT_SECONDS, LEASE_SECONDS, PAGE_BYTES
from interlock.protocol.workgraph import GuardParams, ItemParams, ScopePageParams, ScopeParams
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import changes, claims, closing, listing, queue, rows
from interlock.stores.workgraph.changes import NewItem
from interlock.stores.workgraph.claims import Wish
from interlock.stores.workgraph.closing import Ending
from interlock.stores.workgraph.judging import Guard, act_under, judge
from interlock.stores.workgraph.rows import Item
from interlock.stores.workgraph.scope import Scope

from ..dispatch import Call, reads, writes

_encode: Final = msgspec.json.Encoder().encode
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
READY_KEY: Final = tuple[_Int64, _Int64, _Int64, str]
LIST_KEY: Final = tuple[_Int64, str]


def scope_of(params: ScopeParams | ScopePageParams) -> Scope:
    """Whose work the params are about."""
    return Scope(params.realm_id, params.namespace)


def instant(text: str | None) -> int | None:
    """A checked time as milliseconds."""
    return None if text is None else parse_rfc3339(text)


def wrong(path: str, message: str, expected: str) -> Refusal:
    """The refusal of params that are well formed one by one."""
    return Refusal("invalid_params", message, path=path, expected=expected)


def title_of(text: str) -> str:
    """A title as stored. Raises `invalid_params` for a blank one."""
    if not text.strip():
        raise wrong("/title", "a title may not be blank", "some text")
    return text.strip()


def check_reason(reason: str | None) -> str | None:
    """A reason as given. Raises `invalid_params` for a blank one."""
    if reason is not None and not reason.strip():
        raise wrong("/reason", "a reason may not be blank", "why")
    return reason


def guard_of(call: Call, params: GuardParams, capability: str | None) -> Guard:
    """What the caller brings to touch a claimed item. Raises `invalid_params`."""
    return Guard(params.fence, check_reason(params.reason), params.binding_id, capability, call.alias)


def check_evidence(evidence: Evidence, path: str) -> Evidence:
    """Evidence that anybody may give. Raises `invalid_params` for a blank or a reserved kind."""
    if not evidence.kind.strip():
        raise wrong(f"{path}/kind", "a kind may not be blank", "a word for what it is")
    if evidence.kind in CONFIRMATIONS:
        message = f"{evidence.kind} is reserved: workgraph/goal/confirm writes it"
        raise wrong(f"{path}/kind", message, "another kind")
    return evidence


def new_item(params: contract.ItemFields, title: str) -> NewItem:
    """What the params make. Raises `invalid_params`."""
    for n, evidence in enumerate(params.evidence_refs):
        check_evidence(evidence, f"/evidence_refs/{n}")
    return NewItem(
        title=title_of(title),
        description=params.description,
        status=params.status,
        priority=params.priority,
        labels=params.labels,
        policy=params.completion_policy,
        failed_join=params.failed_child_join_policy,
        cancelled_join=params.cancelled_child_join_policy,
        due_at=instant(params.due_at),
        not_before=instant(params.not_before),
        snoozed_until=instant(params.snoozed_until),
        external_refs=params.external_refs,
        evidence=params.evidence_refs,
    )


def check_beginning(status: str) -> None:
    """Raise `invalid_transition` for a status that no item begins with: judged after all that is common."""
    if status not in ("open", "blocked"):
        message = f"an item begins open or blocked, not {status}"
        raise Refusal("invalid_transition", message, reason="create_status", status=status)


@writes(contract.CREATE, creates=lambda result: result.item.id)
def create(tx: Tx, call: Call, params: contract.CreateParams) -> contract.ItemResult:
    if not isinstance(params.completion_policy, SelfAttest):
        message = "only a goal carries another policy: workgraph/goal/create"
        raise wrong("/completion_policy", message, "self_attest")
    new = new_item(params, params.title)
    if params.binding_id is not None:
        act_under(tx, scope_of(params), params.binding_id, None, "can_create")
    check_beginning(params.status)
    item = changes.create(tx, scope_of(params), new, call.caller)
    changes.tell_ready(tx, item, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


@reads(contract.GET)
def get(snap: Snapshot, call: Call, params: ItemParams) -> contract.ItemResult:
    return contract.ItemResult(item=rows.record(snap, rows.find(snap, scope_of(params), params.id)))


def filled(snap: Snapshot, found: Iterable[Item], limit: int) -> tuple[list[WorkItem], Item | None]:
    """The records that make a page, 4 MiB at most but never less than one, and the last item where there is more."""
    page: list[WorkItem] = []
    size, last = 0, None
    for item in found:
        if len(page) == limit:
            return page, last
        record = rows.record(snap, item)
        size += len(_encode(record))
        if page and size > PAGE_BYTES:
            return page, last
        page.append(record)
        last = item
    return page, None


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
    items, last = filled(snap, scanned.items, len(scanned.items))
    key = scanned.next_key if last is None else listing.key_of(last)
    return contract.ItemsResult(
        items=items,
        has_more=key is not None,
        as_of_seq=snap.head(),
        next_cursor=None if key is None else paging.next_cursor(contract.LIST.name, params, key),
    )


@reads(contract.READY)
def ready(snap: Snapshot, call: Call, params: contract.ReadyParams) -> contract.ItemsResult:
    after = paging.key_of(contract.READY.name, params, READY_KEY) or queue.FIRST
    labels = tuple(dict.fromkeys(params.labels))
    limit = paging.limit_of(params)
    items, last = filled(snap, queue.ready(snap, scope_of(params), labels, limit + 1, after), limit)
    return contract.ItemsResult(
        items=items,
        has_more=last is not None,
        as_of_seq=snap.head(),
        next_cursor=None if last is None else paging.next_cursor(contract.READY.name, params, last.order),
    )


def owner_of(given: OwnerGiven) -> Owner:
    """The owner in either form. Raises `invalid_params`."""
    if given.key is not None and given.kind is None and given.id is None:
        return Owner(key=given.key, display_name=given.display_name)
    if given.key is None and given.kind is not None and given.id is not None:
        return Owner(key=OwnerKey(kind=given.kind, id=given.id), display_name=given.display_name)
    raise wrong("/owner", "an owner is a key, or a kind and an id", "{key: {kind, id}} or {kind, id}")


def lease_end(tx: Tx, call: Call, seconds: int | None, end: str | None) -> int | None:
    """When a lease that is asked for now ends; None is never. Raises `invalid_params`."""
    if end is None:
        if seconds is None and call.alias:
            return None  # its clients cannot renew
        seconds = LEASE_DEFAULT_SECONDS if seconds is None else seconds
        return tx.now + seconds * 1000 if seconds else None
    if seconds is not None:
        raise wrong("/lease_expires_at", "say when a lease ends, or how long it is, not both", "one of the two")
    until = parse_rfc3339(end)
    if not tx.now < until <= tx.now + LEASE_SECONDS * 1000:
        raise wrong("/lease_expires_at", "a lease ends in the future, within 365 days", "a time within 365 days")
    return until


def _wish(tx: Tx, call: Call, params: contract.ClaimParams | contract.ClaimNextParams) -> Wish:
    until = lease_end(tx, call, params.lease_seconds, params.lease_expires_at)
    return Wish(owner_of(params.owner), until, call.alias)


@writes(contract.CLAIM)
def claim(tx: Tx, call: Call, params: contract.ClaimParams) -> contract.ClaimResult:
    wish = _wish(tx, call, params)
    taken = claims.claim(tx, scope_of(params), params.id, params.expected_revision, wish, call.caller)
    if taken.item is None:
        assert taken.settled is not None
        return contract.ClaimResult(settled=rows.record(tx, taken.settled))
    return contract.ClaimResult(item=rows.record(tx, taken.item), fence=taken.item.fence)


@writes(contract.CLAIM_NEXT)
def claim_next(tx: Tx, call: Call, params: contract.ClaimNextParams) -> contract.ClaimNextResult:
    labels = tuple(dict.fromkeys(params.labels))
    item, settled = claims.claim_next(tx, scope_of(params), labels, _wish(tx, call, params), call.caller)
    return contract.ClaimNextResult(
        item=None if item is None else rows.record(tx, item),
        fence=None if item is None else item.fence,
        settled_ids=settled,
        as_of_seq=tx.head(),
    )


@writes(contract.RENEW)
def renew(tx: Tx, call: Call, params: contract.RenewParams) -> contract.RenewResult:
    until = lease_end(tx, call, params.lease_seconds, params.lease_expires_at)
    item = claims.renew(tx, scope_of(params), params.id, params.fence, until, call.caller)
    return contract.RenewResult(item=rows.record(tx, item), fence=item.fence)


@writes(contract.RELEASE)
def release(tx: Tx, call: Call, params: contract.ReleaseParams) -> contract.ItemResult:
    guard = guard_of(call, params, "can_release")
    item = claims.release(tx, scope_of(params), params.id, params.expected_revision, guard, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


def _patch(params: contract.UpdateParams) -> dict[str, Any]:
    """The fields that are given, as they are stored."""
    names = ("priority", "completion_policy", "failed_child_join_policy", "cancelled_child_join_policy", "description")
    patch = {name: value for name in names if (value := getattr(params, name)) is not UNSET}
    if params.title is not UNSET:
        patch["title"] = title_of(params.title)
    if params.labels is not UNSET:
        patch["labels"] = sorted(set(params.labels or ()))
    if params.external_refs is not UNSET:
        patch["external_refs"] = params.external_refs or []
    for name in ("due_at", "not_before", "snoozed_until"):
        value = getattr(params, name)
        if value is not UNSET:
            patch[name] = instant(value)
    return patch


@writes(contract.UPDATE)
def update(tx: Tx, call: Call, params: contract.UpdateParams) -> contract.ItemResult:
    guard = guard_of(call, params, "can_update")
    patch = _patch(params)
    item = changes.update(tx, scope_of(params), params.id, params.expected_revision, patch, guard, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


@writes(contract.BLOCK)
def block(tx: Tx, call: Call, params: contract.BlockParams) -> contract.ItemResult:
    guard = guard_of(call, params, "can_block")
    scope, revision = scope_of(params), params.expected_revision
    item = changes.block(tx, scope, params.id, revision, params.note, guard, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


@writes(contract.UNBLOCK)
def unblock(tx: Tx, call: Call, params: contract.UnblockParams) -> contract.ItemResult:
    item = changes.unblock(tx, scope_of(params), params.id, params.expected_revision, call.caller)
    return contract.ItemResult(item=rows.record(tx, item))


@writes(contract.CLOSE)
def close(tx: Tx, call: Call, params: contract.CloseParams) -> contract.CloseResult:
    guard = guard_of(call, params, None)
    ending = Ending(params.status, params.even_if_incomplete)
    scope, revision = scope_of(params), params.expected_revision
    item, stopped = closing.close(tx, scope, params.id, revision, ending, guard, call.caller)
    return contract.CloseResult(item=rows.record(tx, item), stopped_bindings=stopped)


@writes(contract.ADD_EVIDENCE)
def add_evidence(tx: Tx, call: Call, params: contract.AddEvidenceParams) -> contract.ItemResult:
    evidence = check_evidence(params.evidence, "/evidence")
    guard = guard_of(call, params, "can_add_evidence")
    item = rows.find(tx, scope_of(params), params.id)
    override = judge(tx, item, call.caller, "evidence", params.expected_revision, guard)
    signed = changes.signed(tx, evidence, call.caller)
    return contract.ItemResult(item=rows.record(tx, changes.add_evidence(tx, item, signed, call.caller, override)))
