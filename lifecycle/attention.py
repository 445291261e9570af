"""Attention: who attends to which item, and how (contract workgraph 1, 5.1). Records only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import field

from .mail import Record
from .types import Id, Name, Rev, Rule, Text256, Time, meta
from .work import BindingStatus, Evidence, OwnerKey, OwnerKind, Status, WorkRef

Mode = Literal["pursue", "coordinate", "review", "falsify", "judge", "observe"]
Delegated = Literal["add_evidence", "close_own_review_item", "request_closure", "close_if_policy_allows"]
BindingState = Literal["active", "paused", "superseded", "stopped"]

OCCUPYING: Final[frozenset[str]] = frozenset({"active", "paused"})
PROJECTION_CHARS: Final = 262_144
ITEM_BINDINGS: Final = 64

Chars = Annotated[int, meta(Rule(kind="int", max=PROJECTION_CHARS), minimum=0, maximum=PROJECTION_CHARS)]


class TargetOwner(Record, frozen=True, kw_only=True):
    """An owner key as somebody spelled it; `admission.targets` trims and judges it."""

    kind: OwnerKind
    id: Text256


class IdentityTarget(Record, frozen=True, kw_only=True, tag="identity", tag_field="kind"):
    """A member by name, registered or not. `mob_id` defaults to the mob of the realm."""

    identity: Text256
    mob_id: Text256 | None = None


class SessionTarget(Record, frozen=True, kw_only=True, tag="session", tag_field="kind"):
    """A session."""

    session_id: Text256


class OwnerTarget(Record, frozen=True, kw_only=True, tag="owner", tag_field="kind"):
    """Any owner key."""

    owner_key: TargetOwner


class LoweredTarget(Record, frozen=True, kw_only=True, tag="lowered_owner", tag_field="kind"):
    """An owner key, as results spell it."""

    owner_key: TargetOwner


Target = IdentityTarget | SessionTarget | OwnerTarget | LoweredTarget
"""A target as a param."""
StoredTarget = SessionTarget | LoweredTarget
"""A target as stored and returned: canonical."""


class ProjectionPolicy(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How much a turn is told about its item."""

    max_text_chars: Chars = 4096
    include_parent_context: bool = True


class AttentionBinding(Record, frozen=True, kw_only=True):
    """A target attends to an item. Active or paused it occupies its target, whatever `until` says."""

    binding_id: Id
    work_ref: WorkRef
    target: StoredTarget
    target_key: str
    alias_key: str | None = None
    mode: Mode
    delegated_authority: Delegated
    projection_policy: ProjectionPolicy
    status: BindingStatus
    superseded_by: Id | None = None
    revision: Rev
    created_at: Time
    updated_at: Time
    terminal_at: Time | None = None


class Authority(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a binding allows (contract workgraph 3.3)."""

    can_get: bool = False
    can_add_evidence: bool = False
    can_release: bool = False
    can_update: bool = False
    can_block: bool = False
    can_create: bool = False
    can_link: bool = False
    can_link_parent: bool = False
    can_link_related: bool = False
    can_link_derived_from: bool = False
    can_close_own_review_item: bool = False
    can_close_if_policy_allows: bool = False


class ParentContext(Record, frozen=True, kw_only=True):
    """A parent of the item, as it stands."""

    work_ref: WorkRef
    status: Status
    revision: Rev


class ProjectionText(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The text for a turn; `truncated` where it was cut to its bound."""

    title: str
    rendered: str
    truncated: bool


class Projection(Record, frozen=True, kw_only=True):
    """What a turn is told about its item."""

    binding_id: Id
    work_ref: WorkRef
    mode: Mode
    binding_revision: Rev
    item_revision: Rev
    parent_refs: list[WorkRef] = field(default_factory=list)
    parent_context: list[ParentContext] = field(default_factory=list)
    evidence_refs: list[Evidence] = field(default_factory=list)
    authority: Authority
    text: ProjectionText


class Occupant(Record, frozen=True, kw_only=True):
    """Who holds a target, in a refusal."""

    binding_id: Id
    status: Literal["active", "paused"]
    item_id: Id
    target_key: str
    paused_until: Time | None = None


class Member(Record, frozen=True, kw_only=True):
    """A member of a mob, and the session that it has now."""

    mob_id: Name
    identity: Name
    owner_key: OwnerKey
    session_id: Id | None = None
    status: Literal["active", "retired"]
    source: Literal["registered", "runtime"]
    revision: Rev
    registered_at: Time
    updated_at: Time
    retired_at: Time | None = None


class MemberSession(Record, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A session that maps to a member, and when it was its current one."""

    session_id: Id
    from_: Time
    to: Time | None = None
