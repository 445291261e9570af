"""Which items may be begun, in their order: the index of ready items, and what time alone has made ready.

An item is in the ready index while its row says so (stage 1). A gate that has opened, or a lease that has elapsed,
makes it ready at once, though the sweeper writes that down only within a second: those few rows are read beside.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Final

from interlock.lifecycle.readiness import SETTLES, is_clear, is_open

from ..tx import Snapshot, Tx
from . import leases, rows
from .rows import COLUMNS, Item
from .scope import Scope

Key = tuple[int, int, int, str]
"""A place in the order: priority, deadline, creation, id."""
FIRST: Final[Key] = (-1, 0, 0, "")
_age: Final = attrgetter("created_at", "id")

READY: Final = (
    f"SELECT {COLUMNS} FROM items WHERE stage = 1 AND realm_id = ? AND namespace = ?"
    " AND (priority, due_order, created_at, id) > (?, ?, ?, ?) ORDER BY priority, due_order, created_at, id"
)
READY_LABEL: Final = (
    f"SELECT {', '.join(f'i.{name}' for name in Item._fields)} FROM item_labels AS l JOIN items AS i ON i.n = l.item"
    " WHERE l.stage = 1 AND l.realm_id = ? AND l.namespace = ? AND l.label = ?"
    " AND (l.priority, l.due_order, l.created_at, l.id) > (?, ?, ?, ?)"
    " ORDER BY l.priority, l.due_order, l.created_at, l.id"
)
# `realm_id || ''` keeps SQLite from the index of all items of a scope: what is due is few, the scope may be everything.
OPENED: Final = f"SELECT {COLUMNS} FROM items WHERE stage = 2 AND gate_at <= ? AND realm_id || '' = ? AND namespace = ?"
ELAPSED: Final = f"SELECT {COLUMNS} FROM items WHERE lease_expires_at <= ? AND realm_id || '' = ? AND namespace = ?"
SETTLING: Final = (
    f"SELECT {COLUMNS} FROM items WHERE status IS 'open'"
    " AND join_state IN ('propagate_failure', 'propagate_cancellation') AND realm_id = ? AND namespace = ?"
    " ORDER BY created_at, id"
)
HOW_MANY: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM item_labels WHERE stage = 1 AND realm_id = ? AND namespace = ? AND label = ?"
    " LIMIT 1000)"
)
NEXT_GATE: Final = (
    "SELECT gate_at FROM items WHERE stage = 2 AND gate_at > ? AND realm_id || '' = ? AND namespace = ?"
    " ORDER BY gate_at LIMIT 1"
)


def ready(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], after: Key = FIRST) -> Iterator[Item]:
    """What is ready now behind `after` and carries all labels, most urgent first. Read it only as far as needed."""
    late = [item for item in _since_the_sweep(tx, scope) if item.order > after and _carries(item, labels)]
    indexed = _indexed(tx, scope, labels, after)
    if not late:
        return indexed
    late.sort(key=attrgetter("order"))
    return heapq.merge(indexed, late, key=attrgetter("order"))


def first(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str]) -> Item | None:
    """The most urgent ready item."""
    return next(ready(tx, scope, labels), None)


def _indexed(tx: Tx | Snapshot, scope: Scope, labels: Sequence[str], after: Key) -> Iterator[Item]:
    if not labels:
        return map(Item._make, tx.execute(READY, (*scope, *after)))
    rarest = labels[0] if len(labels) == 1 else min(labels, key=lambda label: _how_many(tx, scope, label))
    found = map(Item._make, tx.execute(READY_LABEL, (*scope, rarest, *after)))
    return (item for item in found if _carries(item, labels))


def _how_many(tx: Tx | Snapshot, scope: Scope, label: str) -> int:
    """How many ready items carry a label, as far as it matters which of some labels is the rarest."""
    count: int = tx.execute(HOW_MANY, (*scope, label)).fetchone()[0]
    return count


def _since_the_sweep(tx: Tx | Snapshot, scope: Scope) -> Iterator[Item]:
    """What time has made ready and no transaction has written down yet."""
    due = (tx.now, *scope)
    opened = map(Item._make, tx.execute(OPENED, due))
    elapsed = map(Item._make, tx.execute(ELAPSED, due))
    return chain(opened, (item for item in elapsed if ready_but_for_its_claim(item, tx.now)))


def ready_but_for_its_claim(item: Item, now: int) -> bool:
    """Whether nothing but its claim is in the way."""
    return is_clear(item.unresolved_blockers, item.join_state) and is_open(item.gate_at, now)


def _carries(item: Item, labels: Sequence[str]) -> bool:
    return not labels or set(labels) <= set(rows.labels_of(item))


def settling(tx: Tx, scope: Scope, labels: Sequence[str], limit: int) -> list[Item]:
    """Parents that their children have decided about, oldest first. Who held one has lost it with the lease."""
    indexed = map(Item._make, tx.execute(SETTLING, scope))
    elapsed = map(Item._make, tx.execute(ELAPSED, (tx.now, *scope)))
    late = sorted((item for item in elapsed if item.join_state in SETTLES), key=_age)
    found = heapq.merge(indexed, late, key=_age)
    return list(islice((item for item in found if _carries(item, labels)), limit))


def next_due(snap: Tx | Snapshot, scope: Scope) -> int | None:
    """When time alone changes next what is ready: a gate opens or a lease ends, after now; None where none will."""
    gate = snap.execute(NEXT_GATE, (snap.now, *scope)).fetchone()
    ends = [leases.next_end(snap, scope, None), None if gate is None else gate[0]]
    return min((instant for instant in ends if instant is not None), default=None)
