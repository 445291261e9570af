"""`ledger/events/*` and `ledger/cursor/*`: params and results (contract ledger 7 and 8)."""

from __future__ import annotations

from typing import Annotated, Literal

from interlock.lifecycle.events import Event
from interlock.lifecycle.mail import Record
from interlock.lifecycle.roles import Cursor
from interlock.lifecycle.types import Id, Json, Name, OpId, PageLimit, Rule, Seq, Time, meta

from .contract import Method, Params, Result
from .limits import FILTER_VALUES

FilterText = Annotated[str, meta(Rule(kind="id", max=256))]
FilterValues = Annotated[
    list[FilterText],
    meta(Rule(kind="list", min=1, max=FILTER_VALUES), minItems=1, maxItems=FILTER_VALUES),
]

EVENT_TYPES: dict[str, tuple[str, ...]] = {
    "daemon": ("leader", "suspend", "clock_step", "peer_refused", "socket_restored"),
    "ledger": (
        "ledger_state",
        "ledger_surfaced",
        "ledger_pruned",
        "role_changed",
        "role_presence",
        "session_state",
        "session_rebound",
        "binding_state",
        "fault",
        "ghost_sweep",
        "hook_changed",
        "turn_end_without_complete",
        "delivery_blocked",
        "handoff",
    ),
    "workgraph": (
        "item_created",
        "item_updated",
        "item_claimed",
        "lease_renewed",
        "item_released",
        "item_blocked",
        "item_unblocked",
        "item_closed",
        "evidence_added",
        "policy_escalated",
        "linked",
        "edge_changed",
        "unlinked",
        "item_ready",
        "item_overdue",
        "namespace_terminal",
        "attention_created",
        "attention_paused",
        "attention_resumed",
        "attention_superseded",
        "attention_stopped",
        "attention_rekeyed",
        "attention_pruned",
        "member_registered",
        "member_retired",
    ),
}
"""Every event type by family. A family adds its own with its methods."""


class EventFilter(Record, frozen=True, kw_only=True):
    """Within one field any value matches; together all fields must; an absent field matches all."""

    types: FilterValues | None = None
    families: FilterValues | None = None
    roles: FilterValues | None = None
    subjects: FilterValues | None = None


class _Filtered(Params, frozen=True, kw_only=True):
    after_seq: Seq | None = None
    types: FilterValues | None = None
    families: FilterValues | None = None
    roles: FilterValues | None = None
    subjects: FilterValues | None = None

    @property
    def filter(self) -> EventFilter:
        """The fields of the filter alone."""
        return EventFilter(types=self.types, families=self.families, roles=self.roles, subjects=self.subjects)


class EventsSinceParams(_Filtered, frozen=True, kw_only=True):
    """A page of the feed, strictly above `after_seq` (absent: the oldest kept)."""

    limit: PageLimit = 0


class EventsSinceResult(Result, frozen=True, kw_only=True):
    """`scanned_seq` is the next `after_seq`."""

    events: list[Event]
    scanned_seq: Seq
    has_more: bool
    as_of_seq: Seq
    floor: Seq


class HeadParams(Params, frozen=True, kw_only=True):
    """No params."""


class HeadResult(Result, frozen=True, kw_only=True):
    """The highest seq and the highest that retention removed."""

    head: Seq
    floor: Seq


class SubscribeParams(_Filtered, frozen=True, kw_only=True):
    """Every matching event above `after_seq` (absent: the head) as a notification."""


class SubscribeResult(Result, frozen=True, kw_only=True):
    """Sent before the first event."""

    subscription: Id
    after_seq: Seq


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    """Which one."""

    subscription: Id


class PublishParams(Params, frozen=True, kw_only=True):
    """An event that a client publishes."""

    type: str
    role: Name | None = None
    session_id: Name | None = None
    task_id: Id | None = None
    payload: Json = None
    op_id: OpId | None = None


class PublishResult(Result, frozen=True, kw_only=True):
    """Its place in the feed."""

    seq: Seq
    replayed: bool = False


CursorKind = Literal["inbox", "hook"]


class CursorGetParams(Params, frozen=True, kw_only=True):
    """Which cursor."""

    kind: CursorKind
    name: Name


class CursorSetParams(Params, frozen=True, kw_only=True):
    """Where to put it."""

    kind: CursorKind
    name: Name
    seq: Seq
    msg_id: Id | None = None


class CursorResult(Result, frozen=True, kw_only=True):
    """The cursor as stored."""

    cursor: Cursor
    updated_at: Time


SINCE = Method(
    name="ledger/events/since",
    summary="A page of the event feed",
    params=EventsSinceParams,
    result=EventsSinceResult,
    kind="read",
    errors=("cursor_expired", "cursor_ahead", "limit_out_of_range"),
)
HEAD = Method(
    name="ledger/events/head", summary="The feed's head and floor", params=HeadParams, result=HeadResult, kind="read"
)
SUBSCRIBE = Method(
    name="ledger/events/subscribe",
    summary="Have events sent as notifications",
    params=SubscribeParams,
    result=SubscribeResult,
    kind="async",
    errors=("cursor_expired", "cursor_ahead", "at_capacity"),
)
UNSUBSCRIBE = Method(
    name="ledger/events/unsubscribe",
    summary="End a subscription of this connection",
    params=UnsubscribeParams,
    result=SubscribeResult,
    kind="async",
    errors=("not_found",),
)
PUBLISH = Method(
    name="ledger/events/publish",
    summary="Publish an event of the closed set",
    params=PublishParams,
    result=PublishResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "not_owner", "op_conflict"),
)
CURSOR_GET = Method(
    name="ledger/cursor/get",
    summary="Where an inbox or a hook stands in the feed",
    params=CursorGetParams,
    result=CursorResult,
    kind="read",
    errors=("not_found",),
)
CURSOR_SET = Method(
    name="ledger/cursor/set",
    summary="Move an inbox's or a hook's cursor",
    params=CursorSetParams,
    result=CursorResult,
    kind="write",
    batch=True,
    errors=("not_found", "not_owner", "not_admin", "cursor_ahead", "invalid_transition"),
)

METHODS = (SINCE, HEAD, SUBSCRIBE, UNSUBSCRIBE, PUBLISH, CURSOR_GET, CURSOR_SET)
