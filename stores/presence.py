"""Who is attached to which role, and what becomes of mail whose holder is gone (contract ledger 2.3, attach, detach).

A row in flight names its holder: one connection of one process. A holder is alive while it has a row in `attachments`;
those of a dead process are removed by the leader, which is how its mail comes back (DESIGN 7.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from interlock.lifecycle.delivery import RequeuePolicy
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller, Role, RolePresence

from . import messages, moves, roles
from .messages import COLUMNS, Mail
from .tx import Snapshot, Tx

ATTACH: Final = (
    "INSERT INTO attachments(role, instance_id, holder, attached_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
DETACH: Final = "DELETE FROM attachments WHERE role = ? AND holder = ?"
ANYBODY: Final = "SELECT 1 FROM attachments WHERE role = ? LIMIT 1"
INSTANCE_OF: Final = "SELECT instance_id FROM attachments WHERE role = ? AND holder = ?"
ROLES_OF_HOLDER: Final = "SELECT role FROM attachments WHERE instance_id = ? AND holder = ?"
INSTANCES: Final = "SELECT DISTINCT instance_id FROM attachments ORDER BY instance_id"
OF_INSTANCE: Final = "SELECT role, holder FROM attachments WHERE instance_id = ?"
HELD: Final = (
    f"SELECT {COLUMNS} FROM messages WHERE state = 'in_flight' AND to_role = ? AND kind = ? AND holder = ?"
    " ORDER BY id LIMIT ?"
)
HOLD: Final = "UPDATE messages SET holder = ? WHERE id = ?"

PAGE: Final = 200
"""Rows per transaction when a holder is gone, so that it never holds the writer (DESIGN 5.3)."""


class Attached(NamedTuple):
    """The answer to an attach: which of the named rows are held here now, and which are lost."""

    role: Role
    held: list[str]
    lost: list[str]
    head: int


def attach(tx: Tx, caller: Caller, role: str, holds: Iterable[str], dead: Collection[str]) -> Attached:
    """Attach a connection to a role. `dead`: processes known to have died. Raises `not_found`."""
    known = roles.need(tx, role)
    held: list[str] = []
    lost: list[str] = []
    for msg_id in dict.fromkeys(holds):
        (held if _take_up(tx, caller, role, msg_id, dead) else lost).append(msg_id)
    tx.memo.pop(role, None)
    tx.execute(ATTACH, (role, caller.instance_id, caller.holder, tx.now))
    if known.presence == "offline":
        tx.emit("ledger", "role_presence", role, RolePresence(state="online"), role=role)
    return Attached(known.role, held, lost, tx.head())


def _take_up(tx: Tx, caller: Caller, role: str, msg_id: str, dead: Collection[str]) -> bool:
    row = tx.execute(messages.BY_MSG_ID, (msg_id,)).fetchone()
    if row is None:
        return False
    mail = Mail._make(row)
    if mail.to_role != role:
        return False
    if mail.state == "queued":
        messages.move(tx, mail, "in_flight", reason="taken_back", offered_at=tx.now, holder=caller.holder)
        return True
    if mail.state != "in_flight" or _held_elsewhere(tx, caller, mail, dead):
        return False
    tx.execute(HOLD, (caller.holder, mail.id))
    return True


def _held_elsewhere(tx: Tx, caller: Caller, mail: Mail, dead: Collection[str]) -> bool:
    """Whether another living connection holds the row."""
    if mail.holder is None or mail.holder == caller.holder:
        return False
    living = tx.execute(INSTANCE_OF, (mail.to_role, mail.holder)).fetchone()
    return living is not None and living[0] not in dead


def let_go(tx: Tx, role: str, holder: str, cause: str, policy: RequeuePolicy) -> int:
    """Let go of up to 200 rows that a holder has of a role; how many there were."""
    done = 0
    for kind in moves.KINDS:
        for row in tx.execute(HELD, (role, kind, holder, PAGE - done)).fetchall():
            moves.let_go(tx, Mail._make(row), cause, policy)
            done += 1
    return done


def leave(tx: Tx, role: str, holder: str) -> None:
    """Forget an attachment; the last one gone says `offline`. Nothing may be held any more."""
    tx.memo.pop(role, None)
    if tx.execute(DETACH, (role, holder)).rowcount and not tx.execute(ANYBODY, (role,)).fetchone():
        tx.emit("ledger", "role_presence", role, RolePresence(state="offline"), role=role)


def detach_step(tx: Tx, role: str, holder: str, cause: str, policy: RequeuePolicy) -> tuple[int, bool]:
    """One page of a detach: rows let go, and whether it is complete. Repeated until it is."""
    done = let_go(tx, role, holder, cause, policy)
    if done < PAGE:
        leave(tx, role, holder)
    return done, done < PAGE


def roles_of(snap: Tx | Snapshot, instance_id: str, holder: str) -> list[str]:
    """The roles that a connection is attached to, as the store knows it."""
    return [row[0] for row in snap.execute(ROLES_OF_HOLDER, (instance_id, holder))]


def instances(snap: Tx | Snapshot) -> list[str]:
    """The processes that have somebody attached."""
    return [row[0] for row in snap.execute(INSTANCES)]


def attachments_of(snap: Tx | Snapshot, instance_id: str) -> list[tuple[str, str]]:
    """(role, holder) of every attachment of a process."""
    return snap.execute(OF_INSTANCE, (instance_id,)).fetchall()


def need_attached(caller: Caller, role: str | None) -> str:
    """The role a caller means: the named one, else its only one (contract ledger 2.1). Raises `invalid_params`."""
    if role is not None:
        return role
    if len(caller.roles) == 1:
        return caller.roles[0]
    expected = " or ".join(caller.roles) or "the name of a role"
    raise Refusal("invalid_params", "name the role", path="/role", expected=expected)
