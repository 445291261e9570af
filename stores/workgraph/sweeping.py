"""What time does to work: gates open, leases elapse, deadlines pass, each told once (contract workgraph 2, 4)."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.readiness import GATED
from interlock.lifecycle.times import as_text

from ..sweep import WORK_PAGE, Page, due_now, earliest
from ..tx import Snapshot, Tx
from . import rows
from .saving import elapse, save
from .scope import Scope, emit, present

BEHIND: Final = 64
"""So many leases, or gates, due at once in one scope mean that the sweeper has not come that far."""

GATES_DUE: Final = "SELECT n FROM items WHERE stage = 2 AND gate_at <= ? ORDER BY gate_at LIMIT ?"
LEASES_DUE: Final = "SELECT n FROM items WHERE lease_expires_at <= ? ORDER BY lease_expires_at LIMIT ?"
OVERDUE: Final = "SELECT n FROM items WHERE overdue_at <= ? ORDER BY overdue_at LIMIT ?"
NEXT_GATE: Final = "SELECT min(gate_at) FROM items WHERE stage = 2"
NEXT_LEASE: Final = "SELECT min(lease_expires_at) FROM items WHERE lease_expires_at IS NOT NULL"
NEXT_OVERDUE: Final = "SELECT min(overdue_at) FROM items WHERE overdue_at IS NOT NULL"
LEASES_DUE_HERE: Final = (
    "SELECT n FROM items WHERE lease_expires_at <= ? AND realm_id || '' = ? AND namespace = ?"
    " ORDER BY lease_expires_at LIMIT ?"
)
GATES_DUE_HERE: Final = (
    "SELECT n FROM items WHERE stage = 2 AND gate_at <= ? AND realm_id || '' = ? AND namespace = ?"
    " ORDER BY gate_at LIMIT ?"
)
NO_LEASE: Final = "UPDATE items SET lease_expires_at = NULL WHERE n = ?"
NO_GATE: Final = "UPDATE items SET stage = 0 WHERE n = ?"
NO_GATE_LABELS: Final = "UPDATE item_labels SET stage = 0 WHERE item = ?"
NO_DEADLINE: Final = "UPDATE items SET overdue_at = NULL WHERE n = ?"


def gates_due(tx: Tx) -> Page:
    """Items whose gate has opened."""
    return due_now(tx, GATES_DUE, WORK_PAGE)


def leases_due(tx: Tx) -> Page:
    """Items whose lease has elapsed."""
    return due_now(tx, LEASES_DUE, WORK_PAGE)


def overdue(tx: Tx) -> Page:
    """Items whose deadline has passed and was not told."""
    return due_now(tx, OVERDUE, WORK_PAGE)


def open_gate(tx: Tx, n: int) -> None:
    """Move an item to those that are ready. Raises ValueError where it would be due for ever."""
    item = rows.by_n(tx, n)
    if save(tx, item, item, None, "gate_opened").stage == GATED:
        raise ValueError("its gates are not the one it is due by")


def end_lease(tx: Tx, n: int) -> None:
    """Record that nobody holds an item any more. Raises ValueError where it would be due for ever."""
    item = rows.by_n(tx, n)
    if item.phase(tx.now) != "elapsed":
        raise ValueError("its lease is of no claim")
    save(tx, item, elapse(tx, item, None), None, "lease_expired")


def tell_overdue(tx: Tx, n: int) -> None:
    """Say that a deadline has passed."""
    item = rows.by_n(tx, n)
    data = present(revision=item.revision, due_at=as_text(item.due_at))
    emit(tx, item.scope, "item_overdue", item.id, data)
    save(tx, item, item._replace(overdue_at=None), None, "updated")


def catch_up(tx: Tx, scope: Scope) -> None:
    """Where so much is due in a scope that asking for the next item would read it again and again: write some down.

    The same that the sweeper does, a page at a time, for whoever claims before it has come that far.
    """
    for sql, act in ((LEASES_DUE_HERE, end_lease), (GATES_DUE_HERE, open_gate)):
        due = tx.execute(sql, (tx.now, *scope, BEHIND)).fetchall()
        if len(due) == BEHIND:
            for (n,) in due:
                act(tx, n)


def forget_lease(tx: Tx, n: int) -> str:
    """Let the claim of a row that cannot be handled have no end; its item's id."""
    tx.execute(NO_LEASE, (n,))
    return _id_of(tx, n)


def forget_gate(tx: Tx, n: int) -> str:
    """Take a row that cannot be handled out of the queue; its item's id."""
    tx.execute(NO_GATE, (n,))
    tx.execute(NO_GATE_LABELS, (n,))
    return _id_of(tx, n)


def forget_deadline(tx: Tx, n: int) -> str:
    """Let the deadline of a row that cannot be handled not be told; its item's id."""
    tx.execute(NO_DEADLINE, (n,))
    return _id_of(tx, n)


def _id_of(tx: Tx, n: int) -> str:
    return rows.ids_of(tx, [n])[0]


def next_lease(snap: Tx | Snapshot) -> int | None:
    """When the next lease elapses."""
    return earliest(snap, NEXT_LEASE)


def next_gate(snap: Tx | Snapshot) -> int | None:
    """When the next gate opens."""
    return earliest(snap, NEXT_GATE)


def next_overdue(snap: Tx | Snapshot) -> int | None:
    """When the next deadline passes."""
    return earliest(snap, NEXT_OVERDUE)
