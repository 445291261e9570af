"""`workgraph/goal/*`, `workgraph/policy/escalate`: an item with who attends to it (contract workgraph 7)."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from interlock.lifecycle.attention import AttentionBinding, Delegated, Mode, ProjectionPolicy, Target
from interlock.lifecycle.types import Id, Name, Rev, Text1K
from interlock.lifecycle.work import CloseStatus, CompletionPolicy, Evidence, Fence, WorkItem

from .contract import Method
from .workgraph import BindingOpParams, BindingParams, OpResult, Reason
from .workgraph_items import ItemFields, ItemResult


class GoalCreateParams(ItemFields, frozen=True, kw_only=True):
    """A new item by its title, or an existing one by `item_id` and `expected_revision`, and who attends to it."""

    target: Target
    title: Text1K | None = None
    item_id: Id | None = None
    expected_revision: Rev | None = None
    mode: Mode = "pursue"
    delegated_authority: Delegated = "add_evidence"
    projection_policy: ProjectionPolicy = field(default_factory=ProjectionPolicy)


class GoalResult(OpResult, frozen=True, kw_only=True):
    """The item and its binding."""

    item: WorkItem
    attention: AttentionBinding


class ConfirmParams(BindingOpParams, frozen=True, kw_only=True):
    """`expected_revision` is the item's. `role` names which of several attached roles confirms."""

    evidence: Evidence | None = None
    role: Name | None = None


class RequestCloseParams(BindingOpParams, frozen=True, kw_only=True):
    """`expected_revision` is the item's; the rest as in `workgraph/close`."""

    status: CloseStatus = "completed"
    even_if_incomplete: bool | UnsetType = UNSET
    fence: Fence | None = None
    reason: Reason | None = None


class EscalateParams(BindingOpParams, frozen=True, kw_only=True):
    """`expected_revision` is the item's; the policy can only become stricter."""

    id: Id
    completion_policy: CompletionPolicy


GOAL_CREATE = Method(
    name="workgraph/goal/create",
    summary="Give a target something to attend to",
    params=GoalCreateParams,
    result=GoalResult,
    kind="write",
    batch=True,
    gate=True,
    idempotent="op_id",
    errors=(
        *("not_found", "stale_revision", "invalid_transition", "occupied", "at_capacity", "admission_lock_timeout"),
        *("unavailable", "op_conflict"),
    ),
)
GOAL_STATUS = Method(
    name="workgraph/goal/status",
    summary="A goal: its item and its binding",
    params=BindingParams,
    result=GoalResult,
    kind="read",
    errors=("not_found",),
)
GOAL_CONFIRM = Method(
    name="workgraph/goal/confirm",
    summary="Confirm that a goal is reached",
    params=ConfirmParams,
    result=GoalResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "stale_revision", "invalid_transition", "not_admin", "authority_missing", "op_conflict"),
)
GOAL_REQUEST_CLOSE = Method(
    name="workgraph/goal/request_close",
    summary="End a goal's item, and the goal with it",
    params=RequestCloseParams,
    result=GoalResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=(
        *("not_found", "stale_revision", "invalid_transition", "stale_lease", "fence_required", "not_admin"),
        *("policy_unsatisfied", "op_conflict"),
    ),
)
POLICY_ESCALATE = Method(
    name="workgraph/policy/escalate",
    summary="Make a stricter policy decide what completes an item",
    params=EscalateParams,
    result=ItemResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_found", "stale_revision", "invalid_transition", "authority_missing", "op_conflict"),
)

METHODS = (GOAL_CREATE, GOAL_STATUS, GOAL_CONFIRM, GOAL_REQUEST_CLOSE, POLICY_ESCALATE)
