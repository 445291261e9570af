"""Roles and presence: who exists, and who is attached (contract ledger 1.3, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from interlock.lifecycle.mail import OPERATOR, Presence
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Role, RoleChanged, RoleInfo
from interlock.lifecycle.times import rfc3339

from .near import LOOKED_AT, near
from .tx import Snapshot, Tx

_FIELDS: Final = "name, admin, max_sessions, allowed_senders, note_queue"
FIND: Final = f"SELECT {_FIELDS}, EXISTS(SELECT 1 FROM attachments WHERE role = name) FROM roles WHERE name = ?"
EXISTS: Final = "SELECT 1 FROM roles WHERE name = ?"
NAMES: Final = "SELECT name FROM roles ORDER BY name"
NAMES_BEFORE: Final = "SELECT name FROM roles WHERE name < ? ORDER BY name DESC LIMIT ?"
NAMES_AFTER: Final = "SELECT name FROM roles WHERE name > ? ORDER BY name LIMIT ?"
PUT: Final = (
    "INSERT INTO roles(name, admin, max_sessions, allowed_senders, note_queue, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(name) DO UPDATE SET admin = excluded.admin, max_sessions = excluded.max_sessions,"
    " allowed_senders = excluded.allowed_senders, note_queue = excluded.note_queue, updated_at = excluded.updated_at"
)
REMOVE: Final = "DELETE FROM roles WHERE name = ?"
REMOVE_CURSOR: Final = "DELETE FROM cursors WHERE kind = 'inbox' AND name = ?"
PAGE: Final = (
    f"SELECT {_FIELDS}, (SELECT count(*) FROM attachments WHERE role = name), updated_at FROM roles"
    " WHERE name > ? ORDER BY name LIMIT ?"
)
COUNT_QUEUED: Final = "SELECT count(*) FROM messages WHERE state = 'queued' AND to_role = ?"
COUNT_IN_FLIGHT: Final = "SELECT count(*) FROM messages WHERE state = 'in_flight' AND to_role = ?"
COUNT_ATTACHED: Final = "SELECT count(*) FROM attachments WHERE role = ?"


class Known(NamedTuple):
    """A role, and whether anybody is attached to it."""

    role: Role
    presence: Presence


def _role(row: Sequence[Any]) -> Role:
    senders = row[3]
    return Role(
        name=row[0],
        admin=bool(row[1]),
        max_sessions=row[2],
        allowed_senders=UNSET if senders is None else msgspec.json.decode(senders, type=list[str]),
        note_queue=bool(row[4]),
    )


def find(tx: Tx | Snapshot, name: str) -> Known | None:
    """The role, or None."""
    row = tx.execute(FIND, (name,)).fetchone()
    return None if row is None else Known(_role(row), "online" if row[5] else "offline")


def addressee(tx: Tx, name: str, path: str) -> Known:
    """As `need`, read once per transaction: most mail of a batch goes to few roles."""
    known: Known | None = tx.memo.get(name)
    if known is None:
        known = tx.memo[name] = need(tx, name, path)
    return known


def need(tx: Tx | Snapshot, name: str, path: str | None = None) -> Known:
    """The role. Raises `not_found` with up to five near names (field C75)."""
    known = find(tx, name)
    if known is None:
        raise unknown(tx, name, path)
    return known


def unknown(tx: Tx | Snapshot, name: str, path: str | None = None) -> Refusal:
    """The refusal of a role that does not exist."""
    names = [row[0] for sql in (NAMES_BEFORE, NAMES_AFTER) for row in tx.execute(sql, (name, LOOKED_AT))]
    at = {} if path is None else {"path": path}
    return Refusal("not_found", f"there is no role {name}", kind="role", near=near(name, names), **at)


def put(tx: Tx, role: Role) -> bool:
    """Store a role and say so; False when it is stored like this already."""
    old = find(tx, role.name)
    if old is not None and old.role == role:
        return False
    senders = None if role.allowed_senders is UNSET else msgspec.json.encode(role.allowed_senders).decode()
    tx.memo.pop(role.name, None)
    tx.execute(PUT, (role.name, role.admin, role.max_sessions, senders, role.note_queue, tx.now))
    tx.emit("ledger", "role_changed", role.name, RoleChanged(change="upserted", role=role), role=role.name)
    return True


def sync(tx: Tx, roles: Sequence[Role]) -> tuple[list[str], list[str]]:
    """Make the roles exactly these, and `operator`. Names upserted and removed. Raises `in_use`."""
    wanted = {role.name for role in roles} | {OPERATOR}
    gone = [name for (name,) in tx.execute(NAMES).fetchall() if name not in wanted]
    used = [use for use in (_use(tx, name) for name in gone) if use]
    if used:
        raise Refusal("in_use", "a role to be removed has unsettled mail or somebody attached", roles=used)
    upserted = [role.name for role in roles if put(tx, role)]
    for name in gone:
        role = need(tx, name).role
        tx.memo.pop(name, None)
        tx.execute(REMOVE, (name,))
        tx.execute(REMOVE_CURSOR, (name,))
        tx.emit("ledger", "role_changed", name, RoleChanged(change="removed", role=role), role=name)
    return upserted, gone


def _use(tx: Tx, name: str) -> dict[str, object] | None:
    queued, in_flight, connections = (
        tx.execute(sql, (name,)).fetchone()[0] for sql in (COUNT_QUEUED, COUNT_IN_FLIGHT, COUNT_ATTACHED)
    )
    if not (queued or in_flight or connections):
        return None
    return {"name": name, "queued": queued, "in_flight": in_flight, "connections": connections}


def page(snap: Snapshot, after: str, limit: int) -> list[RoleInfo]:
    """Roles by name, above `after`. No session exists before sessions do, so none is counted."""
    return [
        RoleInfo(
            role=_role(row),
            presence="online" if row[5] else "offline",
            connections=row[5],
            sessions=0,
            updated_at=rfc3339(row[6]),
        )
        for row in snap.execute(PAGE, (after, limit))
    ]
