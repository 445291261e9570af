"""Making and changing items (contract workgraph 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from interlock.lifecycle.completion import counted
from interlock.lifecycle.readiness import NEVER, PRIORITIES, READY
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_text
from interlock.lifecycle.work import (
    EVIDENCE_REFS,
    CompletionPolicy,
    Evidence,
    ExternalRef,
    JoinPolicy,
    Priority,
    Status,
)

from ..tx import Tx
from . import rows
from .judging import Admitted
from .rows import Item
from .saving import ADD_EVIDENCE, SET_CONTENT, UNCLAIMED, derive, elapse, insert, save, touched
from .scope import Scope, emit, present


class NewItem(NamedTuple):
    """What a new item is made of; instants are milliseconds."""

    title: str
    description: str | None
    status: Status
    priority: Priority
    labels: Sequence[str]
    policy: CompletionPolicy
    failed_join: JoinPolicy
    cancelled_join: JoinPolicy
    due_at: int | None
    not_before: int | None
    snoozed_until: int | None
    external_refs: Sequence[ExternalRef]
    evidence: Sequence[Evidence]


def create(tx: Tx, scope: Scope, new: NewItem, caller: Caller) -> Item:
    """Store a new item and say so. What else is made with it comes next, then `tell_ready`."""
    labels = sorted(set(new.labels))
    content = new.description is not None or bool(new.external_refs)
    item = derive(_new_row(tx, scope, new, labels, content), tx.now)
    item = insert(tx, item)
    if content:
        _put_content(tx, item.n, new.description, new.external_refs)
    for pos, evidence in enumerate(new.evidence, 1):
        tx.execute(ADD_EVIDENCE, (item.n, pos, rows.encoded(signed(tx, evidence, caller))))
    data = present(
        revision=1,
        status=item.status,
        title=item.title,
        priority=new.priority,
        labels=labels,
        completion_policy=new.policy,
    )
    emit(tx, scope, "item_created", item.id, data, caller)
    return item


def tell_ready(tx: Tx, item: Item, caller: Caller) -> None:
    """Say of a new item that it is ready, if it is: after everything that was made with it (contract workgraph 10)."""
    if item.stage == READY:
        emit(tx, item.scope, "item_ready", item.id, {"revision": 1, "cause": "created"}, caller)


def _new_row(tx: Tx, scope: Scope, new: NewItem, labels: list[str], content: bool) -> Item:
    return Item(
        n=0,
        id=tx.new_id("work"),
        realm_id=scope.realm_id,
        namespace=scope.namespace,
        title=new.title,
        status=new.status,
        priority=PRIORITIES.index(new.priority),
        labels=rows.encoded(labels) if labels else None,
        policy=rows.encoded(new.policy),
        failed_join=new.failed_join,
        cancelled_join=new.cancelled_join,
        unresolved_blockers=0,
        join_state="satisfied",
        children_active=0,
        children_completed=0,
        children_failed=0,
        children_cancelled=0,
        owner_kind=None,
        owner_id=None,
        owner_name=None,
        fence=0,
        alias_claim=0,
        claimed_at=None,
        lease_expires_at=None,
        due_at=new.due_at,
        due_order=NEVER,
        overdue_at=new.due_at,
        not_before=new.not_before,
        snoozed_until=new.snoozed_until,
        gate_at=None,
        stage=0,
        block_note=None,
        has_content=int(content),
        evidence=len(new.evidence),
        confirmations=None,
        content_revision=1,
        revision=1,
        created_at=tx.now,
        updated_at=tx.now,
        terminal_at=None,
    )


def _put_content(tx: Tx, n: int, description: str | None, refs: Sequence[ExternalRef]) -> None:
    tx.execute(SET_CONTENT, (n, description, rows.encoded(refs) if refs else None))


def signed(tx: Tx, evidence: Evidence, caller: Caller) -> Evidence:
    """Evidence as stored: what only the daemon may say is dropped, and when and by whom is put in."""
    by = caller.op_role or caller.principal
    return Evidence(
        kind=evidence.kind,
        id=evidence.id,
        label=evidence.label,
        summary=evidence.summary,
        at=as_text(tx.now),
        by=by,
    )


CONTENT: Final = frozenset({"title", "description", "external_refs"})
"""Fields whose change voids the confirmations of what was there before."""


def update(tx: Tx, admitted: Admitted, patch: dict[str, Any]) -> Item:
    """Change fields; `patch` holds stored values (instants in ms, None clears). Raises `invalid_params`.

    What changes nothing answers the item as it is, without an event.
    """
    before, caller = admitted.item, admitted.caller
    present_values = _present_values(tx, before)
    policy = patch.pop("completion_policy", present_values["completion_policy"])
    if policy != present_values["completion_policy"]:
        raise Refusal(
            "invalid_params",
            "update cannot change the policy: workgraph/policy/escalate makes it stricter",
            path="/completion_policy",
            expected="the present policy",
        )
    changed = {name: value for name, value in patch.items() if value != present_values[name]}
    if not changed:
        return before
    item = elapse(tx, before, caller)
    after = _patched(tx, touched(item, tx.now), changed, present_values)
    data = present(
        revision=after.revision,
        changed={name: _shown(name, value) for name, value in changed.items() if value is not None and value != []},
        cleared=[name for name, value in changed.items() if value is None or value == []],
        override=admitted.override,
    )
    emit(tx, item.scope, "item_updated", item.id, data, caller)
    return save(tx, before, after, caller, "updated")


def _present_values(tx: Tx, item: Item) -> dict[str, Any]:
    description, refs = rows.content_of(tx, item)
    return {
        "title": item.title,
        "description": description,
        "priority": PRIORITIES[item.priority],
        "labels": list(rows.labels_of(item)),
        "completion_policy": rows.policy_of(item.policy),
        "failed_child_join_policy": item.failed_join,
        "cancelled_child_join_policy": item.cancelled_join,
        "due_at": item.due_at,
        "not_before": item.not_before,
        "snoozed_until": item.snoozed_until,
        "external_refs": refs,
    }


def _patched(tx: Tx, item: Item, changed: dict[str, Any], present_values: dict[str, Any]) -> Item:
    """The row with the changed fields; the content table is written here."""
    values = {**present_values, **changed}
    if changed.keys() & {"description", "external_refs"}:
        _put_content(tx, item.n, values["description"], values["external_refs"])
        item = item._replace(has_content=1)
    if changed.keys() & CONTENT:
        item = item._replace(content_revision=item.revision, confirmations=None)
    if "due_at" in changed:
        item = item._replace(due_at=values["due_at"], overdue_at=values["due_at"])
    return item._replace(
        title=values["title"],
        priority=PRIORITIES.index(values["priority"]),
        labels=rows.encoded(values["labels"]) if values["labels"] else None,
        failed_join=values["failed_child_join_policy"],
        cancelled_join=values["cancelled_child_join_policy"],
        not_before=values["not_before"],
        snoozed_until=values["snoozed_until"],
    )


_INSTANTS: Final = frozenset({"due_at", "not_before", "snoozed_until"})


def _shown(name: str, value: Any) -> Any:
    """A changed value in an event: a description may be large, so its size stands for it."""
    if name == "description":
        return {"bytes": len(value.encode())}
    return as_text(value) if name in _INSTANTS else value


def block(tx: Tx, admitted: Admitted, note: str | None) -> Item:
    """Say that an item cannot go on; its claim ends."""
    before, caller = admitted.item, admitted.caller
    live = before.phase(tx.now) == "live"
    item = elapse(tx, before, caller)
    after = touched(item, tx.now, status="blocked", block_note=note, **UNCLAIMED)
    fence = before.fence if live else None
    data = present(revision=after.revision, note=note, fence=fence, override=admitted.override)
    emit(tx, item.scope, "item_blocked", item.id, data, caller)
    return save(tx, before, after, caller, "updated")


def unblock(tx: Tx, admitted: Admitted) -> Item:
    """Let a blocked item go on."""
    before, caller = admitted.item, admitted.caller
    after = touched(before, tx.now, status="open", block_note=None)
    data = present(revision=after.revision, note=before.block_note)
    emit(tx, before.scope, "item_unblocked", before.id, data, caller)
    return save(tx, before, after, caller, "unblocked")


def add_evidence(tx: Tx, admitted: Admitted, evidence: Evidence) -> Item:
    """Append evidence as it is to be stored; a confirmation counts. Raises `too_large`."""
    before, caller = admitted.item, admitted.caller
    if before.evidence >= EVIDENCE_REFS:
        raise Refusal(
            "too_large", f"{before.id} has {EVIDENCE_REFS} pieces of evidence", path="/evidence", max=EVIDENCE_REFS
        )
    item = elapse(tx, before, caller)
    after = touched(item, tx.now, evidence=item.evidence + 1)
    if evidence.confirmation_kind is not None:
        counts = counted(rows.confirmations_of(item), evidence.confirmation_kind, evidence.confirming_owner_key)
        after = after._replace(confirmations=rows.encoded(counts))
    tx.execute(ADD_EVIDENCE, (item.n, after.evidence, rows.encoded(evidence)))
    told = structs.replace(evidence, summary=None)
    data = present(revision=after.revision, evidence=told, override=admitted.override)
    emit(tx, item.scope, "evidence_added", item.id, data, caller)
    return save(tx, before, after, caller, "updated")


def escalate(tx: Tx, admitted: Admitted, policy: CompletionPolicy, binding_id: str) -> Item:
    """Put a stricter policy, judged already, in the place of the present one."""
    before, caller = admitted.item, admitted.caller
    item = elapse(tx, before, caller)
    after = touched(item, tx.now, policy=rows.encoded(policy))
    data = present(
        revision=after.revision,
        previous=rows.policy_of(before.policy),
        completion_policy=policy,
        binding_id=binding_id,
    )
    emit(tx, item.scope, "policy_escalated", item.id, data, caller)
    return save(tx, before, after, caller, "updated")
