"""What belongs to a page of items: their edges, who attends to them, which are ready (contract workgraph 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.lifecycle import readiness
from interlock.lifecycle.work import Edge

from ..tx import Snapshot
from . import bindings, edges, rows
from .bindings import Binding
from .edges import Ends
from .listing import Wanted
from .rows import Item

OUT_OF: Final = "SELECT kind, to_item, on_failure, created_at FROM edges WHERE from_item = ? ORDER BY kind, to_item"
ATTENTION: Final = f"SELECT {bindings.COLUMNS} FROM attention WHERE item = ? ORDER BY updated_at, binding_id"


def edges_of(snap: Snapshot, items: Sequence[Item], wanted: Wanted) -> list[Edge]:
    """The edges out of these items whose other end the filter lets through: over all pages, each edge once."""
    known = {item.n: item for item in items}
    found = []
    for item in items:
        for kind, to_n, on_failure, created_at in snap.execute(OUT_OF, (item.n,)):
            other = known.get(to_n) or rows.by_n(snap, to_n)
            if wanted.lets_through(other):
                found.append(edges.record(Ends(kind, item, other), on_failure, created_at))
    return found


def ready_ids(items: Sequence[Item], now: int) -> list[str]:
    """Those of the items that are ready, judged on the full graph."""
    return [
        item.id
        for item in items
        if readiness.is_ready(item.phase(now), item.unresolved_blockers, item.join_state, item.gate_at, now)
    ]


def attention_of(snap: Snapshot, items: Sequence[Item]) -> list[Binding]:
    """The bindings of the items, of every status."""
    return [row for item in items for row in bindings.rows_of(snap, ATTENTION, item.n)]
