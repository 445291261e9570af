"""What a caller does with one message: ack, reject, surface, requeue, expire, give up (contract ledger 4)."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle import delivery
from interlock.lifecycle.delivery import RequeuePolicy
from interlock.lifecycle.mail import OPERATOR, MailKind, MailState, Surfaced
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import rfc3339

from . import faults, messages, roles
from .messages import COLUMNS, Mail
from .tx import Tx

SURFACE: Final = "UPDATE messages SET surfaced_at = ? WHERE id = ?"
OLDEST_QUEUED: Final = (
    f"SELECT {COLUMNS} FROM messages WHERE state = 'queued' AND to_role = ? AND kind = ? ORDER BY id LIMIT ?"
)
KINDS: Final[tuple[MailKind, ...]] = ("task", "completion", "note", "control")


def own(caller: Caller, role: str) -> str:
    """Who acts for the role: its name, or `operator`. Raises `not_owner`."""
    if caller.operator:
        return OPERATOR
    if role not in caller.roles:
        raise Refusal("not_owner", f"this connection is not attached to {role}", role=role)
    return role


def settle(tx: Tx, caller: Caller, msg_id: str, to: MailState, reason: str | None) -> tuple[Mail, bool]:
    """Bring a row to a final state. Raises `not_found`, `not_owner`, `invalid_transition`, in this order."""
    mail = messages.find(tx, msg_id)
    by = own(caller, mail.to_role)
    step = delivery.plan(mail.state, to)
    if step == "holds":
        return mail, False
    if step == "refuse":
        raise messages.transition_refused(mail, to)
    if step == "through_in_flight":
        mail = messages.move(tx, mail, "in_flight", reason=None, offered_at=tx.now)
    return messages.move(tx, mail, to, reason=reason, by=by), True


def surfaced(tx: Tx, caller: Caller, msg_id: str) -> tuple[Mail, bool]:
    """Note once that a model saw it; it must be in flight or have been surfaced before."""
    mail = messages.find(tx, msg_id)
    own(caller, mail.to_role)
    if mail.surfaced_at is not None:
        return mail, False
    if mail.state != "in_flight":
        raise messages.transition_refused(mail, "surfaced")
    tx.execute(SURFACE, (tx.now, mail.id))
    data = Surfaced(msg_id=mail.msg_id, task=mail.task, session=mail.session, surfaced_at=rfc3339(tx.now))
    tx.emit("ledger", "ledger_surfaced", mail.msg_id, data, role=mail.to_role)
    return mail._replace(surfaced_at=tx.now), True


def requeue(tx: Tx, caller: Caller, msg_id: str, reason: str, policy: RequeuePolicy) -> tuple[Mail, bool]:
    """In flight to queued: from the addressee through the gate of 2.3, from the operator past it."""
    mail = messages.find(tx, msg_id)
    own(caller, mail.to_role)
    step = delivery.plan(mail.state, "queued")
    if step == "holds":
        return mail, False
    if step == "refuse":
        raise messages.transition_refused(mail, "queued")
    if caller.operator:
        return back_to_queue(tx, mail, reason), True
    return let_go(tx, mail, reason, policy), True


def back_to_queue(tx: Tx, mail: Mail, reason: str) -> Mail:
    """Put a row in flight back; its place in the arrival order is kept, since that is its id."""
    tx.count("messages_requeued")
    return messages.move(tx, mail, "queued", reason=reason, requeued=mail.requeued + 1)


def let_go(tx: Tx, mail: Mail, cause: str, policy: RequeuePolicy) -> Mail:
    """The automatic requeue of a row in flight whose holder is gone (2.3)."""
    to = delivery.release(
        kind=mail.kind,
        settled_task=mail.kind == "task" and messages.has_verdict(tx, mail.task),
        enqueued_at=mail.enqueued_at,
        requeued=mail.requeued,
        now=tx.now,
        cause=cause,
        policy=policy,
    )
    if to.state == "queued":
        return back_to_queue(tx, mail, to.reason)
    after = messages.move(tx, mail, to.state, reason=to.reason, by="daemon")
    if to.fault:
        faults.record(
            tx,
            "requeue_exhausted",
            f"put back {mail.requeued} times and lost by its holder once more",
            subject=mail.task or mail.msg_id,
            task_id=mail.task,
            msg_id=mail.msg_id,
            role=mail.to_role,
        )
    return after


def expire_before(tx: Tx, caller: Caller, role: str, before: int, limit: int, reason: str) -> tuple[int, bool]:
    """Expire the queued rows of a role from before an instant, oldest first; how many, and whether more are there."""
    roles.need(tx, role, "/role")
    by = own(caller, role)
    # Arrival order is the order of commits, so the oldest by id are the oldest by time: nothing beyond them is read.
    found = (Mail._make(row) for kind in KINDS for row in tx.execute(OLDEST_QUEUED, (role, kind, limit + 1)).fetchall())
    rows = sorted(mail for mail in found if mail.enqueued_at < before)
    for mail in rows[:limit]:
        messages.move(tx, mail, "expired", reason=reason, by=by)
    return min(len(rows), limit), len(rows) > limit
