"""Pages of items in the order of their last change (contract workgraph 6, `list` and `snapshot`).

One index walk for each status, merged: a page costs what it returns, however many items have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, get_args

from interlock.lifecycle.work import TERMINAL, OwnerKey, Status

from ..tx import Snapshot
from . import rows
from .rows import JOINED_ROW, ROW, Item, item_of
from .scanning import Key, scan
from .scope import Scope

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

FIRST: Final[Key] = (-1, "")
LAST: Final[Key] = (2**63 - 1, "\U0010ffff")

_OF_LABEL: Final = (
    f"SELECT {JOINED_ROW} FROM item_labels AS l JOIN items AS i ON i.n = l.item"
    " WHERE l.realm_id = ? AND l.namespace = ? AND l.status = ? AND l.label = ?"
)
_OF_STATUS: Final = f"SELECT {ROW} FROM items WHERE realm_id = ? AND namespace = ? AND status = ?"
_OF_OWNER: Final = f"SELECT {ROW} FROM items WHERE realm_id = ? AND namespace = ? AND owner_kind = ? AND owner_id = ?"
_UP: Final = " AND (updated_at, id) > (?, ?) ORDER BY updated_at, id"
_DOWN: Final = " AND (updated_at, id) < (?, ?) ORDER BY updated_at DESC, id DESC"
_LABEL_UP: Final = " AND (l.updated_at, l.id) > (?, ?) ORDER BY l.updated_at, l.id"
_LABEL_DOWN: Final = " AND (l.updated_at, l.id) < (?, ?) ORDER BY l.updated_at DESC, l.id DESC"
BY_STATUS: Final = _OF_STATUS + _UP
BY_STATUS_DOWN: Final = _OF_STATUS + _DOWN
BY_LABEL: Final = _OF_LABEL + _LABEL_UP
BY_LABEL_DOWN: Final = _OF_LABEL + _LABEL_DOWN
BY_OWNER: Final = _OF_OWNER + _UP
BY_OWNER_DOWN: Final = _OF_OWNER + _DOWN
HOW_MANY: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM item_labels WHERE realm_id = ? AND namespace = ? AND status = ? AND label = ?"
    " LIMIT 1000)"
)


class Wanted(NamedTuple):
    """Which items; labels must all be there."""

    statuses: tuple[Status, ...]
    labels: tuple[str, ...] = ()
    owner: OwnerKey | None = None
    down: bool = False

    def lets_through(self, item: Item) -> bool:
        """The same choice for an item at hand."""
        held = self.owner is None or (item.owner_kind, item.owner_id) == (self.owner.kind, self.owner.id)
        return held and self.admits(item.status, item.labels)

    def admits(self, status: Status, labels: str | None) -> bool:
        """The same choice by status and labels alone; the labels are as the row has them."""
        return status in self.statuses and (not self.labels or set(self.labels) <= set(rows.labels_in(labels)))


def statuses_of(given: Sequence[Status], include_terminal: bool) -> tuple[Status, ...]:
    """Which statuses a filter means: those named, else all that are not terminal, or all."""
    if given:
        return tuple(dict.fromkeys(given))
    return STATUSES if include_terminal else tuple(status for status in STATUSES if status not in TERMINAL)


class Scanned(NamedTuple):
    """Items in order, and the key to go on behind; None at the end."""

    items: list[Item]
    next_key: Key | None


def key_of(item: Item) -> Key:
    """Its place in the order."""
    return item.updated_at, item.id


def page(snap: Snapshot, scope: Scope, wanted: Wanted, after: Key | None, limit: int) -> Scanned:
    """At most `limit` items behind `after`, which is a key of this order."""
    start = after or (LAST if wanted.down else FIRST)
    walk = heapq.merge(*_walks(snap, scope, wanted, start), key=key_of, reverse=wanted.down)
    return Scanned(*scan(walk, wanted.lets_through, key_of, limit))


def _walks(snap: Snapshot, scope: Scope, wanted: Wanted, start: Key) -> Iterator[Iterator[Item]]:
    if wanted.owner is not None:  # who holds an item is asked of the few that are held
        sql = BY_OWNER_DOWN if wanted.down else BY_OWNER
        yield map(item_of, snap.execute(sql, (*scope, wanted.owner.kind, wanted.owner.id, *start)))
        return
    for status in wanted.statuses:
        if wanted.labels:
            label = _rarest(snap, scope, status, wanted.labels)
            sql = BY_LABEL_DOWN if wanted.down else BY_LABEL
            yield map(item_of, snap.execute(sql, (*scope, status, label, *start)))
        else:
            sql = BY_STATUS_DOWN if wanted.down else BY_STATUS
            yield map(item_of, snap.execute(sql, (*scope, status, *start)))


def _rarest(snap: Snapshot, scope: Scope, status: Status, labels: Sequence[str]) -> str:
    if len(labels) == 1:
        return labels[0]
    return min(labels, key=lambda label: snap.execute(HOW_MANY, (*scope, status, label)).fetchone()[0])
