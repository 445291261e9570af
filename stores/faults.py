"""Faults: what went wrong and waits for an operator; at most one open per (subject, kind) (contract ledger 1.5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Fault, FaultState
from interlock.lifecycle.times import rfc3339

from .tx import Snapshot, Tx

_FIELDS: Final = (
    "id, fault_id, kind, state, reason, subject, task_id, msg_id, session_id, role, hook, generation, seq, detail,"
    " created_at, updated_at"
)
OPEN_ONE: Final = f"SELECT {_FIELDS} FROM faults WHERE state = 'open' AND subject = ? AND kind = ?"
BY_ID: Final = f"SELECT {_FIELDS} FROM faults WHERE fault_id = ?"
OPEN_OF_TASK: Final = f"SELECT {_FIELDS} FROM faults WHERE state = 'open' AND task_id = ? ORDER BY id"
INSERT: Final = (
    "INSERT INTO faults(fault_id, kind, state, reason, subject, task_id, msg_id, session_id, role, hook, generation,"
    " seq, detail, op_id, created_at, updated_at) VALUES (?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
MOVE: Final = "UPDATE faults SET state = ?, reason = ?, updated_at = ? WHERE id = ?"
STANDING: Final = (
    f"SELECT {_FIELDS} FROM faults WHERE subject = ? AND kind = ? AND state IN ('open', 'acked') ORDER BY id"
)
COUNT_OPEN: Final = "SELECT count(*) FROM faults WHERE state = 'open'"
_WHERE: Final = (
    " id > :after AND (:task_id IS NULL OR task_id = :task_id) AND (:session_id IS NULL OR session_id = :session_id)"
    " AND (:role IS NULL OR role = :role) AND (:kind IS NULL OR kind = :kind) AND (:state IS NULL OR state = :state)"
    " ORDER BY id LIMIT :limit"
)
PAGE: Final = f"SELECT {_FIELDS} FROM faults WHERE{_WHERE}"
PAGE_OF_TASK: Final = f"SELECT {_FIELDS} FROM faults WHERE task_id = :task_id AND{_WHERE}"
PAGE_BY_STATE: Final = f"SELECT {_FIELDS} FROM faults WHERE state = :state AND{_WHERE}"


def _fault(row: Sequence[Any]) -> Fault:
    return Fault(
        fault_id=row[1],
        kind=row[2],
        state=row[3],
        reason=row[4],
        subject=row[5],
        task_id=row[6],
        msg_id=row[7],
        session_id=row[8],
        role=row[9],
        hook=row[10],
        generation=row[11],
        seq=row[12],
        detail=None if row[13] is None else msgspec.json.decode(row[13]),
        created_at=rfc3339(row[14]),
        updated_at=rfc3339(row[15]),
    )


def record(
    tx: Tx,
    kind: str,
    reason: str,
    *,
    subject: str,
    task_id: str | None = None,
    msg_id: str | None = None,
    session_id: str | None = None,
    role: str | None = None,
    hook: str | None = None,
    generation: int | None = None,
    seq: int | None = None,
    detail: object = None,
    op_id: str | None = None,
) -> tuple[Fault, bool]:
    """Record a fault; the open one of the same subject and kind stands (False)."""
    old = tx.execute(OPEN_ONE, (subject, kind)).fetchone()
    if old is not None:
        return _fault(old), False
    text = None if detail is None else msgspec.json.encode(detail).decode()
    about = (task_id, msg_id, session_id, role, hook, generation, seq, text, op_id)
    fault_id = tx.new_id("fault")
    tx.execute(INSERT, (fault_id, kind, reason, subject, *about, tx.now, tx.now))
    fault = find(tx, fault_id)
    tx.emit("ledger", "fault", fault_id, fault, role=role)
    return fault, True


def find(tx: Tx | Snapshot, fault_id: str) -> Fault:
    """One fault. Raises `not_found`."""
    row = tx.execute(BY_ID, (fault_id,)).fetchone()
    if row is None:
        raise Refusal("not_found", f"there is no fault {fault_id}", kind="fault")
    return _fault(row)


def _move(tx: Tx, row: Sequence[Any], state: FaultState, reason: str | None) -> Fault:
    tx.execute(MOVE, (state, row[4] if reason is None else reason, tx.now, row[0]))
    fault = find(tx, row[1])
    tx.emit("ledger", "fault", fault.fault_id, fault, role=fault.role)
    return fault


def ack(tx: Tx, fault_id: str, reason: str | None) -> tuple[Fault, bool]:
    """Open to acked; acked already is no change. Raises `not_found`, `invalid_transition`."""
    fault = find(tx, fault_id)
    if fault.state == "acked":
        return fault, False
    if fault.state != "open":
        raise Refusal(
            "invalid_transition",
            f"the fault is {fault.state} and cannot become acked",
            fault_id=fault_id,
            **{"from": fault.state, "to": "acked"},
        )
    row = tx.execute(BY_ID, (fault_id,)).fetchone()
    return _move(tx, row, "acked", reason), True


def move_task(tx: Tx, task_id: str, state: FaultState, reason: str | None) -> int:
    """Move every open fault of a task; how many there were."""
    rows = tx.execute(OPEN_OF_TASK, (task_id,)).fetchall()
    for row in rows:
        _move(tx, row, state, reason)
    return len(rows)


def close(tx: Tx, subject: str, kind: str, reason: str) -> int:
    """Close what stands open or acked of a subject because its cause is gone; how many there were."""
    rows = tx.execute(STANDING, (subject, kind)).fetchall()
    for row in rows:
        _move(tx, row, "closed", reason)
    return len(rows)


def page(
    snap: Snapshot,
    *,
    after: int,
    limit: int,
    task_id: str | None,
    session_id: str | None,
    role: str | None,
    kind: str | None,
    state: str | None,
) -> list[tuple[int, Fault]]:
    """Faults by filter with their keys, oldest first, above the key `after`."""
    sql = PAGE_OF_TASK if task_id is not None else PAGE_BY_STATE if state is not None else PAGE
    about = {"task_id": task_id, "session_id": session_id, "role": role, "kind": kind, "state": state}
    return [(row[0], _fault(row)) for row in snap.execute(sql, {"after": after, "limit": limit, **about})]
