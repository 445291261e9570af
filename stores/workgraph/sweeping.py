"""What time does to work: gates open, leases elapse, deadlines pass, each told once (contract workgraph 2, 4)."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.readiness import GATED

from ..sweep import WORK_PAGE, Page
from ..tx import Snapshot, Tx
from . import rows
from .saving import elapse, save
from .scope import emit, present

GATES_DUE: Final = "SELECT n FROM items WHERE stage = 2 AND gate_at <= ? ORDER BY gate_at LIMIT ?"
LEASES_DUE: Final = "SELECT n FROM items WHERE lease_expires_at <= ? ORDER BY lease_expires_at LIMIT ?"
OVERDUE: Final = "SELECT n FROM items WHERE overdue_at <= ? ORDER BY overdue_at LIMIT ?"
NEXT_GATE: Final = "SELECT min(gate_at) FROM items WHERE stage = 2"
NEXT_LEASE: Final = "SELECT min(lease_expires_at) FROM items WHERE lease_expires_at IS NOT NULL"
NEXT_OVERDUE: Final = "SELECT min(overdue_at) FROM items WHERE overdue_at IS NOT NULL"
NOT_DUE: Final = "UPDATE items SET lease_expires_at = NULL, overdue_at = NULL, stage = 0 WHERE n = ?"
ID_OF: Final = "SELECT id FROM items WHERE n = ?"


def gates_due(tx: Tx) -> Page:
    """Items whose gate has opened."""
    return _page(tx, GATES_DUE)


def leases_due(tx: Tx) -> Page:
    """Items whose lease has elapsed."""
    return _page(tx, LEASES_DUE)


def overdue(tx: Tx) -> Page:
    """Items whose deadline has passed and was not told."""
    return _page(tx, OVERDUE)


def _page(tx: Tx, sql: str) -> Page:
    ids = [row[0] for row in tx.execute(sql, (tx.now, WORK_PAGE)).fetchall()]
    return Page(ids, len(ids) == WORK_PAGE)


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
    data = present(revision=item.revision, due_at=rows.at(item.due_at))
    emit(tx, item.scope, "item_overdue", item.id, data)
    save(tx, item, item._replace(overdue_at=None), None, "updated")


def set_aside(tx: Tx, n: int) -> str:
    """Make a row that cannot be handled not due any more; its id."""
    tx.execute(NOT_DUE, (n,))
    item_id: str = tx.execute(ID_OF, (n,)).fetchone()[0]
    return item_id


def next_due(snap: Tx | Snapshot) -> int | None:
    """When the next of these is due."""
    found = [snap.execute(sql).fetchone()[0] for sql in (NEXT_GATE, NEXT_LEASE, NEXT_OVERDUE)]
    return min((instant for instant in found if instant is not None), default=None)
