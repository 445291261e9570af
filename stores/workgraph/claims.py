"""Claims: who holds an item, and how long (contract workgraph 3.1, 4, 6). Fences order the holders."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.lifecycle.bounds import SETTLED
from interlock.lifecycle.readiness import SETTLES, is_open
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_text
from interlock.lifecycle.work import Owner

from ..tx import Tx
from . import closing, queue, rows, sweeping
from .judging import Admitted, transition
from .rows import Item
from .saving import UNCLAIMED, elapse, save, touched
from .scope import Scope, emit, present

TAKE: Final = (
    "UPDATE items SET status = 'in_progress', stage = 0, owner_kind = ?, owner_id = ?, owner_name = ?,"
    " fence = fence + 1, alias_claim = ?, claimed_at = ?, lease_expires_at = ?, revision = ?, updated_at = ?"
    " WHERE n = ? AND (status = 'open' OR status = 'in_progress' AND lease_expires_at <= ?)"
    f" RETURNING {rows.ROW}"
)
"""The claim decides by itself: of any number of racers one finds the item open, or its lease elapsed."""
TAKE_LABELS: Final = "UPDATE item_labels SET status = 'in_progress', stage = 0, updated_at = ? WHERE item = ?"
RENEW: Final = "UPDATE items SET lease_expires_at = ? WHERE n = ?"


class Wish(NamedTuple):
    """For whom a claim is, and until when; None is for ever. `alias` where it comes through `mobkit/`."""

    owner: Owner
    lease_expires_at: int | None
    alias: bool = False


class Claimed(NamedTuple):
    """The item that was taken, or the parent that was settled instead."""

    item: Item | None = None
    settled: Item | None = None


def claim(tx: Tx, admitted: Admitted, wish: Wish) -> Claimed:
    """Take one item, or close a parent as its children have decided. Raises `invalid_transition`."""
    item, caller = admitted.item, admitted.caller
    settles = SETTLES.get(item.join_state)
    if settles is not None:
        return Claimed(settled=closing.settle(tx, item, settles, caller))
    _check_ready(tx, item)
    return Claimed(item=take(tx, item, wish, caller))


def _check_ready(tx: Tx, item: Item) -> None:
    if item.join_state == "waiting":
        raise transition(item, "waiting_children", "its children are not done, or one of them failed")
    if item.unresolved_blockers:
        raise transition(item, "unresolved_blockers", f"it waits for {item.unresolved_blockers} other items")
    if not is_open(item.gate_at, tx.now):
        until = as_text(item.gate_at)
        raise transition(item, "gated", f"it may not be begun before {until}", until=until)


def take(tx: Tx, item: Item, wish: Wish, caller: Caller) -> Item:
    """Give a ready item to its new holder."""
    item = elapse(tx, item, caller)
    key, now = wish.owner.key, tx.now
    owner = (key.kind, key.id, wish.owner.display_name, int(wish.alias))
    row = tx.execute(TAKE, (*owner, now, wish.lease_expires_at, item.revision + 1, now, item.n, now)).fetchone()
    taken = rows.item_of(row)
    if taken.labels is not None:
        tx.execute(TAKE_LABELS, (now, taken.n))
    data = present(
        revision=taken.revision,
        owner=wish.owner,
        fence=taken.fence,
        lease_expires_at=as_text(taken.lease_expires_at),
    )
    emit(tx, taken.scope, "item_claimed", taken.id, data, caller)
    return taken


def claim_next(
    tx: Tx, scope: Scope, labels: tuple[str, ...], wish: Wish, caller: Caller
) -> tuple[Item | None, list[str]]:
    """Settle what its children have decided, then take the most urgent ready item; the ids of what was settled."""
    due = queue.is_due(tx, scope)
    if due:
        sweeping.catch_up(tx, scope)
    settled = []
    for item in queue.settling(tx, scope, labels, SETTLED, due=due):
        now = rows.by_n(tx, item.n)  # its counters may have changed with the one before
        closing.settle(tx, now, SETTLES[now.join_state], caller)
        settled.append(item.id)
    found = queue.first(tx, scope, labels, due=due)
    return None if found is None else take(tx, found, wish, caller), settled


def renew(tx: Tx, admitted: Admitted, lease_expires_at: int | None) -> Item:
    """Move the end of a live claim. Neither revision nor `updated_at` change: a heartbeat stales nothing else."""
    item = admitted.item
    tx.execute(RENEW, (lease_expires_at, item.n))
    item = item._replace(lease_expires_at=lease_expires_at)
    data = present(fence=item.fence, lease_expires_at=as_text(lease_expires_at))
    emit(tx, item.scope, "lease_renewed", item.id, data, admitted.caller)
    return item


def release(tx: Tx, admitted: Admitted) -> Item:
    """Give a claimed item back."""
    before, caller = admitted.item, admitted.caller
    data = present(
        revision=before.revision + 1,
        owner=rows.owner_of(before),
        fence=before.fence,
        cause="released",
        lease_expires_at=as_text(before.lease_expires_at),
        override=admitted.override,
    )
    emit(tx, before.scope, "item_released", before.id, data, caller)
    after = touched(before, tx.now, status="open", **UNCLAIMED)
    return save(tx, before, after, caller, "released")
