"""Mail: what is sent, what is stored about it, what arrives (contract ledger 1.1 and 1.2). Records only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .types import (
    Count,
    Id,
    Json,
    Name,
    OpId,
    PrincipalText,
    Rule,
    Text1K,
    Text1M,
    Text256,
    Time,
    TtlMs,
    meta,
)

MailKind = Literal["task", "completion", "note", "control"]
MailState = Literal["queued", "in_flight", "acked", "rejected", "expired"]
Outcome = Literal["done", "failed", "cancelled", "blocked"]
ControlOp = Literal["recycle", "probe", "snapshot", "cancel", "focus"]
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
Presence = Literal["online", "offline"]

OPERATOR = "operator"
"""The role that exists from the start: what the operator sends comes from it."""
DAEMON = "daemon"
"""Who settled a row when no caller did; no role may have this name."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record that is both result and param, so unknown fields are refused on the way in."""


class RoleRef(Record, frozen=True, kw_only=True):
    """A role, or one session of it."""

    role: Name
    session: Name | None = None


class Principal(Record, frozen=True, kw_only=True):
    """Who sends or receives, in the long form that results use."""

    role: RoleRef


AnyPrincipal = Principal | PrincipalText


class Image(Record, frozen=True, kw_only=True):
    """An image: `data` is base64 of at most 2 MiB."""

    mime: ImageType
    data: str


class Body(Record, frozen=True, kw_only=True):
    """The content. At least one of `text` and `image`."""

    text: Text1M | None = None
    head: Text1K | None = None
    image: Image | None = None
    details: Json = None


LABEL_MAX = Rule(kind="list", max=8)
LabelKey = Annotated[str, meta(Rule(kind="text", max=32, min=1), minLength=1, maxLength=32)]


class Causality(Record, frozen=True, kw_only=True):
    """Where a message stands in its run. Derived values are filled in by `lifecycle.causality`."""

    task: Id | None = None
    parent_task: Id | None = None
    family: Id | None = None
    hop: Count | None = None
    attempt: Count | None = None
    hop_budget: Count | None = None
    deadline: Time | None = None
    origin: Name | None = None
    reply_to: Text256 | None = None
    labels: Annotated[dict[LabelKey, Text256], meta(LABEL_MAX, maxProperties=8)] | None = None


class Control(Record, frozen=True, kw_only=True):
    """A command about a task, for whoever works on it."""

    op: ControlOp
    task_id: Id
    reason: Text1K | None = None


class Envelope(Record, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A message as it is sent and as it arrives."""

    kind: MailKind
    to: AnyPrincipal
    from_: AnyPrincipal | None = None
    msg_id: Id | None = None
    op_id: OpId | None = None
    causality: Causality | None = None
    outcome: Outcome | None = None
    control: Control | None = None
    body: Body | None = None
    ts: Time | None = None
    ttl_ms: TtlMs | None = None


class Receipt(Record, frozen=True, kw_only=True):
    """The answer to a send: stored, durable, and whether anybody was there."""

    msg_id: Id
    op_id: OpId | None = None
    kind: MailKind
    task: Id | None = None
    state: MailState
    enqueued_at: Time
    presence: Presence


class LedgerRow(Record, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Everything that is known of a message, but its body."""

    msg_id: Id
    op_id: OpId | None = None
    kind: MailKind
    from_: Principal
    to: Principal
    causality: Causality | None = None
    outcome: Outcome | None = None
    control: Control | None = None
    admin: bool = False
    head: str
    state: MailState
    reason: Text1K | None = None
    enqueued_at: Time
    expires_at: Time | None = None
    offered_at: Time | None = None
    surfaced_at: Time | None = None
    settled_at: Time | None = None
    settled_by: str | None = None
    session: Name | None = None
    deliveries: int
    requeued: int
    body_pruned: bool = False


class Delivery(Record, frozen=True, kw_only=True):
    """A message offered to a consumer."""

    envelope: Envelope
    deliveries: int
    requeued: int
    surfaced_at: Time | None = None


class Verdict(Record, frozen=True, kw_only=True):
    """How a task ended, said once."""

    outcome: Outcome
    by: Literal["completion", "session", "repair", "ghost_sweep"]
    at: Time


class StateChange(Record, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Data of a `ledger_state` event: the values after the move. Folding these gives the table."""

    msg_id: Id
    op_id: OpId | None = None
    kind: MailKind
    from_: Principal
    to: Principal
    task: Id | None = None
    state: MailState
    outcome: Outcome | None = None
    reason: Text1K | None = None
    session: Name | None = None
    deliveries: int
    requeued: int
    by: str | None = None


class Surfaced(Record, frozen=True, kw_only=True):
    """Data of a `ledger_surfaced` event."""

    msg_id: Id
    task: Id | None = None
    session: Name | None = None
    surfaced_at: Time


class Pruned(Record, frozen=True, kw_only=True):
    """Data of a `ledger_pruned` event."""

    what: Literal["bodies", "events", "rows"]
    before: Time
    count: int
