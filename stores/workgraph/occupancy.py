"""Who holds a target, and what comes of its becoming free, or somebody else's (contract workgraph 5.2, 5.4).

All of it is judged and written in one transaction. The unique index over (realm, namespace, target_key) is the
guarantee behind it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.admission.occupancy import Wish, occupied
from interlock.lifecycle.binding import arbitrated
from interlock.lifecycle.roles import Caller

from .. import faults
from ..tx import Snapshot, Tx
from .bindings import ROW, Binding, rows_of, save
from .scope import Scope, emit, present

BY_KEY: Final = (
    f"SELECT {ROW} FROM attention"
    " WHERE realm_id = ? AND namespace = ? AND target_key = ? AND status IN ('active', 'paused')"
)
BY_ALIAS: Final = (
    f"SELECT {ROW} FROM attention"
    " WHERE realm_id = ? AND namespace = ? AND alias_key = ? AND status IN ('active', 'paused')"
)
EVERYWHERE: Final = (
    f"SELECT {ROW} FROM attention WHERE target_key = ? AND status IN ('active', 'paused')"
    " ORDER BY created_at DESC, binding_id DESC LIMIT ?"
)
SET_ALIAS: Final = "UPDATE attention SET alias_key = ? WHERE n = ?"
DUPLICATE: Final = "duplicate_attention"
MOST: Final = -1
"""As a limit: all of them."""


def occupants(tx: Tx | Snapshot, scope: Scope, key: str) -> list[Binding]:
    """The bindings that hold a key, by their own or as duplicates; the winner of arbitration first."""
    return arbitrated([*rows_of(tx, BY_KEY, *scope, key), *rows_of(tx, BY_ALIAS, *scope, key)])


def everywhere(tx: Tx | Snapshot, key: str, limit: int = MOST) -> list[Binding]:
    """The bindings of every scope that hold a key by their own, newest first."""
    return rows_of(tx, EVERYWHERE, key, limit)


def check_free(tx: Tx, scope: Scope, key: str, wish: Wish, but: Binding | None = None) -> None:
    """Raise `occupied` where somebody other than `but` holds the key."""
    others = [row.seat for row in occupants(tx, scope, key) if but is None or row.n != but.n]
    refusal = occupied(key, others, wish)
    if refusal is not None:
        raise refusal


def vacated(tx: Tx, left: Binding, caller: Caller | None) -> None:
    """What follows from the end of a binding, which was `left`: its newest duplicate comes to the key.

    Where it was a duplicate itself, nobody need look at it any more.
    """
    if left.alias_key is not None:
        faults.close(tx, left.binding_id, DUPLICATE, "the binding has ended")
    duplicates = arbitrated(rows_of(tx, BY_ALIAS, *left.scope, left.target_key))
    for newest in duplicates[:1]:
        move(tx, newest, left.target_key, caller)


def move(tx: Tx, row: Binding, key: str, caller: Caller | None) -> Binding:
    """Give a binding the key of the member that it is for, which is free."""
    after = save(tx, row, target_key=key, alias_key=None)
    data = present(revision=after.revision, from_key=row.target_key, to_key=key)
    emit(tx, row.scope, "attention_rekeyed", row.binding_id, data, caller)
    if row.alias_key is not None:
        faults.close(tx, row.binding_id, DUPLICATE, f"the binding holds {key} now")
    return after


class Rekeying(NamedTuple):
    """What becomes of the bindings of a session that comes to a member: some move, some find the key taken."""

    key: str
    moving: list[Binding]
    duplicates: list[Binding]


def plan_rekeying(tx: Tx, session_key: str, key: str) -> Rekeying:
    """Look at every binding of a session, in every scope."""
    plan = Rekeying(key, [], [])
    for row in everywhere(tx, session_key):
        others = [other for other in occupants(tx, row.scope, key) if other.n != row.n]
        (plan.duplicates if others else plan.moving).append(row)
    return plan


def rekey(tx: Tx, plan: Rekeying, caller: Caller | None) -> tuple[list[str], list[Binding]]:
    """Do it: the ids of what has moved, and the duplicates as they are now."""
    moved = [move(tx, row, plan.key, caller).binding_id for row in plan.moving]
    return moved, [_duplicate(tx, row, plan.key) for row in plan.duplicates]


def _duplicate(tx: Tx, row: Binding, key: str) -> Binding:
    """Let a binding stand beside the one that holds the member's key, and tell the operator.

    It attends for the target that it has, so this is no transition of it: the event is the member's.
    """
    if row.alias_key == key:
        return row
    if row.alias_key is not None:
        faults.close(tx, row.binding_id, DUPLICATE, "its session is another member's now")
    tx.execute(SET_ALIAS, (key, row.n))
    held = [other.binding_id for other in occupants(tx, row.scope, key)]
    faults.record(
        tx,
        DUPLICATE,
        f"{row.binding_id} attends for {row.target_key}, which is {key} now, and {key} is taken",
        subject=row.binding_id,
        detail={"realm_id": row.realm_id, "namespace": row.namespace, "target_key": key, "binding_ids": held},
    )
    return row._replace(alias_key=key)
