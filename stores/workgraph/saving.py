"""Writing items: how a row is stored and what becomes of it is written.

All goes through `save`, which keeps the queue, the labels' rows and the feed's `item_ready` equal to the row. But for a
claim, which is one conditional statement, and a renewal (`claims`), and a bad row that is set aside (`sweeping`).
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from interlock.lifecycle import readiness
from interlock.lifecycle.readiness import GATED, NEVER, READY, MovedBy
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_text
from interlock.lifecycle.work import TERMINAL

from ..tx import Tx
from . import rows
from .rows import Item
from .scope import emit, present

NEW: Final = Item._fields[1:]
INSERT: Final = f"INSERT INTO items({', '.join(NEW)}) VALUES ({', '.join('?' * len(NEW))})"
COUNTS: Final = (
    *("unresolved_blockers", "join_state", "children_active", "children_completed", "children_failed"),
    *("children_cancelled", "stage", "overdue_at"),
)
"""What other items and time change: no transition, so no revision."""
FIXED: Final = ("n", "id", "realm_id", "namespace", "created_at")
SAVED: Final = tuple(name for name in Item._fields if name not in FIXED)
SAVE: Final = f"UPDATE items SET {' = ?, '.join(SAVED)} = ? WHERE n = ?"
SAVE_COUNTS: Final = f"UPDATE items SET {' = ?, '.join(COUNTS)} = ? WHERE n = ?"
SET_CONTENT: Final = (
    "INSERT INTO item_content(item, description, external_refs) VALUES (?, ?, ?) ON CONFLICT(item) DO UPDATE SET"
    " description = excluded.description, external_refs = excluded.external_refs"
)
ADD_EVIDENCE: Final = "INSERT INTO item_evidence(item, pos, data) VALUES (?, ?, ?)"
ADD_LABEL: Final = (
    "INSERT INTO item_labels(item, label, realm_id, namespace, status, stage, priority, due_order, created_at,"
    " updated_at, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
REMOVE_LABELS: Final = "DELETE FROM item_labels WHERE item = ?"

ON_LABELS: Final = ("status", "stage", "priority", "due_order", "updated_at")
SAVE_LABELS: Final = f"UPDATE item_labels SET {' = ?, '.join(ON_LABELS)} = ? WHERE item = ?"

_saved: Final = itemgetter(*map(Item._fields.index, SAVED))
_counts: Final = itemgetter(*map(Item._fields.index, COUNTS))
_on_labels: Final = itemgetter(*map(Item._fields.index, ON_LABELS))


def insert(tx: Tx, item: Item) -> Item:
    """Store a new row, derived already, with its labels; the store gives it its number."""
    n = tx.execute(INSERT, item[1:]).lastrowid
    assert n is not None
    item = item._replace(n=n)
    _put_labels(tx, item)
    return item


def derive(item: Item, now: int) -> Item:
    """The row with what follows from its other columns at `now`."""
    terminal = item.status in TERMINAL
    gate = readiness.gate_at(item.not_before, item.snoozed_until)
    join = readiness.join_state(
        item.children_active, item.children_failed, item.children_cancelled, item.failed_join, item.cancelled_join
    )
    return item._replace(
        join_state=join,
        due_order=NEVER if item.due_at is None else item.due_at,
        overdue_at=None if terminal else item.overdue_at,
        gate_at=gate,
        stage=readiness.stage(item.status, item.unresolved_blockers, join, gate, now),
    )


def save(tx: Tx, before: Item, after: Item, caller: Caller | None, cause: MovedBy, by: str | None = None) -> Item:
    """Write what a command made of a row, and say so where that has made it ready. Returns the row as stored.

    `cause` is what made it ready unless time alone had done so before the command came; `by` is the item that did.
    """
    after = derive(after, tx.now)
    if after != before:
        statement, values = (SAVE_COUNTS, _counts) if after.revision == before.revision else (SAVE, _saved)
        tx.execute(statement, (*values(after), after.n))
        _save_labels(tx, before, after)
    if after.stage == READY != before.stage:
        data = present(revision=after.revision, cause=_cause(before, tx.now, cause), by=by)
        emit(tx, after.scope, "item_ready", after.id, data, caller)
    return after


def _cause(before: Item, now: int, cause: MovedBy) -> MovedBy:
    if before.phase(now) == "elapsed":
        return "lease_expired"
    if before.stage == GATED and readiness.is_open(before.gate_at, now):
        return "gate_opened"
    return cause


def _save_labels(tx: Tx, before: Item, after: Item) -> None:
    if after.labels != before.labels:
        tx.execute(REMOVE_LABELS, (after.n,))
        _put_labels(tx, after)
    elif after.labels is not None and _on_labels(after) != _on_labels(before):
        tx.execute(SAVE_LABELS, (*_on_labels(after), after.n))


def _put_labels(tx: Tx, item: Item) -> None:
    for label in rows.labels_of(item):
        row = (item.n, label, item.realm_id, item.namespace, item.status, item.stage, item.priority, item.due_order)
        tx.execute(ADD_LABEL, (*row, item.created_at, item.updated_at, item.id))


def touched(item: Item, now: int, **changes: Any) -> Item:
    """The row one transition later."""
    return item._replace(revision=item.revision + 1, updated_at=now, **changes)


UNCLAIMED: Final[dict[str, Any]] = {
    **dict.fromkeys(("owner_kind", "owner_id", "owner_name", "claimed_at", "lease_expires_at")),
    "alias_claim": 0,
}
"""The columns of a claim, cleared. The fence stays: it is never used again."""


def elapse(tx: Tx, item: Item, caller: Caller | None) -> Item:
    """The row after its elapsed lease was recorded, as every transition does first (contract workgraph 2)."""
    if item.phase(tx.now) != "elapsed":
        return item
    data = present(
        revision=item.revision + 1,
        owner=rows.owner_of(item),
        fence=item.fence,
        cause="lease_expired",
        lease_expires_at=as_text(item.lease_expires_at),
    )
    emit(tx, item.scope, "item_released", item.id, data, caller)
    return touched(item, tx.now, status="open", **UNCLAIMED)
