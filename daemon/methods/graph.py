"""`workgraph/explain`, `link`, `unlink`, `snapshot` and `events`: how items hang together."""

from __future__ import annotations

from msgspec import structs

from interlock.lifecycle.times import rfc3339
from interlock.protocol import paging
from interlock.protocol import workgraph_graph as contract
from interlock.protocol.ledger_feed import EVENT_TYPES
from interlock.protocol.workgraph import ItemParams
from interlock.stores.feed import FeedFilter
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import edges, explaining, listing, rows, snapshots
from interlock.stores.workgraph.scope import FAMILY

from ..dispatch import Call, reads, writes
from .feed import any_of, check_known, events_page
from .work import LIST_KEY, scope_of, wrong


@reads(contract.EXPLAIN)
def explain(snap: Snapshot, call: Call, params: ItemParams) -> contract.ExplainResult:
    explained = explaining.explain(snap, rows.find(snap, scope_of(params), params.id))
    return contract.ExplainResult(**structs.asdict(explained))


def _check_link(params: contract.LinkParams) -> None:
    if params.on_failure is not None and params.kind != "blocks":
        raise wrong("/on_failure", f"a {params.kind} edge has no on_failure", "nothing, or kind blocks")


@writes(contract.LINK, check=_check_link)
def link(tx: Tx, call: Call, params: contract.LinkParams) -> contract.EdgeResult:
    ends = edges.find_ends(tx, scope_of(params), params.kind, params.from_id, params.to_id)
    return contract.EdgeResult(edge=edges.link(tx, ends, params.on_failure, params.binding_id, call.caller))


@writes(contract.UNLINK)
def unlink(tx: Tx, call: Call, params: contract.UnlinkParams) -> contract.EdgeResult:
    ends = edges.find(tx, scope_of(params), params.kind, params.from_id, params.to_id)
    return contract.EdgeResult(edge=edges.unlink(tx, ends, params.binding_id, call.caller))


@reads(contract.SNAPSHOT)
def snapshot(snap: Snapshot, call: Call, params: contract.SnapshotParams) -> contract.SnapshotResult:
    statuses = listing.statuses_of(params.statuses, params.include_terminal)
    wanted = listing.Wanted(statuses, tuple(dict.fromkeys(params.labels)))
    after = paging.key_of(contract.SNAPSHOT.name, params, LIST_KEY)
    limit = paging.limit_of(params)
    scanned = listing.page(snap, scope_of(params), wanted, after, limit)
    parts, key = paging.page(scanned.items, limit, lambda item: snapshots.part(snap, item, wanted), listing.key_of)
    head = snap.head()
    return contract.SnapshotResult(
        realm_id=params.realm_id,
        namespace=params.namespace,
        all_namespaces=False,
        captured_at=rfc3339(snap.now),
        event_high_water_mark=head,
        items=[part.item for part in parts],
        edges=[edge for part in parts for edge in part.edges],
        attention=[binding for part in parts for binding in part.attention],
        ready_item_ids=[part.item.id for part in parts if part.ready],
        as_of_seq=head,
        **paging.tail(contract.SNAPSHOT.name, params, scanned.next_key if key is None else key),
    )


@reads(contract.EVENTS)
def events(snap: Snapshot, call: Call, params: contract.EventsParams) -> contract.EventsResult:
    check_known(params.types, EVENT_TYPES[FAMILY], "/types")
    wanted = FeedFilter(
        types=any_of(params.types),
        families=(FAMILY,),
        subjects=any_of(params.subjects),
        realm_id=params.realm_id,
        namespace=params.namespace,
    )
    return events_page(contract.EventsResult, snap, params, wanted)
