"""When live claims end (contract workgraph 1, Claim)."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.work import OwnerKey

from ..tx import Snapshot, Tx
from .scope import Scope

# `realm_id || ''` keeps SQLite from the index of all items of a scope (see queue.OPENED).
NEXT: Final = (
    "SELECT lease_expires_at FROM items WHERE lease_expires_at > ? AND realm_id || '' = ? AND namespace = ?"
    " ORDER BY lease_expires_at LIMIT 1"
)
NEXT_OF_OWNER: Final = (
    "SELECT min(lease_expires_at) FROM items WHERE realm_id = ? AND namespace = ? AND owner_kind = ? AND owner_id = ?"
    " AND lease_expires_at > ?"
)


def next_end(snap: Tx | Snapshot, scope: Scope, owner: OwnerKey | None) -> int | None:
    """The instant, ms, at which the next live claim of a scope (of that owner) ends; None where none does."""
    if owner is None:
        row = snap.execute(NEXT, (snap.now, *scope)).fetchone()
    else:
        row = snap.execute(NEXT_OF_OWNER, (*scope, owner.kind, owner.id, snap.now)).fetchone()
    return None if row is None else row[0]
