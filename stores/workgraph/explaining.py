"""Why an item is not ready, and what would change that (contract workgraph 1, Explanation)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interlock.lifecycle import completion
from interlock.lifecycle.bounds import EXPLAINED
from interlock.lifecycle.readiness import SETTLES
from interlock.lifecycle.times import as_text, rfc3339
from interlock.lifecycle.work import (
    TERMINAL,
    Completion,
    ExplainedBinding,
    Explanation,
    Wait,
    WaitTotals,
)

from ..tx import Snapshot
from . import bindings, rows
from .rows import Item

_BLOCKERS: Final = (
    "SELECT i.id, i.title, i.status, e.on_failure FROM edges AS e JOIN items AS i ON i.n = e.from_item"
    " WHERE e.to_item = ? AND e.kind = 'blocks' AND i.status <> 'completed'"
    " AND (e.on_failure = 'block' OR i.status NOT IN ('cancelled', 'failed'))"
)
BLOCKERS: Final = f"{_BLOCKERS} ORDER BY e.from_item LIMIT ?"
CHILDREN: Final = (
    "SELECT i.id, i.title, i.status FROM edges AS e JOIN items AS i ON i.n = e.from_item"
    " WHERE e.to_item = ? AND e.kind = 'parent' AND (i.status IN ('open', 'in_progress', 'blocked')"
    " OR (i.status = 'failed' AND ?) OR (i.status = 'cancelled' AND ?)) ORDER BY e.from_item LIMIT ?"
)


def explain(snap: Snapshot, item: Item) -> Explanation:
    """Everything that stands between an item and its readiness, judged at the snapshot's instant."""
    policy = rows.policy_of(item.policy)
    missing = _missing(item)
    return Explanation(
        item_id=item.id,
        status=item.status,
        revision=item.revision,
        judged_at=rfc3339(snap.now),
        as_of_seq=snap.head(),
        ready=item.ready(snap.now),
        waits=list(_waits(snap, item)),
        totals=WaitTotals(
            unresolved_blockers=item.unresolved_blockers,
            children_active=item.children_active,
            children_failed=item.children_failed,
            children_cancelled=item.children_cancelled,
        ),
        next_change_at=as_text(_next_change(item, snap.now)),
        completion=Completion(satisfied=missing is None, policy=policy, missing=missing),
        attention=[
            ExplainedBinding(binding_id=row.binding_id, status=bindings.status_of(row), target_key=row.target_key)
            for row in bindings.of_item(snap, item.n)
        ],
    )


def _missing(item: Item) -> str | None:
    """What lacks before the item can be completed as it is."""
    if item.status in TERMINAL:
        return f"it is {item.status} already"
    lacking = [completion.missing(rows.policy_of(item.policy), rows.confirmations_of(item))]
    if item.children_active:
        lacking.append(f"{item.children_active} open children (or even_if_incomplete)")
    if item.unresolved_blockers:
        lacking.append(f"{item.unresolved_blockers} unresolved blockers (or even_if_incomplete)")
    return "; ".join(one for one in lacking if one) or None


def _next_change(item: Item, now: int) -> int | None:
    """The earliest instant at which time alone changes a verdict: a gate, the lease, the deadline."""
    if item.status in TERMINAL:
        return None
    instants = (item.not_before, item.snoozed_until, item.lease_expires_at, item.due_at)
    return min((instant for instant in instants if instant is not None and instant > now), default=None)


def _waits(snap: Snapshot, item: Item) -> Iterator[Wait]:
    """In the contract's order; none exactly where the item is ready."""
    if item.status in TERMINAL:
        yield Wait(
            kind="terminal",
            text=f"it is {item.status}, for ever",
            remedy="workgraph/create a new item",
            status=item.status,
            terminal_at=as_text(item.terminal_at),
        )
        return
    if item.status == "blocked":
        says = "it is blocked" if item.block_note is None else f"it is blocked: {item.block_note}"
        yield Wait(kind="blocked", text=says, remedy="workgraph/unblock", note=item.block_note)
    if item.phase(snap.now) == "live":
        yield _claimed(item)
    yield from _blockers(snap, item)
    yield from _children(snap, item)
    settles = SETTLES.get(item.join_state)
    if settles is not None:
        yield Wait(
            kind="settles",
            text=f"its children have decided: the next claim closes it as {settles}",
            remedy="workgraph/claim, or another join policy with workgraph/update",
            status=settles,
        )
    yield from _gates(item, snap.now)


def _claimed(item: Item) -> Wait:
    until = as_text(item.lease_expires_at)
    owner = rows.owner_of(item)
    return Wait(
        kind="claimed",
        text=f"{owner.key} holds it" + (f" until {until}" if until else " without an end"),
        remedy="workgraph/release by its holder, or by the operator with a reason",
        owner=owner,
        fence=item.fence,
        lease_expires_at=until,
    )


def _blockers(snap: Snapshot, item: Item) -> Iterator[Wait]:
    if not item.unresolved_blockers:
        return
    for item_id, title, status, on_failure in snap.execute(BLOCKERS, (item.n, EXPLAINED)):
        stuck = status in TERMINAL
        yield Wait(
            kind="blocker",
            text=f"it waits for {title!r}, which is {status}",
            remedy="workgraph/link with on_failure release, or workgraph/unlink"
            if stuck
            else "workgraph/close that one as completed",
            item_id=item_id,
            title=title,
            status=status,
            on_failure=on_failure,
            stuck=stuck,
        )


def _children(snap: Snapshot, item: Item) -> Iterator[Wait]:
    """Active children, and those failed or cancelled that hold the join."""
    if item.join_state != "waiting":
        return
    holds = (item.failed_join == "require_success", item.cancelled_join == "require_success")
    for item_id, title, status in snap.execute(CHILDREN, (item.n, *holds, EXPLAINED)):
        ended = status in TERMINAL
        yield Wait(
            kind="child",
            text=f"its child {title!r} is {status}",
            remedy="another join policy with workgraph/update, or workgraph/unlink"
            if ended
            else "workgraph/close that one",
            item_id=item_id,
            title=title,
            status=status,
        )


def _gates(item: Item, now: int) -> Iterator[Wait]:
    for name, gate in (("not_before", item.not_before), ("snoozed_until", item.snoozed_until)):
        if gate is not None and gate > now:
            yield Wait(
                kind="gate",
                text=f"it may not be begun before {as_text(gate)}",
                remedy=f"workgraph/update with another {name}",
                field_=name,  # type: ignore[arg-type]
                until=as_text(gate),
            )
