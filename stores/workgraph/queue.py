"""Which items may be begun, in their order: the index of ready items, and what time alone has made ready.

An item is in the ready index while its row says so (stage 1). A gate that has opened, or a lease that has elapsed,
makes it ready at once, though the sweeper writes that down only within a second: those few rows are read beside.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from ..tx import Snapshot, Tx
from . import leases, rows
from .rows import JOINED_ROW, ROW, Item, item_of
from .scope import Scope

Key = tuple[int, int, int, str]
"""A place in the order: priority, deadline, creation, id."""
FIRST: Final[Key] = (-1, 0, 0, "")
_order: Final = attrgetter("order")
_age: Final = attrgetter("created_at", "id")

_ALSO: Final = (
    " AND NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT EXISTS"
    " (SELECT 1 FROM item_labels AS has WHERE has.item = {item} AND has.label = wanted.value))"
)
"""Whether an item carries all labels of a JSON array."""
_CARRIES: Final = _ALSO.format(item="items.n")

READY: Final = (
    f"SELECT {ROW} FROM items WHERE stage = 1 AND realm_id = ? AND namespace = ?"
    " AND (priority, due_order, created_at, id) > (?, ?, ?, ?) ORDER BY priority, due_order, created_at, id"
)
READY_LABEL: Final = (
    f"SELECT {JOINED_ROW} FROM item_labels AS l JOIN items AS i ON i.n = l.item"
    " WHERE l.stage = 1 AND l.realm_id = ? AND l.namespace = ? AND l.label = ?"
    f" AND (l.priority, l.due_order, l.created_at, l.id) > (?, ?, ?, ?){_ALSO.format(item='l.item')}"
    " ORDER BY l.priority, l.due_order, l.created_at, l.id"
)
# `realm_id || ''` keeps SQLite from the index of all items of a scope: what is due is few, the scope may be everything.
_LATE: Final = (
    f" AND realm_id || '' = ? AND namespace = ?{_CARRIES} AND (priority, due_order, created_at, id) > (?, ?, ?, ?)"
    " ORDER BY priority, due_order, created_at, id LIMIT ?"
)
OPENED: Final = f"SELECT n FROM items WHERE stage = 2 AND gate_at <= ?{_LATE}"
ELAPSED: Final = (
    "SELECT n FROM items WHERE lease_expires_at <= ? AND unresolved_blockers = 0 AND join_state = 'satisfied'"
    f" AND (gate_at IS NULL OR gate_at <= ?){_LATE}"
)
SETTLING: Final = (
    "SELECT n FROM items WHERE status IS 'open' AND join_state IN ('propagate_failure', 'propagate_cancellation')"
    f" AND realm_id = ? AND namespace = ?{_CARRIES} ORDER BY created_at, id LIMIT ?"
)
SETTLING_ELAPSED: Final = (
    "SELECT n FROM items WHERE lease_expires_at <= ? AND join_state IN ('propagate_failure', 'propagate_cancellation')"
    f" AND realm_id || '' = ? AND namespace = ?{_CARRIES} ORDER BY created_at, id LIMIT ?"
)
LEASE_DUE: Final = "SELECT 1 FROM items WHERE lease_expires_at <= ? AND realm_id || '' = ? AND namespace = ? LIMIT 1"
GATE_DUE: Final = (
    "SELECT 1 FROM items WHERE stage = 2 AND gate_at <= ? AND realm_id || '' = ? AND namespace = ? LIMIT 1"
)
HOW_MANY: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM item_labels WHERE stage = 1 AND realm_id = ? AND namespace = ? AND label = ?"
    " LIMIT 1000)"
)
NEXT_GATE: Final = (
    "SELECT gate_at FROM items WHERE stage = 2 AND gate_at > ? AND realm_id || '' = ? AND namespace = ?"
    " ORDER BY gate_at LIMIT 1"
)


def is_due(tx: Tx, scope: Scope) -> bool:
    """Whether time has done something in a scope that nobody has written down.

    Asked once in a transaction where it has not: nothing is due at the instant at which it is written.
    """
    quiet = (is_due, scope)
    if quiet in tx.memo:
        return False
    due = any(tx.execute(sql, (tx.now, *scope)).fetchone() for sql in (LEASE_DUE, GATE_DUE))
    if not due:
        tx.memo[quiet] = True
    return due


def ready(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], limit: int, after: Key = FIRST) -> Iterator[Item]:
    """What is ready now behind `after` and carries all labels, most urgent first, at most `limit`."""
    indexed = _indexed(tx, scope, labels, after)
    late = _late(tx, scope, labels, limit, after)
    return islice(heapq.merge(indexed, late, key=_order) if late else indexed, limit)


def first(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], *, due: bool = True) -> Item | None:
    """The most urgent ready item. `due` False where nothing is (see `is_due`)."""
    return next(ready(tx, scope, labels, 1) if due else _indexed(tx, scope, labels, FIRST), None)


def _late(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], limit: int, after: Key) -> list[Item]:
    """What time alone has made ready."""
    behind = (*scope, rows.encoded(labels), *after, limit)
    found = _rows(tx, OPENED, tx.now, *behind) + _rows(tx, ELAPSED, tx.now, tx.now, *behind)
    return sorted(found, key=_order)


def _rows(tx: Tx | Snapshot, sql: str, *params: object) -> list[Item]:
    """The items whose numbers a statement finds: it has sorted those, not whole rows."""
    return [rows.by_n(tx, n) for (n,) in tx.execute(sql, params).fetchall()]


def _indexed(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], after: Key) -> Iterator[Item]:
    if not labels:
        return map(item_of, tx.execute(READY, (*scope, *after)))
    rarest = labels[0] if len(labels) == 1 else min(labels, key=lambda label: _how_many(tx, scope, label))
    others = rows.encoded([label for label in labels if label != rarest])
    return map(item_of, tx.execute(READY_LABEL, (*scope, rarest, *after, others)))


def _how_many(tx: Tx | Snapshot, scope: Scope, label: str) -> int:
    """How many ready items carry a label, as far as it matters which of some labels is the rarest."""
    count: int = tx.execute(HOW_MANY, (*scope, label)).fetchone()[0]
    return count


def settling(tx: Tx, scope: Scope, labels: Sequence[str], limit: int, *, due: bool = True) -> list[Item]:
    """Parents that their children have decided about, oldest first. Who held one has lost it with the lease."""
    of_scope = (*scope, rows.encoded(labels), limit)
    found = _rows(tx, SETTLING, *of_scope)
    if due:
        found = sorted(found + _rows(tx, SETTLING_ELAPSED, tx.now, *of_scope), key=_age)[:limit]
    return found


def next_due(snap: Tx | Snapshot, scope: Scope) -> int | None:
    """When time alone changes next what is ready: a gate opens or a lease ends, after now; None where none will."""
    gate = snap.execute(NEXT_GATE, (snap.now, *scope)).fetchone()
    ends = [leases.next_end(snap, scope, None), None if gate is None else gate[0]]
    return min((instant for instant in ends if instant is not None), default=None)
