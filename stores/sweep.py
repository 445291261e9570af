"""What time does to mail: expiry and retention, one page per transaction (contract ledger 2.4, 2.8; DESIGN 5.3)."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.lifecycle import delivery
from interlock.lifecycle.mail import DAEMON, Pruned
from interlock.lifecycle.times import rfc3339

from . import feed, messages, moves, presence
from .messages import COLUMNS, Mail
from .tx import Snapshot, Tx

PAGE: Final = 200
WORK_PAGE: Final = 50
"""Of rows of the work graph, which have many indexes: 200 leases that elapse would hold the writer for 30 ms."""

DUE: Final = "SELECT id FROM messages WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
BY_ID: Final = f"SELECT {COLUMNS} FROM messages WHERE id = ?"
NOT_DUE: Final = "UPDATE messages SET due_at = NULL WHERE id = ?"
IDENTITY: Final = "SELECT msg_id, to_role FROM messages WHERE id = ?"
NEXT_DUE: Final = "SELECT min(due_at) FROM messages WHERE due_at IS NOT NULL"
ROLES_WITH_NOBODY: Final = (
    "SELECT name FROM roles WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE role = name) ORDER BY name"
)
STALE_QUEUED: Final = (
    "SELECT id, enqueued_at FROM messages WHERE state = 'queued' AND to_role = ? AND kind = ? AND requeued = 0"
    " ORDER BY id LIMIT ?"
)
BODIES_BEFORE: Final = (
    "SELECT id FROM messages WHERE state = 'acked' AND has_body = 1 AND settled_at < ? ORDER BY settled_at, id LIMIT ?"
)
CLEAR_BODY: Final = "UPDATE messages SET body = NULL, has_body = 2 WHERE id = ?"
FINAL_BEFORE: Final = (
    "SELECT id, op_id, task FROM messages WHERE settled_at IS NOT NULL AND settled_at < ?"
    " ORDER BY settled_at, id LIMIT ?"
)
REMOVE_MESSAGE: Final = "DELETE FROM messages WHERE id = ?"
REMOVE_OP: Final = "DELETE FROM ops WHERE op_id = ?"
TASK_REMAINS: Final = "SELECT 1 FROM messages WHERE task = ? LIMIT 1"
REMOVE_VERDICT: Final = "DELETE FROM verdicts WHERE task = ?"
OLD_OPS: Final = "SELECT op_id FROM ops WHERE subject IS NULL AND at_ms < ? ORDER BY at_ms LIMIT ?"
OLD_FAULTS: Final = (
    "SELECT id, op_id FROM faults WHERE state <> 'open' AND updated_at < ? ORDER BY updated_at, id LIMIT ?"
)
REMOVE_FAULT: Final = "DELETE FROM faults WHERE id = ?"


class Page(NamedTuple):
    """Rows to act on, and whether there may be more behind them."""

    ids: list[int]
    more: bool


def due_now(tx: Tx, sql: str, size: int) -> Page:
    """The rows that a statement finds due, a page of them."""
    ids = [row[0] for row in tx.execute(sql, (tx.now, size)).fetchall()]
    return Page(ids, len(ids) == size)


def earliest(snap: Tx | Snapshot, sql: str) -> int | None:
    """The one instant that a statement asks for."""
    instant: int | None = snap.execute(sql).fetchone()[0]
    return instant


def due_page(tx: Tx) -> Page:
    """Rows that are due now, earliest first."""
    return due_now(tx, DUE, PAGE)


def expire(tx: Tx, row_id: int) -> None:
    """Expire one due row."""
    mail = _by_id(tx, row_id)
    messages.move(tx, mail, "expired", reason=delivery.expiry_reason(mail.kind), by=DAEMON)


def expire_unfetched(tx: Tx, row_id: int) -> None:
    """Expire one row that an absent role never fetched."""
    messages.move(tx, _by_id(tx, row_id), "expired", reason="requeue_ttl", by=DAEMON)


def _by_id(tx: Tx, row_id: int) -> Mail:
    return Mail._make(tx.execute(BY_ID, (row_id,)).fetchone())


def set_aside(tx: Tx, row_id: int) -> tuple[str, str]:
    """Make a row that cannot be handled not due any more; its msg_id and role."""
    tx.execute(NOT_DUE, (row_id,))
    msg_id, role = tx.execute(IDENTITY, (row_id,)).fetchone()
    return msg_id, role


def next_due(snap: Tx | Snapshot) -> int | None:
    """When the next row is due."""
    return earliest(snap, NEXT_DUE)


def absent_roles(snap: Tx | Snapshot) -> list[str]:
    """Roles with nobody attached."""
    return [row[0] for row in snap.execute(ROLES_WITH_NOBODY)]


def stale_page(tx: Tx, role: str, ttl_ms: int) -> Page:
    """What an absent role never fetched within `requeue_ttl_secs`; nothing where somebody has come meanwhile."""
    if tx.execute(presence.ANYBODY, (role,)).fetchone():
        return Page([], False)
    found = (
        row for kind in moves.KINDS if kind != "note" for row in tx.execute(STALE_QUEUED, (role, kind, PAGE)).fetchall()
    )
    due = sorted(row_id for row_id, enqueued_at in found if enqueued_at + ttl_ms <= tx.now)[:PAGE]
    return Page(due, len(due) == PAGE)


def prune_bodies(tx: Tx, before: int, limit: int) -> tuple[int, bool]:
    """Clear the bodies of rows acked strictly before; how many, and whether there is more."""
    ids = [row[0] for row in tx.execute(BODIES_BEFORE, (before, limit + 1)).fetchall()]
    for row_id in ids[:limit]:
        tx.execute(CLEAR_BODY, (row_id,))
    return _told(tx, "bodies", before, min(len(ids), limit)), len(ids) > limit


def prune_events(tx: Tx, before: int, limit: int) -> tuple[int, bool]:
    """Remove events written strictly before and move the floor; how many, and whether there is more."""
    pruned, more = feed.prune_events(tx, before, limit)
    return _told(tx, "events", before, pruned), more


def prune_rows(tx: Tx, before: int, limit: int) -> tuple[int, bool]:
    """Remove final rows settled strictly before, with their op ids and the verdicts that nothing is left of."""
    rows = tx.execute(FINAL_BEFORE, (before, limit + 1)).fetchall()
    for row_id, op_id, task in rows[:limit]:
        tx.execute(REMOVE_MESSAGE, (row_id,))
        if op_id is not None:
            tx.execute(REMOVE_OP, (op_id,))
        if task is not None and tx.execute(TASK_REMAINS, (task,)).fetchone() is None:
            tx.execute(REMOVE_VERDICT, (task,))
    return _told(tx, "rows", before, min(len(rows), limit)), len(rows) > limit


def _told(tx: Tx, what: str, before: int, count: int) -> int:
    if count:
        data = Pruned(what=what, before=rfc3339(before), count=count)  # type: ignore[arg-type]
        tx.emit("ledger", "ledger_pruned", what, data)
    return count


def prune_ops(tx: Tx, before: int, limit: int) -> tuple[int, bool]:
    """Forget op ids that created nothing which is kept, from strictly before."""
    rows = tx.execute(OLD_OPS, (before, limit)).fetchall()
    for row in rows:
        tx.execute(REMOVE_OP, row)
    return len(rows), len(rows) == limit


def prune_faults(tx: Tx, before: int, limit: int) -> tuple[int, bool]:
    """Remove faults that were closed strictly before, with their op ids."""
    rows = tx.execute(OLD_FAULTS, (before, limit)).fetchall()
    for row_id, op_id in rows:
        tx.execute(REMOVE_FAULT, (row_id,))
        if op_id is not None:
            tx.execute(REMOVE_OP, (op_id,))
    return len(rows), len(rows) == limit
