"""Storing a message: the order of checks is the contract's (ledger 4, `ledger/send`)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from interlock.lifecycle.causality import Place, TaskFacts, check_bounds, place
from interlock.lifecycle.delivery import due_at
from interlock.lifecycle.mail import OPERATOR, Causality, Envelope, Outcome, Presence
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller, Role
from interlock.lifecycle.times import parse_rfc3339

from . import messages, roles
from .messages import Mail
from .preview import head_of
from .tx import Tx

STATE_OF: Final = "SELECT state FROM messages WHERE msg_id = ?"
FIRST_OF_TASK: Final = (
    "SELECT from_role, family, hop, hop_budget, deadline_at, origin, labels FROM messages"
    " WHERE task = ? AND kind IS 'task' ORDER BY id LIMIT 1"
)
TASK_ADDRESSED_TO: Final = "SELECT 1 FROM messages WHERE task = ? AND kind IS 'task' AND to_role = ? LIMIT 1"


NOTHING_GIVEN: Final = Causality()


class Sender(NamedTuple):
    """Who a message is from, and whether the operator sent it."""

    role: str
    admin: bool


class Address(NamedTuple):
    """A principal taken apart."""

    role: str
    session: str | None


def address(principal: object) -> Address:
    """The role and session of a principal in either form."""
    if isinstance(principal, str):
        role, _, session = principal.partition("#")
        return Address(role, session or None)
    ref = principal.role  # type: ignore[attr-defined]
    return Address(ref.role, ref.session)


def sender(tx: Tx, caller: Caller, given: object | None) -> Sender:
    """Check (2): who sends. Raises `not_owner`, `not_found`, or `invalid_params` where it must be said."""
    role = None if given is None else address(given).role
    if caller.operator:
        if role is None or role == OPERATOR:
            return Sender(OPERATOR, True)  # it exists from the start and cannot be removed
        roles.need(tx, role, "/from")
        return Sender(role, True)
    if role is None and len(caller.roles) == 1:
        return Sender(caller.roles[0], False)
    if role is None:
        raise Refusal(
            "invalid_params",
            "the connection is attached to several roles: name the sender in `from`",
            path="/from",
            expected=" or ".join(caller.roles),
        )
    if role not in caller.roles:
        if not roles.find(tx, role):
            raise roles.unknown(tx, role, "/from")
        raise Refusal("not_owner", f"this connection is not attached to {role}", role=role, path="/from")
    return Sender(role, False)


def send(tx: Tx, who: Sender, message: Envelope) -> tuple[Mail, Presence]:
    """Checks (4) to (8), then the row, its event and the verdict that a completion brings.

    The row (without its id) and the addressee's presence are what a receipt says.
    """
    to = address(message.to)
    if message.msg_id is not None:
        _refuse_duplicate(tx, message.msg_id)
    known = roles.addressee(tx, to.role, "/to")
    given = message.causality or NOTHING_GIVEN
    task = given.task or (message.control.task_id if message.control else None)
    first = _first(tx, task)
    if not who.admin:
        _permit(tx, who, known.role, message, first)
    uuid = tx.new_id("")
    if task is None and message.kind == "task":
        task = f"task_{uuid}"
    derived = place(
        kind=message.kind,
        given=given,
        task=task,
        deadline_at=None if given.deadline is None else parse_rfc3339(given.deadline),
        parent=_first(tx, given.parent_task) if message.kind == "task" else None,
        first=first,
    )
    if message.kind == "task":
        check_bounds(derived, tx.now)
    if message.kind == "note" and known.presence == "offline" and not known.role.note_queue:
        raise Refusal("recipient_offline", f"nobody is attached to {to.role}, and it queues no notes", role=to.role)
    mail = _row(tx, who, to, message, derived, message.msg_id or f"msg_{uuid}")
    body = None if message.body is None else msgspec.json.encode(message.body)
    messages.insert(tx, mail, body)
    if message.kind == "completion":
        _settle_task(tx, who, derived.task, message.outcome)
    return mail, known.presence


def _refuse_duplicate(tx: Tx, msg_id: str) -> None:
    row = tx.execute(STATE_OF, (msg_id,)).fetchone()
    if row is not None:
        raise Refusal("duplicate", f"the message {msg_id} exists already", msg_id=msg_id, state=row[0])


def _first(tx: Tx, task: str | None) -> TaskFacts | None:
    if task is None:
        return None
    row = tx.execute(FIRST_OF_TASK, (task,)).fetchone()
    if row is None:
        return None
    facts = TaskFacts._make(row)
    labels = None if row[6] is None else msgspec.json.decode(row[6], type=dict[str, str])
    return facts._replace(labels=labels)


def _is_admin(tx: Tx, who: Sender) -> bool:
    known = roles.find(tx, who.role)
    return known is not None and known.role.admin


def _sent_task(tx: Tx, who: Sender, control: Envelope) -> bool:
    """Whether the sender sent the task that the control is for, whatever task its causality names."""
    task = None if control.control is None else _first(tx, control.control.task_id)
    return task is not None and task.from_role == who.role


def _permit(tx: Tx, who: Sender, addressee: Role, message: Envelope, first: TaskFacts | None) -> None:
    """Check (6). The operator, a role to itself and a completion to its task's sender always pass."""
    to = addressee.name
    if message.kind == "control" and not _sent_task(tx, who, message) and not _is_admin(tx, who):
        raise Refusal("not_owner", f"{who.role} did not send this task and is not admin", role=who.role)
    answers = message.kind == "completion" and first is not None and first.from_role == to
    allowed = addressee.allowed_senders
    if allowed is UNSET or who.role in allowed or who.role == to or answers:
        return
    raise Refusal("sender_not_allowed", f"{to} takes no mail from {who.role}", role=to, sender=who.role)


def _row(tx: Tx, who: Sender, to: Address, message: Envelope, derived: Place, msg_id: str) -> Mail:
    expires_at = messages.over_at(tx.now, message.ttl_ms)
    return Mail(
        id=0,
        msg_id=msg_id,
        op_id=message.op_id,
        kind=message.kind,
        from_role=who.role,
        to_role=to.role,
        to_session=to.session,
        task=derived.task,
        parent_task=derived.parent_task,
        family=derived.family,
        hop=derived.hop,
        attempt=derived.attempt,
        hop_budget=derived.hop_budget,
        deadline_at=derived.deadline_at,
        origin=derived.origin,
        reply_to=derived.reply_to,
        labels=None if derived.labels is None else msgspec.json.encode(derived.labels).decode(),
        outcome=message.outcome,
        control=None if message.control is None else msgspec.json.encode(message.control).decode(),
        admin=int(who.admin),
        head=head_of(message.body),
        has_body=messages.NO_BODY if message.body is None else messages.HAS_BODY,
        ts=tx.now if message.ts is None else parse_rfc3339(message.ts),
        ttl_ms=message.ttl_ms,
        state="queued",
        reason=None,
        enqueued_at=tx.now,
        due_at=due_at(kind=message.kind, state="queued", expires_at=expires_at, deadline_at=derived.deadline_at),
    )


def _settle_task(tx: Tx, who: Sender, task: str | None, outcome: Outcome | None) -> None:
    """The verdict of a task is its first completion, by a role it was addressed to or by the operator (2.5)."""
    if task is None or outcome is None:
        return
    if who.admin or tx.execute(TASK_ADDRESSED_TO, (task, who.role)).fetchone() is not None:
        tx.execute(messages.SET_VERDICT, (task, outcome, "completion", tx.now))
