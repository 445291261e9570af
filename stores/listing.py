"""Reading mail: by id, by filter, by task, and how much there is (contract ledger 4)."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.lifecycle.bounds import SCAN_ROWS
from interlock.lifecycle.mail import Verdict
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339

from . import moves, roles
from .messages import COLUMNS, Mail
from .tx import Snapshot

_FILTER: Final = (
    " AND (:role IS NULL OR from_role = :role OR to_role = :role) AND (:state IS NULL OR state = :state)"
    " AND (:kind IS NULL OR kind = :kind) AND (:op_id IS NULL OR op_id = :op_id)"
)
SCAN: Final = (
    f"SELECT {COLUMNS} FROM messages WHERE id < :before AND id >= :stop{_FILTER} ORDER BY id DESC LIMIT :limit"
)
SCAN_TASK: Final = (
    f"SELECT {COLUMNS} FROM messages WHERE task = :task AND id < :before{_FILTER} ORDER BY id DESC LIMIT :limit"
)
SCAN_ONE: Final = f"SELECT {COLUMNS} FROM messages WHERE msg_id = :msg_id AND id < :before{_FILTER} LIMIT :limit"
SUBJECT_OF_OP: Final = "SELECT subject FROM ops WHERE op_id = ?"
TOP: Final = "SELECT max(id) FROM messages"
LOWEST: Final = "SELECT min(id) FROM messages"
OF_TASK: Final = f"SELECT {COLUMNS} FROM messages WHERE task = ? AND id > ? ORDER BY id LIMIT ?"
ANY_OF_TASK: Final = "SELECT 1 FROM messages WHERE task = ? LIMIT 1"
VERDICT: Final = "SELECT outcome, by_what, at_ms FROM verdicts WHERE task = ?"
COUNT_NOTES: Final = "SELECT count(*) FROM messages WHERE state = 'queued' AND to_role = ? AND kind = 'note'"
OLDEST: Final = (
    "SELECT enqueued_at FROM messages WHERE state = 'queued' AND to_role = ? AND kind = ? ORDER BY id LIMIT 1"
)
ALL_QUEUED: Final = "SELECT count(*) FROM messages WHERE state = 'queued'"
ALL_IN_FLIGHT: Final = "SELECT count(*) FROM messages WHERE state = 'in_flight'"


class Filter(NamedTuple):
    """What a query asks for; None is everything."""

    task: str | None = None
    op_id: str | None = None
    msg_id: str | None = None
    role: str | None = None
    state: str | None = None
    kind: str | None = None


class Scanned(NamedTuple):
    """A page of rows, latest first, and the key to go on below; None at the end."""

    rows: list[Mail]
    next_before: int | None


def query(snap: Snapshot, wanted: Filter, before: int | None, limit: int) -> Scanned:
    """Rows by filter, latest arrival first, with ids below `before`."""
    if before is None:
        before = (snap.execute(TOP).fetchone()[0] or 0) + 1
    msg_id = wanted.msg_id
    if wanted.op_id is not None and msg_id is None:
        row = snap.execute(SUBJECT_OF_OP, (wanted.op_id,)).fetchone()
        if row is None or row[0] is None:
            return Scanned([], None)
        msg_id = row[0]
    about = wanted._replace(msg_id=msg_id)._asdict() | {"before": before, "limit": limit + 1}
    if msg_id is not None:
        found = [mail for mail in _rows(snap, SCAN_ONE, about) if wanted.task in (None, mail.task)]
        return Scanned(found, None)
    if wanted.task is not None:
        return _cut(_rows(snap, SCAN_TASK, about), limit)
    return _scan(snap, about, before, limit)


def _scan(snap: Snapshot, about: dict[str, object], before: int, limit: int) -> Scanned:
    stop = max(0, before - SCAN_ROWS)
    page = _cut(_rows(snap, SCAN, about | {"stop": stop}), limit)
    lowest = snap.execute(LOWEST).fetchone()[0]
    if page.next_before is None and lowest is not None and stop > lowest:
        return Scanned(page.rows, stop)
    return page


def _rows(snap: Snapshot, sql: str, about: dict[str, object]) -> list[Mail]:
    return [Mail._make(row) for row in snap.execute(sql, about)]


def _cut(rows: list[Mail], limit: int) -> Scanned:
    return Scanned(rows[:limit], rows[limit - 1].id if len(rows) > limit else None)


def of_task(snap: Snapshot, task: str, after: int, limit: int) -> tuple[list[Mail], Verdict | None]:
    """A task's rows, earliest first, and its verdict. Raises `not_found` where neither is there."""
    verdict = verdict_of(snap, task)
    if verdict is None and snap.execute(ANY_OF_TASK, (task,)).fetchone() is None:
        raise Refusal("not_found", f"there is no task {task}", kind="task")
    return [Mail._make(row) for row in snap.execute(OF_TASK, (task, after, limit))], verdict


def verdict_of(snap: Snapshot, task: str) -> Verdict | None:
    """How the task ended, if that was said."""
    row = snap.execute(VERDICT, (task,)).fetchone()
    return None if row is None else Verdict(outcome=row[0], by=row[1], at=rfc3339(row[2]))


class DepthOf(NamedTuple):
    """Exact counts of one role; `queued` leaves notes out."""

    role: str
    queued: int
    notes: int
    in_flight: int
    oldest_queued_at: int | None


def depth(snap: Snapshot, role: str) -> DepthOf:
    """How much mail a role has. Raises `not_found`."""
    if snap.execute(roles.EXISTS, (role,)).fetchone() is None:
        raise roles.unknown(snap, role)
    queued, notes, in_flight = (
        snap.execute(sql, (role,)).fetchone()[0] for sql in (roles.COUNT_QUEUED, COUNT_NOTES, roles.COUNT_IN_FLIGHT)
    )
    oldest = [row[0] for kind in moves.KINDS if (row := snap.execute(OLDEST, (role, kind)).fetchone())]
    return DepthOf(role, queued - notes, notes, in_flight, min(oldest, default=None))


def depths(snap: Snapshot, after: str, limit: int) -> list[DepthOf]:
    """The same for every role by name, above `after`."""
    return [depth(snap, info.role.name) for info in roles.page(snap, after, limit)]


def counts(snap: Snapshot) -> tuple[int, int]:
    """Queued and in-flight rows of the whole store."""
    return snap.execute(ALL_QUEUED).fetchone()[0], snap.execute(ALL_IN_FLIGHT).fetchone()[0]
