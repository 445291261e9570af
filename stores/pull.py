"""Offering mail: what a consumer is given now, in arrival order and within its capacity (contract ledger 4, `pull`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.lifecycle.bounds import PAGE_BYTES
from interlock.lifecycle.delivery import RequeuePolicy
from interlock.lifecycle.mail import MailKind
from interlock.lifecycle.roles import Caller, Role

from . import cursors, messages, roles
from .messages import COLUMNS, Mail
from .moves import KINDS, own
from .tx import Snapshot, Tx

_OFFERABLE: Final = (
    "state = 'queued' AND to_role = :role AND (to_session IS NULL OR :session IS NULL OR to_session = :session)"
    " AND (due_at IS NULL OR due_at > :now)"
)
_FRESH: Final = " AND (:stale IS NULL OR requeued > 0 OR enqueued_at > :stale)"
_ROWS: Final = f"(SELECT {COLUMNS} FROM messages WHERE {_OFFERABLE}"
QUEUED: Final = (
    f"SELECT * FROM {_ROWS} AND kind = 'task'{_FRESH} ORDER BY id LIMIT :task) UNION ALL"
    f" SELECT * FROM {_ROWS} AND kind = 'completion'{_FRESH} ORDER BY id LIMIT :completion) UNION ALL"
    f" SELECT * FROM {_ROWS} AND kind = 'note' ORDER BY id LIMIT :note) UNION ALL"
    f" SELECT * FROM {_ROWS} AND kind = 'control'{_FRESH} ORDER BY id LIMIT :control)"
)
"""Kind by kind, each from its place in the index, with a limit of its own."""
TASKS_IN_FLIGHT: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM messages WHERE state = 'in_flight' AND to_role = ? AND kind = 'task' LIMIT ?)"
)
SESSION_BUSY: Final = (
    "SELECT 1 FROM messages WHERE state = 'in_flight' AND to_role = ? AND kind = 'task' AND session = ? LIMIT 1"
)
BODY_BYTES: Final = "SELECT length(CAST(body AS BLOB)) FROM messages WHERE id = ?"
STILL_ATTACHED: Final = "SELECT 1 FROM attachments WHERE role = ? AND holder = ?"


class Wanted(NamedTuple):
    """What a consumer asks for."""

    role: str
    session: str | None
    kinds: tuple[MailKind, ...]
    limit: int


class Offer(NamedTuple):
    """The rows to offer, and whether tasks were held back."""

    rows: list[Mail]
    at_capacity: bool


def select(tx: Tx | Snapshot, role: Role, wanted: Wanted, stale: int | None) -> Offer:
    """What would be offered now. `stale`: rows stored at or before this, of an absent role, are over (2.4, third row).

    The four kinds stand apart in the index, so tasks that must wait never cost those behind them anything.
    """
    # One task more tells whether some are held back.
    limits = {kind: wanted.limit + (kind == "task") if kind in wanted.kinds else 0 for kind in KINDS}
    about = {"role": wanted.role, "session": wanted.session, "now": tx.now, "stale": stale}
    rows = sorted(Mail._make(row) for row in tx.execute(QUEUED, about | limits))  # by id
    tasks = sum(mail.kind == "task" for mail in rows)
    held_back = False
    if tasks:
        room = _room(tx, role, wanted)
        held_back = room < wanted.limit and tasks > room
        rows = _first_tasks(rows, min(room, wanted.limit))
    return Offer(_within_bytes(tx, rows[: wanted.limit]), held_back)


def _first_tasks(rows: list[Mail], room: int) -> list[Mail]:
    """The rows without the tasks for which there is no room."""
    tasks = [mail for mail in rows if mail.kind == "task"]
    left_out = {mail.id for mail in tasks[room:]}
    return [mail for mail in rows if mail.id not in left_out]


def _room(tx: Tx | Snapshot, role: Role, wanted: Wanted) -> int:
    """How many tasks may be offered: the role's capacity, and one for a named session that holds none."""
    room: int = role.max_sessions - tx.execute(TASKS_IN_FLIGHT, (role.name, role.max_sessions)).fetchone()[0]
    if wanted.session is None or room <= 0:
        return max(0, room)
    return 0 if tx.execute(SESSION_BUSY, (role.name, wanted.session)).fetchone() else 1


def _within_bytes(tx: Tx | Snapshot, rows: list[Mail]) -> list[Mail]:
    """Stop before 4 MiB of bodies, but offer at least one."""
    if len(rows) < 2:
        return rows
    total = 0
    for n, mail in enumerate(rows):
        total += tx.execute(BODY_BYTES, (mail.id,)).fetchone()[0] or 0
        if n and total > PAGE_BYTES:
            return rows[:n]
    return rows


def stale_before(tx: Tx | Snapshot, known: roles.Known, policy: RequeuePolicy) -> int | None:
    """Rows stored at or before this are over while nobody is attached; None where the setting is off or one is."""
    if policy.ttl_secs <= 0 or known.presence == "online":
        return None
    return tx.now - policy.ttl_secs * 1000


def pull(tx: Tx, caller: Caller, wanted: Wanted, policy: RequeuePolicy) -> Offer | None:
    """Offer what there is, in one transaction. None: the connection has gone meanwhile and takes nothing."""
    known = roles.need(tx, wanted.role)
    own(caller, wanted.role)
    holder = None if caller.operator else caller.holder
    if holder is not None and tx.execute(STILL_ATTACHED, (wanted.role, holder)).fetchone() is None:
        return None
    offer = select(tx, known.role, wanted, stale_before(tx, known, policy))
    taken = [
        messages.move(
            tx,
            mail,
            "in_flight",
            reason=None,
            offered_at=tx.now,
            deliveries=mail.deliveries + 1,
            session=wanted.session,
            holder=holder,
        )
        for mail in offer.rows
    ]
    if taken:
        cursors.put(tx, "inbox", wanted.role, tx.head(), taken[-1].msg_id)
    return Offer(taken, offer.at_capacity)
