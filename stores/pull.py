"""Offering mail: what a consumer is given now, in arrival order and within its capacity (contract ledger 4, `pull`)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from typing import Final, NamedTuple

from interlock.lifecycle.delivery import RequeuePolicy
from interlock.lifecycle.mail import MailKind
from interlock.lifecycle.roles import Caller, Role

from . import cursors, messages, roles
from .messages import COLUMNS, Mail
from .moves import own
from .tx import Snapshot, Tx

PAGE_BYTES: Final = 4 << 20

_OFFERABLE: Final = (
    "state = 'queued' AND to_role = :role AND kind = :kind AND (to_session IS NULL OR :session IS NULL"
    " OR to_session = :session) AND (due_at IS NULL OR due_at > :now)"
    " AND NOT (:stale IS NOT NULL AND kind <> 'note' AND requeued = 0 AND enqueued_at <= :stale)"
)
QUEUED: Final = f"SELECT {COLUMNS} FROM messages WHERE {_OFFERABLE} ORDER BY id LIMIT :limit"
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
    room = _room(tx, role, wanted) if "task" in wanted.kinds else 0
    found: list[Iterable[Mail]] = []
    held_back = False
    for kind in wanted.kinds:
        limit = min(wanted.limit, room) if kind == "task" else wanted.limit
        rows = _queued(tx, wanted, kind, stale, limit + 1)
        if kind == "task":
            held_back = room < wanted.limit and len(rows) > room
        found.append(rows[:limit])
    return Offer(_within_bytes(tx, list(merge(*found))[: wanted.limit]), held_back)


def _room(tx: Tx | Snapshot, role: Role, wanted: Wanted) -> int:
    """How many tasks may be offered: the role's capacity, and one for a named session that holds none."""
    room: int = role.max_sessions - tx.execute(TASKS_IN_FLIGHT, (role.name, role.max_sessions)).fetchone()[0]
    if wanted.session is None or room <= 0:
        return max(0, room)
    return 0 if tx.execute(SESSION_BUSY, (role.name, wanted.session)).fetchone() else 1


def _queued(tx: Tx | Snapshot, wanted: Wanted, kind: MailKind, stale: int | None, limit: int) -> list[Mail]:
    about = {
        "role": wanted.role,
        "session": wanted.session,
        "kind": kind,
        "now": tx.now,
        "stale": stale,
        "limit": limit,
    }
    return [Mail._make(row) for row in tx.execute(QUEUED, about)]


def _within_bytes(tx: Tx | Snapshot, rows: list[Mail]) -> list[Mail]:
    """Stop before 4 MiB of bodies, but offer at least one."""
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
