"""The messages table: its columns, how a row becomes a record, and the one function that changes a state.

Every move goes through `move`, which writes the row and its `ledger_state` event together (DESIGN 1.2).
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from interlock.lifecycle import delivery
from interlock.lifecycle.mail import (
    Body,
    Causality,
    Control,
    Envelope,
    LedgerRow,
    MailKind,
    MailState,
    Outcome,
    Principal,
    RoleRef,
    StateChange,
)
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import MAX_MS, as_text, rfc3339

from .tx import Snapshot, Tx


class Mail(NamedTuple):
    """One row without its body, in the order of `COLUMNS`; instants are milliseconds."""

    id: int
    msg_id: str
    op_id: str | None
    kind: MailKind
    from_role: str
    to_role: str
    to_session: str | None
    task: str | None
    parent_task: str | None
    family: str | None
    hop: int
    attempt: int
    hop_budget: int | None
    deadline_at: int | None
    origin: str | None
    reply_to: str | None
    labels: str | None
    outcome: Outcome | None
    control: str | None
    admin: int
    head: str
    has_body: int
    ts: int
    ttl_ms: int | None
    state: MailState
    reason: str | None
    enqueued_at: int
    due_at: int | None
    offered_at: int | None = None
    surfaced_at: int | None = None
    settled_at: int | None = None
    settled_by: str | None = None
    session: str | None = None
    holder: str | None = None
    deliveries: int = 0
    requeued: int = 0

    @property
    def expires_at(self) -> int | None:
        """When a note with a ttl is over."""
        return over_at(self.enqueued_at, self.ttl_ms)


def over_at(enqueued_at: int, ttl_ms: int | None) -> int | None:
    """When a note stored then is over; the end of the calendar for a ttl that goes beyond it."""
    return None if ttl_ms is None else min(enqueued_at + ttl_ms, MAX_MS)


COLUMNS: Final = ", ".join(Mail._fields)
NO_BODY, HAS_BODY, BODY_PRUNED = 0, 1, 2

NEW: Final = Mail._fields[1 : Mail._fields.index("due_at") + 1]
INSERT: Final = f"INSERT INTO messages({', '.join(NEW)}, deliveries, requeued, body) VALUES ({'?, ' * len(NEW)}0, 0, ?)"
"""A new row: its columns `NEW` and its body. What it cannot have yet is left out: the driver is slow with NULLs."""
RARE: Final = (
    *("to_session", "parent_task", "hop_budget", "deadline_at", "origin", "reply_to", "outcome", "control"),
    *("ttl_ms", "reason", "due_at"),
)
PLAIN: Final = tuple(name for name in NEW if name not in RARE)
INSERT_PLAIN: Final = (
    f"INSERT INTO messages({', '.join(PLAIN)}, deliveries, requeued, body) VALUES ({'?, ' * len(PLAIN)}0, 0, ?)"
)
"""The same for the many rows that have nothing in the columns `RARE`."""
BY_MSG_ID: Final = f"SELECT {COLUMNS} FROM messages WHERE msg_id = ?"
BODY_OF: Final = "SELECT body FROM messages WHERE id = ?"
UPDATE: Final = (
    "UPDATE messages SET state = ?, reason = ?, due_at = ?, offered_at = ?, settled_at = ?, settled_by = ?,"
    " session = ?, holder = ?, deliveries = ?, requeued = ? WHERE id = ?"
)
HAS_VERDICT: Final = "SELECT 1 FROM verdicts WHERE task = ?"
SET_VERDICT: Final = (
    "INSERT INTO verdicts(task, outcome, by_what, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT(task) DO NOTHING"
)


_rare = itemgetter(*map(Mail._fields.index, RARE))
_plain = itemgetter(*map(Mail._fields.index, PLAIN))
_NOTHING_RARE: Final = (None,) * len(RARE)


def find(tx: Tx | Snapshot, msg_id: str) -> Mail:
    """The row of a message. Raises `not_found`."""
    row = tx.execute(BY_MSG_ID, (msg_id,)).fetchone()
    if row is None:
        raise Refusal("not_found", f"there is no message {msg_id}", kind="message")
    return Mail._make(row)


def insert(tx: Tx, mail: Mail, body: bytes | None) -> None:
    """Store a new row, whose id the store gives, and say so in the feed."""
    text = None if body is None else body.decode()
    if _rare(mail) == _NOTHING_RARE:
        tx.execute(INSERT_PLAIN, (*_plain(mail), text))
    else:
        tx.execute(INSERT, (*mail[1 : len(NEW) + 1], text))
    announce(tx, mail)


def move(
    tx: Tx,
    mail: Mail,
    to: MailState,
    *,
    reason: str | None,
    by: str | None = None,
    holder: str | None = None,
    **changes: Any,
) -> Mail:
    """Move a row and write its event in the same transaction.

    `by` is who settled it, for a final state; `holder` the connection that has it in flight. `changes` are further
    columns of `UPDATE`. The caller has asked `delivery.plan` or knows the state; an impossible move is a bug, so it is
    refused here once more.
    """
    if to not in delivery.TRANSITIONS[mail.state]:
        raise transition_refused(mail, to)
    final = to in delivery.FINAL
    after = mail._replace(
        state=to,
        reason=reason,
        settled_at=tx.now if final else None,
        settled_by=by if final else None,
        holder=holder,
        due_at=delivery.due_at(kind=mail.kind, state=to, expires_at=mail.expires_at, deadline_at=mail.deadline_at),
        **changes,
    )
    tx.execute(
        UPDATE,
        (
            after.state,
            after.reason,
            after.due_at,
            after.offered_at,
            after.settled_at,
            after.settled_by,
            after.session,
            after.holder,
            after.deliveries,
            after.requeued,
            after.id,
        ),
    )
    announce(tx, after)
    return after


def transition_refused(mail: Mail, to: str) -> Refusal:
    """The refusal of a move that the table does not have."""
    return Refusal(
        "invalid_transition",
        f"the message is {mail.state} and cannot become {to}",
        msg_id=mail.msg_id,
        **{"from": mail.state, "to": to},
    )


def announce(tx: Tx, mail: Mail) -> None:
    """Write the `ledger_state` event of what the row is now."""
    change = StateChange(
        msg_id=mail.msg_id,
        op_id=mail.op_id,
        kind=mail.kind,
        from_=principal(mail.from_role),
        to=addressee(mail),
        task=mail.task,
        state=mail.state,
        outcome=mail.outcome,
        reason=mail.reason,
        session=mail.session,
        deliveries=mail.deliveries,
        requeued=mail.requeued,
        by=mail.settled_by,
    )
    tx.emit("ledger", "ledger_state", mail.msg_id, change, role=mail.to_role)


def addressee(mail: Mail) -> Principal:
    """Whom the row is for."""
    return principal(mail.to_role, mail.to_session)


@lru_cache(maxsize=4096)
def principal(role: str, session: str | None = None) -> Principal:
    """A principal in the long form; the same few are told again and again."""
    return Principal(role=RoleRef(role=role, session=session))


def has_verdict(tx: Tx | Snapshot, task: str | None) -> bool:
    """Whether it was said how this task ended."""
    return task is not None and tx.execute(HAS_VERDICT, (task,)).fetchone() is not None


def causality(mail: Mail) -> Causality | None:
    """The derived causality; None for a note that is about nothing."""
    said = (mail.task, mail.parent_task, mail.family, mail.origin, mail.reply_to, mail.labels)
    bounds = (mail.hop_budget, mail.deadline_at)
    if mail.kind == "note" and mail.hop == mail.attempt == 0 and said == (None,) * 6 and bounds == (None, None):
        return None
    return Causality(
        task=mail.task,
        parent_task=mail.parent_task,
        family=mail.family,
        hop=mail.hop,
        attempt=mail.attempt,
        hop_budget=mail.hop_budget,
        deadline=as_text(mail.deadline_at),
        origin=mail.origin,
        reply_to=mail.reply_to,
        labels=None if mail.labels is None else msgspec.json.decode(mail.labels, type=dict[str, str]),
    )


def control(mail: Mail) -> Control | None:
    """The command of a control."""
    return None if mail.control is None else msgspec.json.decode(mail.control, type=Control)


def record(mail: Mail) -> LedgerRow:
    """The row as the wire shows it."""
    return LedgerRow(
        msg_id=mail.msg_id,
        op_id=mail.op_id,
        kind=mail.kind,
        from_=principal(mail.from_role),
        to=addressee(mail),
        causality=causality(mail),
        outcome=mail.outcome,
        control=control(mail),
        admin=bool(mail.admin),
        head=mail.head,
        state=mail.state,
        reason=mail.reason,
        enqueued_at=rfc3339(mail.enqueued_at),
        expires_at=as_text(mail.expires_at),
        offered_at=as_text(mail.offered_at),
        surfaced_at=as_text(mail.surfaced_at),
        settled_at=as_text(mail.settled_at),
        settled_by=mail.settled_by,
        session=mail.session,
        deliveries=mail.deliveries,
        requeued=mail.requeued,
        body_pruned=mail.has_body == BODY_PRUNED,
    )


_BODY = msgspec.json.Decoder(Body)


def envelope(tx: Tx | Snapshot, mail: Mail) -> Envelope:
    """The message as it arrives: what was sent, with derived values filled in."""
    body = None
    if mail.has_body == HAS_BODY:
        body = _BODY.decode(tx.execute(BODY_OF, (mail.id,)).fetchone()[0])
    return Envelope(
        kind=mail.kind,
        to=addressee(mail),
        from_=principal(mail.from_role),
        msg_id=mail.msg_id,
        op_id=mail.op_id,
        causality=causality(mail),
        outcome=mail.outcome,
        control=control(mail),
        body=body,
        ts=rfc3339(mail.ts),
        ttl_ms=mail.ttl_ms,
    )
