"""What time does to the store, one kind of row each: which are due, what becomes of them (DESIGN 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from interlock.stores import faults, sweep
from interlock.stores.sweep import Page
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import attending, sweeping


class Chore(NamedTuple):
    """One thing that time does to rows, each in its turn.

    A row that cannot be handled is set aside, not due any more, and becomes a fault; `set_aside` says about what.
    """

    kind: str
    page: Callable[[Tx], Page]
    act: Callable[[Tx, int], None]
    set_aside: Callable[[Tx, int], dict[str, Any]]
    next_due: Callable[[Snapshot], int | None]

    def whole_page(self, tx: Tx) -> bool:
        """Act on every row of a page; whether there are more."""
        found = self.page(tx)
        for row_id in found.ids:
            self.act(tx, row_id)
        return found.more

    def give_up(self, tx: Tx, row_id: int, reason: str) -> None:
        """Set a row aside, so that the pass can go on."""
        faults.record(tx, "bad_row", reason, **self.set_aside(tx, row_id))


def _mail_aside(tx: Tx, row_id: int) -> dict[str, Any]:
    msg_id, role = sweep.set_aside(tx, row_id)
    return {"subject": msg_id, "msg_id": msg_id, "role": role}


def _aside(forget: Callable[[Tx, int], str], tx: Tx, row_id: int) -> dict[str, Any]:
    return {"subject": forget(tx, row_id)}


MAIL: Final = Chore("message", sweep.due_page, sweep.expire, _mail_aside, sweep.next_due)
CHORES: Final = (
    MAIL,
    Chore(
        "item",
        sweeping.leases_due,
        sweeping.end_lease,
        partial(_aside, sweeping.forget_lease),
        sweeping.next_lease,
    ),
    Chore(
        "item",
        sweeping.gates_due,
        sweeping.open_gate,
        partial(_aside, sweeping.forget_gate),
        sweeping.next_gate,
    ),
    Chore(
        "item",
        sweeping.overdue,
        sweeping.tell_overdue,
        partial(_aside, sweeping.forget_deadline),
        sweeping.next_overdue,
    ),
    Chore(
        "binding",
        attending.due_pauses,
        attending.end_pause,
        partial(_aside, attending.set_aside),
        attending.next_pause,
    ),
)
"""In the order of a pass."""


def unfetched(role: str, ttl_ms: int) -> Chore:
    """The mail that an absent role never fetched: it is no row's own deadline that makes it due."""
    return MAIL._replace(page=partial(sweep.stale_page, role=role, ttl_ms=ttl_ms), act=sweep.expire_unfetched)


def due(snap: Snapshot) -> list[Chore]:
    """Those that have something to do now."""
    return [chore for chore in CHORES if (instant := chore.next_due(snap)) is not None and instant <= snap.now]


def next_due(snap: Snapshot) -> int | None:
    """When the first of them has something to do."""
    found = [chore.next_due(snap) for chore in CHORES]
    return min((instant for instant in found if instant is not None), default=None)
