"""Edges: who blocks whom, whose child is whose (contract workgraph 1, 6). Those two kinds together stay acyclic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from interlock.lifecycle import authority, readiness
from interlock.lifecycle.bounds import CYCLE_EDGES
from interlock.lifecycle.readiness import MovedBy
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import rfc3339
from interlock.lifecycle.work import TERMINAL, Edge, EdgeKind, OnFailure

from ..tx import Snapshot, Tx
from . import rows
from .judging import act_under, transition
from .rows import Item
from .saving import save
from .scope import Scope, emit, present

FIND: Final = "SELECT on_failure, created_at FROM edges WHERE from_item = ? AND kind = ? AND to_item = ?"
ADD: Final = "INSERT INTO edges(from_item, kind, to_item, on_failure, created_at) VALUES (?, ?, ?, ?, ?)"
CHANGE: Final = "UPDATE edges SET on_failure = ? WHERE from_item = ? AND kind = ? AND to_item = ?"
REMOVE: Final = "DELETE FROM edges WHERE from_item = ? AND kind = ? AND to_item = ? RETURNING on_failure, created_at"
AFTER: Final = (
    "SELECT e.from_item, e.to_item FROM json_each(?) AS j JOIN edges AS e ON e.from_item = j.value"
    " WHERE e.kind IN ('blocks', 'parent')"
)
BEFORE: Final = (
    "SELECT e.to_item, e.from_item FROM json_each(?) AS j JOIN edges AS e ON e.to_item = j.value"
    " WHERE e.kind IN ('blocks', 'parent')"
)


class Ends(NamedTuple):
    """The two items of an edge, and its kind."""

    kind: EdgeKind
    source: Item
    target: Item

    @property
    def key(self) -> tuple[int, str, int]:
        """The edge in the table."""
        return self.source.n, self.kind, self.target.n


def find_ends(tx: Tx, scope: Scope, kind: EdgeKind, from_id: str, to_id: str) -> Ends:
    """The items that an edge joins. Raises `not_found`."""
    return Ends(kind, rows.find(tx, scope, from_id), rows.find(tx, scope, to_id))


def record(ends: Ends, on_failure: OnFailure | None, created_at: int) -> Edge:
    """The edge as results show it."""
    return shown(ends.source, ends.kind, ends.target.id, on_failure, created_at)


def shown(source: Item, kind: EdgeKind, to_id: str, on_failure: OnFailure | None, created_at: int) -> Edge:
    """The edge to an item of which no more than its id is known."""
    return Edge(
        realm_id=source.realm_id,
        namespace=source.namespace,
        kind=kind,
        from_id=source.id,
        to_id=to_id,
        on_failure=on_failure,
        created_at=rfc3339(created_at),
    )


def link(tx: Tx, ends: Ends, on_failure: OnFailure | None, binding_id: str | None, caller: Caller) -> Edge:
    """Add an edge, or change when a `blocks` edge lets go.

    Raises `authority_missing`, `invalid_transition` (`self_edge`, `cycle`), `duplicate`, `too_large`.
    """
    _permit(tx, ends, binding_id)
    if ends.source.n == ends.target.n:
        raise transition(ends.source, "self_edge", "an item cannot be linked to itself")
    if ends.kind == "blocks":
        on_failure = on_failure or "block"
    found = tx.execute(FIND, ends.key).fetchone()
    if found is not None:
        if found[0] == on_failure:
            raise Refusal("duplicate", f"{ends.source.id} {ends.kind} {ends.target.id} already", kind="edge")
        return _change(tx, ends, found, on_failure, caller)
    if ends.kind in ("blocks", "parent"):
        _refuse_cycle(tx, ends)
    tx.execute(ADD, (*ends.key, on_failure, tx.now))
    edge = record(ends, on_failure, tx.now)
    emit(tx, ends.target.scope, "linked", ends.target.id, {"edge": edge}, caller)
    _count(tx, ends, on_failure, 1, caller, "updated")
    return edge


def _change(tx: Tx, ends: Ends, found: Any, on_failure: OnFailure | None, caller: Caller) -> Edge:
    tx.execute(CHANGE, (on_failure, *ends.key))
    edge = record(ends, on_failure, found[1])
    emit(tx, ends.target.scope, "edge_changed", ends.target.id, {"edge": edge}, caller)
    was, now = (readiness.holds_back(ends.source.status, when or "block") for when in (found[0], on_failure))
    if was != now:
        _move(tx, ends.target, {"unresolved_blockers": int(now) - int(was)}, caller, "waived", ends.source.id)
    return edge


def find(tx: Tx, scope: Scope, kind: EdgeKind, from_id: str, to_id: str) -> Ends:
    """The ends of an edge that is there. Raises `not_found`, also where an end is not."""
    source, target = rows.get(tx, scope, from_id), rows.get(tx, scope, to_id)
    if source is not None and target is not None:
        ends = Ends(kind, source, target)
        if tx.execute(FIND, ends.key).fetchone() is not None:
            return ends
    edge = present(kind=kind, from_id=from_id, to_id=to_id)
    raise Refusal("not_found", f"there is no edge {from_id} {kind} {to_id}", kind="edge", edge=edge)


def unlink(tx: Tx, ends: Ends, binding_id: str | None, caller: Caller) -> Edge:
    """Remove an edge, which is there. Raises `authority_missing`."""
    _permit(tx, ends, binding_id)
    on_failure, created_at = tx.execute(REMOVE, ends.key).fetchone()
    edge = record(ends, on_failure, created_at)
    emit(tx, ends.target.scope, "unlinked", ends.target.id, {"edge": edge}, caller)
    _count(tx, ends, on_failure, -1, caller, "unlinked")
    return edge


def _permit(tx: Tx, ends: Ends, binding_id: str | None) -> None:
    """Under a binding: the kinds that its mode may link, one end the bound item (contract workgraph 3.3)."""
    if binding_id is not None:
        act_under(tx, ends.source.scope, binding_id, (ends.source.n, ends.target.n), authority.linking(ends.kind))


def _count(tx: Tx, ends: Ends, on_failure: OnFailure | None, by: int, caller: Caller, cause: MovedBy) -> None:
    """Keep the target's counters equal to its edges."""
    if ends.kind == "blocks" and readiness.holds_back(ends.source.status, on_failure or "block"):
        _move(tx, ends.target, {"unresolved_blockers": by}, caller, cause, ends.source.id)
    elif ends.kind == "parent":
        standing = ends.source.status if ends.source.status in TERMINAL else "active"
        _move(tx, ends.target, {f"children_{standing}": by}, caller, cause, ends.source.id)


def _move(tx: Tx, item: Item, by: dict[str, int], caller: Caller, cause: MovedBy, other: str) -> None:
    after = item._replace(**{name: getattr(item, name) + step for name, step in by.items()})
    save(tx, item, after, caller, cause, other)


def _refuse_cycle(tx: Tx, ends: Ends) -> None:
    path = path_between(tx, ends.target.n, ends.source.n)
    if path:
        cycle = rows.ids_of(tx, path)
        says = f"{cycle[0]} leads to {cycle[-1]} already, through {len(cycle)} items with both"
        raise transition(ends.source, "cycle", says, cycle=cycle)


def path_between(tx: Tx | Snapshot, start: int, goal: int) -> list[int]:
    """A way along the edges from `start` to `goal`, both included; empty where there is none.

    Searched from both ends, the smaller front first: a new item has no edges on one side, and costs nothing. Raises
    `too_large` beyond 50,000 edges.
    """
    fronts = (_Front(AFTER, start), _Front(BEFORE, goal))
    seen = 0
    while fronts[0].edge and fronts[1].edge:
        this, other = sorted(fronts, key=lambda front: len(front.edge))
        for here, there in this.step(tx):
            seen += 1
            if seen > CYCLE_EDGES:
                message = f"whether this closes a cycle takes more than {CYCLE_EDGES} edges to tell"
                raise Refusal("too_large", message, path="", max=CYCLE_EDGES)
            this.reach(there, here)
            if there in other.came_from:
                return fronts[0].way(there)[::-1] + fronts[1].way(there)[1:]
    return []


class _Front:
    """One side of the search: what it has reached, from where, and what it has not looked behind."""

    def __init__(self, sql: str, start: int) -> None:
        self._sql = sql
        self.came_from: dict[int, int | None] = {start: None}
        self.edge = [start]

    def step(self, tx: Tx | Snapshot) -> Iterable[tuple[int, int]]:
        edge, self.edge = self.edge, []
        return tx.execute(self._sql, (msgspec.json.encode(edge).decode(),))

    def reach(self, there: int, here: int) -> None:
        if there not in self.came_from:
            self.came_from[there] = here
            self.edge.append(there)

    def way(self, at: int | None) -> list[int]:
        """From `at` back to the start."""
        way = []
        while at is not None:
            way.append(at)
            at = self.came_from[at]
        return way
