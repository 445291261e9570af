"""`workgraph/explain`, `link`, `unlink`, `snapshot` and `events`: how items hang together (contract workgraph 6)."""

from __future__ import annotations

from msgspec import field

from interlock.lifecycle.attention import AttentionBinding
from interlock.lifecycle.events import Event
from interlock.lifecycle.types import Id, PageLimit, Seq, Time
from interlock.lifecycle.work import Edge, EdgeKind, Explanation, OnFailure, Status, WorkItem

from .contract import Method, PageResult, Result
from .ledger_feed import FilterValues
from .workgraph import FilterLabels, ItemParams, OpParams, OpResult, ScopePageParams, ScopeParams


class ExplainResult(Explanation, frozen=True, kw_only=True):
    """An Explanation."""


class LinkParams(OpParams, frozen=True, kw_only=True):
    """An edge; `on_failure` on `blocks` only."""

    kind: EdgeKind
    from_id: Id
    to_id: Id
    on_failure: OnFailure | None = None
    binding_id: Id | None = None


class UnlinkParams(OpParams, frozen=True, kw_only=True):
    """Which edge."""

    kind: EdgeKind
    from_id: Id
    to_id: Id
    binding_id: Id | None = None


class EdgeResult(OpResult, frozen=True, kw_only=True):
    """The edge as stored, or as it was."""

    edge: Edge


class SnapshotParams(ScopePageParams, frozen=True, kw_only=True):
    """Filters as in `workgraph/list`."""

    statuses: list[Status] = field(default_factory=list)
    include_terminal: bool = False
    labels: FilterLabels = field(default_factory=list)


class SnapshotResult(PageResult, frozen=True, kw_only=True):
    """A page of items with what belongs to them, from one consistent read."""

    realm_id: Id
    namespace: Id
    all_namespaces: bool
    captured_at: Time
    event_high_water_mark: Seq
    items: list[WorkItem]
    edges: list[Edge]
    attention: list[AttentionBinding]
    ready_item_ids: list[Id]


class EventsParams(ScopeParams, frozen=True, kw_only=True):
    """The feed of this family and scope, strictly above `after_seq` (absent: the oldest kept)."""

    after_seq: Seq | None = None
    types: FilterValues | None = None
    subjects: FilterValues | None = None
    limit: PageLimit = 0


class EventsResult(Result, frozen=True, kw_only=True):
    """`scanned_seq` is the next `after_seq`."""

    events: list[Event]
    scanned_seq: Seq
    has_more: bool
    as_of_seq: Seq
    floor: Seq


EXPLAIN = Method(
    name="workgraph/explain",
    summary="Why an item is not ready, and what would change that",
    params=ItemParams,
    result=ExplainResult,
    kind="read",
    errors=("not_found",),
)
LINK = Method(
    name="workgraph/link",
    summary="Let one item block, belong to or relate to another",
    params=LinkParams,
    result=EdgeResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "invalid_transition", "duplicate", "authority_missing", "op_conflict"),
)
UNLINK = Method(
    name="workgraph/unlink",
    summary="Remove an edge",
    params=UnlinkParams,
    result=EdgeResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "invalid_transition", "authority_missing", "op_conflict"),
)
SNAPSHOT = Method(
    name="workgraph/snapshot",
    summary="Items with their edges and attention, page by page",
    params=SnapshotParams,
    result=SnapshotResult,
    kind="read",
    errors=("limit_out_of_range",),
)
EVENTS = Method(
    name="workgraph/events",
    summary="The event feed of one scope of the work graph",
    params=EventsParams,
    result=EventsResult,
    kind="read",
    errors=("cursor_expired", "cursor_ahead", "limit_out_of_range"),
)

METHODS = (EXPLAIN, LINK, UNLINK, SNAPSHOT, EVENTS)
