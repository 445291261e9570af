"""`workgraph/create` … `workgraph/evidence/add`: items and claims (contract workgraph 6)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, field

from interlock.lifecycle.types import Id, Rev, Seq, Text1K, Text1M, Time
from interlock.lifecycle.work import (
    CloseStatus,
    CompletionPolicy,
    Evidence,
    EvidenceRefs,
    ExternalRefs,
    Fence,
    JoinPolicy,
    Labels,
    OwnerGiven,
    OwnerKey,
    Priority,
    SelfAttest,
    Status,
    WorkItem,
)

from .contract import Method, PageResult
from .workgraph import (
    WRITE,
    FilterLabels,
    GuardParams,
    ItemParams,
    LeaseParams,
    LeaseSeconds,
    OpParams,
    OpResult,
    ScopePageParams,
    ScopeParams,
)


class ItemFields(OpParams, frozen=True, kw_only=True):
    """What a new item is made of, but for its title."""

    description: Text1M | None = None
    status: Status = "open"
    priority: Priority = "medium"
    labels: Labels = field(default_factory=list)
    completion_policy: CompletionPolicy = field(default_factory=SelfAttest)
    failed_child_join_policy: JoinPolicy = "require_success"
    cancelled_child_join_policy: JoinPolicy = "require_success"
    due_at: Time | None = None
    not_before: Time | None = None
    snoozed_until: Time | None = None
    external_refs: ExternalRefs = field(default_factory=list)
    evidence_refs: EvidenceRefs = field(default_factory=list)


class CreateParams(ItemFields, frozen=True, kw_only=True):
    """A new item; `status` is `open` or `blocked`."""

    title: Text1K
    binding_id: Id | None = None


class ItemResult(OpResult, frozen=True, kw_only=True):
    """The item after the call."""

    item: WorkItem


class ListParams(ScopePageParams, frozen=True, kw_only=True):
    """Filters are combined; `labels` must all be there."""

    statuses: list[Status] = field(default_factory=list)
    include_terminal: bool = False
    labels: FilterLabels = field(default_factory=list)
    owner_key: OwnerKey | None = None
    order: Literal["updated_asc", "updated_desc"] = "updated_asc"


class ItemsResult(PageResult, frozen=True, kw_only=True):
    """A page of items."""

    items: list[WorkItem]


class ReadyParams(ScopePageParams, frozen=True, kw_only=True):
    """What may be claimed now and carries all these labels."""

    labels: FilterLabels = field(default_factory=list)


class ClaimParams(LeaseParams, frozen=True, kw_only=True):
    """Which item, at which revision, for whom."""

    id: Id
    expected_revision: Rev
    owner: OwnerGiven


class ClaimResult(OpResult, frozen=True, kw_only=True):
    """The claimed item with its `fence`, or the parent that was `settled` instead."""

    item: WorkItem | None = None
    fence: Fence | None = None
    settled: WorkItem | None = None


class ClaimNextParams(LeaseParams, frozen=True, kw_only=True):
    """For whom; only items that carry all these labels."""

    owner: OwnerGiven
    labels: FilterLabels = field(default_factory=list)


class ClaimNextResult(OpResult, frozen=True, kw_only=True):
    """Without `item` nothing was ready."""

    item: WorkItem | None = None
    fence: Fence | None = None
    settled_ids: list[Id] = field(default_factory=list)
    as_of_seq: Seq


class RenewParams(ScopeParams, frozen=True, kw_only=True):
    """Which item; the lease ends that much from now, longer or shorter."""

    id: Id
    fence: Fence
    lease_seconds: LeaseSeconds | None = None
    lease_expires_at: Time | None = None


class RenewResult(OpResult, frozen=True, kw_only=True):
    """The item with its new lease."""

    item: WorkItem
    fence: Fence


class ReleaseParams(GuardParams, frozen=True, kw_only=True):
    """Which item; the fence is enough."""

    id: Id
    expected_revision: Rev | None = None


class UpdateParams(GuardParams, frozen=True, kw_only=True):
    """A patch: absent keeps, null clears, an array replaces."""

    id: Id
    expected_revision: Rev
    title: Text1K | UnsetType = UNSET
    description: Text1M | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    labels: Labels | UnsetType | None = UNSET
    completion_policy: CompletionPolicy | UnsetType = UNSET
    failed_child_join_policy: JoinPolicy | UnsetType = UNSET
    cancelled_child_join_policy: JoinPolicy | UnsetType = UNSET
    due_at: Time | UnsetType | None = UNSET
    not_before: Time | UnsetType | None = UNSET
    snoozed_until: Time | UnsetType | None = UNSET
    external_refs: ExternalRefs | UnsetType | None = UNSET


class BlockParams(GuardParams, frozen=True, kw_only=True):
    """Which item, and why it is blocked."""

    id: Id
    expected_revision: Rev
    note: Text1K | None = None


class UnblockParams(OpParams, frozen=True, kw_only=True):
    """Which item."""

    id: Id
    expected_revision: Rev


class CloseParams(GuardParams, frozen=True, kw_only=True):
    """Which item, and how it ends."""

    id: Id
    expected_revision: Rev
    status: CloseStatus = "completed"
    even_if_incomplete: bool | UnsetType = UNSET


class CloseResult(OpResult, frozen=True, kw_only=True):
    """The closed item, and the bindings that attended to it."""

    item: WorkItem
    stopped_bindings: list[Id] = field(default_factory=list)


class AddEvidenceParams(GuardParams, frozen=True, kw_only=True):
    """What speaks for which item."""

    id: Id
    evidence: Evidence
    expected_revision: Rev | None = None


GUARDED = (*WRITE, "stale_lease", "fence_required", "not_admin", "authority_missing")

CREATE = Method(
    name="workgraph/create",
    summary="Make an item of work",
    params=CreateParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "invalid_transition", "authority_missing", "op_conflict"),
)
GET = Method(
    name="workgraph/get",
    summary="One item",
    params=ItemParams,
    result=ItemResult,
    kind="read",
    errors=("not_found",),
)
LIST = Method(
    name="workgraph/list",
    summary="Items by filter, in the order of their last change",
    params=ListParams,
    result=ItemsResult,
    kind="read",
    errors=("limit_out_of_range",),
)
READY = Method(
    name="workgraph/ready",
    summary="What may be claimed now, most urgent first",
    params=ReadyParams,
    result=ItemsResult,
    kind="read",
    errors=("limit_out_of_range",),
)
CLAIM = Method(
    name="workgraph/claim",
    summary="Take an item, so that exactly one has it",
    params=ClaimParams,
    result=ClaimResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=(*WRITE, "already_claimed", "limit_out_of_range"),
)
CLAIM_NEXT = Method(
    name="workgraph/claim_next",
    summary="Take the most urgent ready item",
    params=ClaimNextParams,
    result=ClaimNextResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("op_conflict", "limit_out_of_range"),
)
RENEW = Method(
    name="workgraph/renew",
    summary="Hold a claimed item longer, or shorter",
    params=RenewParams,
    result=RenewResult,
    kind="write",
    batch=True,
    errors=("not_found", "stale_lease", "limit_out_of_range"),
)
RELEASE = Method(
    name="workgraph/release",
    summary="Give a claimed item back",
    params=ReleaseParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=GUARDED,
)
UPDATE = Method(
    name="workgraph/update",
    summary="Change what an item says",
    params=UpdateParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=GUARDED,
)
BLOCK = Method(
    name="workgraph/block",
    summary="Say that an item cannot go on, and why",
    params=BlockParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=GUARDED,
)
UNBLOCK = Method(
    name="workgraph/unblock",
    summary="Say that a blocked item can go on",
    params=UnblockParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=WRITE,
)
CLOSE = Method(
    name="workgraph/close",
    summary="End an item: completed, cancelled or failed",
    params=CloseParams,
    result=CloseResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=(*GUARDED, "policy_unsatisfied"),
)
ADD_EVIDENCE = Method(
    name="workgraph/evidence/add",
    summary="Add what speaks for an item",
    params=AddEvidenceParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=GUARDED,
)

METHODS = (
    CREATE,
    GET,
    LIST,
    READY,
    CLAIM,
    CLAIM_NEXT,
    RENEW,
    RELEASE,
    UPDATE,
    BLOCK,
    UNBLOCK,
    CLOSE,
    ADD_EVIDENCE,
)
