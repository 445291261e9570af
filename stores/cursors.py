"""Remembered places in the feed (contract ledger 7). Delivery never depends on them."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Cursor
from interlock.lifecycle.times import rfc3339

from . import roles
from .tx import Snapshot, Tx

FIND: Final = "SELECT seq, msg_id, updated_at FROM cursors WHERE kind = ? AND name = ?"
ROLE_SINCE: Final = "SELECT updated_at FROM roles WHERE name = ?"
PUT: Final = (
    "INSERT INTO cursors(kind, name, seq, msg_id, updated_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT(kind, name) DO UPDATE SET seq = excluded.seq, msg_id = excluded.msg_id,"
    " updated_at = excluded.updated_at"
)


def put(tx: Tx, kind: str, name: str, seq: int, msg_id: str | None) -> None:
    """Store a cursor as it is."""
    tx.execute(PUT, (kind, name, seq, msg_id, tx.now))


def get_inbox(tx: Tx | Snapshot, name: str) -> tuple[Cursor, str]:
    """A role's inbox cursor and when it moved; one never pulled stands at 0, for as long as the role is as it is.

    Raises `not_found`.
    """
    roles.need(tx, name, "/name")
    row = tx.execute(FIND, ("inbox", name)).fetchone()
    if row is None:
        since: int = tx.execute(ROLE_SINCE, (name,)).fetchone()[0]
        return Cursor(kind="inbox", name=name, seq=0), rfc3339(since)
    return Cursor(kind="inbox", name=name, seq=row[0], msg_id=row[1]), rfc3339(row[2])


def set_inbox(tx: Tx, name: str, seq: int, msg_id: str | None) -> tuple[Cursor, str]:
    """Move a role's inbox cursor, either way. Raises `not_found`, `cursor_ahead`."""
    roles.need(tx, name, "/name")
    head = tx.head()
    if seq > head:
        raise Refusal("cursor_ahead", f"{seq} is above the head of the feed", head=head)
    put(tx, "inbox", name, seq, msg_id)
    return get_inbox(tx, name)


def no_hook(name: str) -> Refusal:
    """The refusal of a hook's cursor where there is no such hook."""
    return Refusal("not_found", f"there is no hook {name}", kind="hook")
