"""What a snapshot shows of an item: itself, the edges out of it, who attends to it (contract workgraph 6)."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.lifecycle.attention import AttentionBinding
from interlock.lifecycle.work import Edge, WorkItem

from ..tx import Snapshot
from . import bindings, edges, rows
from .listing import Wanted
from .rows import Item

# CROSS JOIN: along the edges. Of the item at the other end no more is read than the filter needs.
OUT_OF: Final = (
    "SELECT e.kind, e.on_failure, e.created_at, i.id, i.status, i.labels"
    " FROM edges AS e CROSS JOIN items AS i ON i.n = e.to_item WHERE e.from_item = ? ORDER BY e.kind, e.to_item"
)
ATTENTION: Final = f"SELECT {bindings.ROW} FROM attention WHERE item = ? ORDER BY updated_at, binding_id"


class Part(NamedTuple):
    """All that a page has of one item."""

    item: WorkItem
    edges: list[Edge]
    attention: list[AttentionBinding]
    ready: bool


def part(snap: Snapshot, item: Item, wanted: Wanted) -> Part:
    """An item with the edges out of it whose other end the filter lets through, and its bindings of every status.

    So over all pages each edge comes once. Whether it is ready is judged on the full graph.
    """
    return Part(
        item=rows.record(snap, item),
        edges=[
            edges.shown(item, kind, to_id, on_failure, created_at)
            for kind, on_failure, created_at, to_id, status, labels in snap.execute(OUT_OF, (item.n,))
            if wanted.admits(status, labels)
        ],
        attention=[bindings.record(snap, row) for row in bindings.rows_of(snap, ATTENTION, item.n)],
        ready=item.ready(snap.now),
    )
