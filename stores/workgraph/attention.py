"""Reading bindings: pages by filter, and what a target attends to now (contract workgraph 8)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final, Literal, NamedTuple

from interlock.lifecycle.attention import OCCUPYING, ParentContext
from interlock.lifecycle.projection import Subject
from interlock.lifecycle.work import WorkRef

from ..tx import Snapshot
from . import bindings, occupancy, rows
from .bindings import ROW, Binding, binding_of, rows_of
from .rows import Item
from .scanning import Key, scan
from .scope import Scope

Wanted = Literal["active", "paused", "superseded", "stopped", "occupying"]

_PAGE: Final = " AND (updated_at, binding_id) > (?, ?) ORDER BY updated_at, binding_id"
_LISTED: Final = f"{ROW} FROM attention WHERE realm_id = ? AND namespace = ? AND"
ACTIVE: Final = f"SELECT {_LISTED} status = 'active'{_PAGE}"
PAUSED: Final = f"SELECT {_LISTED} status = 'paused'{_PAGE}"
SUPERSEDED: Final = f"SELECT {_LISTED} status = 'superseded'{_PAGE}"
STOPPED: Final = f"SELECT {_LISTED} status = 'stopped'{_PAGE}"
BY_TARGET: Final = f"SELECT {_LISTED} target_key = ?{_PAGE}"
BY_ITEM: Final = f"SELECT {ROW} FROM attention WHERE item = ?{_PAGE}"
# `realm_id || ''` keeps SQLite to the index of pauses that end: those over and not yet swept are few.
ELAPSED: Final = (
    f"SELECT {ROW} FROM attention WHERE paused_until <= ? AND realm_id || '' = ? AND namespace = ?"
    " AND status IN ('active', 'paused')"
)
ITEM: Final = "SELECT n FROM items WHERE id = ? AND realm_id = ? AND namespace = ?"
PARENTS: Final = "SELECT to_item FROM edges WHERE from_item = ? AND kind = 'parent'"

_BY_STATE: Final = {"active": ACTIVE, "paused": PAUSED, "superseded": SUPERSEDED, "stopped": STOPPED}
_STATES: Final = {
    "active": OCCUPYING,
    "paused": frozenset({"paused"}),
    "superseded": frozenset({"superseded"}),
    "stopped": frozenset({"stopped"}),
    "occupying": OCCUPYING,
    None: frozenset(_BY_STATE),
}
"""In which states what is asked for may be: a pause that is over counts as active."""

FIRST: Final[Key] = (-(2**63), "")


class Filter(NamedTuple):
    """What a page is asked for; None is everything."""

    status: Wanted | None = None
    target_key: str | None = None
    item_id: str | None = None


class Scanned(NamedTuple):
    """Bindings in order, and the key to go on behind; None at the end."""

    bindings: list[Binding]
    next_key: Key | None


def page(snap: Snapshot, scope: Scope, wanted: Filter, after: Key, limit: int) -> Scanned:
    """Bindings in the order of their last change, above the key `after`, at most `limit`."""
    walk = _stream(snap, scope, wanted, after)
    return Scanned(*scan(walk, lambda row: _fits(row, wanted, snap.now), key_of, limit))


def key_of(row: Binding) -> Key:
    """Its place in the order of pages."""
    return row.updated_at, row.binding_id


def _stream(snap: Snapshot, scope: Scope, wanted: Filter, after: Key) -> Iterator[Binding]:
    """The rows of the narrowest index, in order."""
    if wanted.item_id is not None:
        item = snap.execute(ITEM, (wanted.item_id, *scope)).fetchone()
        if item is None:
            return iter(())
        if _STATES[wanted.status] <= OCCUPYING:
            return _sorted(bindings.of_item(snap, item[0]), after)
        return _read(snap, BY_ITEM, item[0], *after)
    if wanted.target_key is not None:
        if _STATES[wanted.status] <= OCCUPYING:
            return _sorted(occupancy.occupants(snap, scope, wanted.target_key), after)
        duplicates = rows_of(snap, occupancy.BY_ALIAS, *scope, wanted.target_key)
        theirs = _read(snap, BY_TARGET, *scope, wanted.target_key, *after)
        return merge(theirs, _sorted(duplicates, after), key=key_of)
    if wanted.status == "active":
        elapsed = rows_of(snap, ELAPSED, snap.now, *scope)
        return merge(_read(snap, ACTIVE, *scope, *after), _sorted(elapsed, after), key=key_of)
    states = (_read(snap, _BY_STATE[state], *scope, *after) for state in _STATES[wanted.status])
    return merge(*states, key=key_of)


def _sorted(found: list[Binding], after: Key) -> Iterator[Binding]:
    return iter(sorted((row for row in found if key_of(row) > after), key=key_of))


def _read(snap: Snapshot, sql: str, *about: Any) -> Iterator[Binding]:
    """Rows one by one, no more than are asked for."""
    return map(binding_of, snap.execute(sql, about))


def _fits(row: Binding, wanted: Filter, now: int) -> bool:
    if wanted.target_key is not None and wanted.target_key not in (row.target_key, row.alias_key):
        return False
    if row.status not in _STATES[wanted.status]:
        return False
    match wanted.status:
        case "active":
            return row.eligible(now)
        case "paused":
            return not row.eligible(now)
        case _:
            return True


def attending(snap: Snapshot, scope: Scope, key: str) -> list[Binding]:
    """What a target is to attend to now, the winner of arbitration first."""
    return [row for row in occupancy.occupants(snap, scope, key) if row.eligible(snap.now)]


def parents_of(snap: Snapshot, item: Item) -> list[Item]:
    """The parents of an item, by id."""
    found = [rows.by_n(snap, n) for (n,) in snap.execute(PARENTS, (item.n,)).fetchall()]
    return sorted(found, key=lambda parent: parent.id)


def subject(snap: Snapshot, item: Item) -> Subject:
    """An item as a projection tells it."""
    return Subject(item.id, item.title, item.status, item.revision, rows.content_of(snap, item)[0])


def ref(item: Item) -> WorkRef:
    """An item by its scope and id."""
    return WorkRef(realm_id=item.realm_id, namespace=item.namespace, item_id=item.id)


def context(item: Item) -> ParentContext:
    """A parent, as it stands."""
    return ParentContext(work_ref=ref(item), status=item.status, revision=item.revision)
