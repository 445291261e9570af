"""`ledger/role/*` and `ledger/fault/*`: params and results (contract ledger 3 and 6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from interlock.lifecycle.roles import Fault, FaultKind, FaultState, MaxSessions, Role, RoleInfo, Senders
from interlock.lifecycle.types import Count, Id, Json, Name, OpId, Rule, Text1K, meta

from .contract import Method, PageParams, PageResult, Params, Result
from .limits import SYNC_ROLES


class RoleUpsertParams(Params, frozen=True, kw_only=True):
    """The fields of Role. On an existing role absent keeps, null gives the default back."""

    name: Name
    admin: bool | UnsetType | None = UNSET
    max_sessions: MaxSessions | UnsetType | None = UNSET
    allowed_senders: Senders | UnsetType | None = UNSET
    note_queue: bool | UnsetType | None = UNSET


class RoleUpsertResult(Result, frozen=True, kw_only=True):
    """The role as stored."""

    role: Role
    changed: bool


class RoleListParams(PageParams, frozen=True, kw_only=True):
    """A page."""


class RoleListResult(PageResult, frozen=True, kw_only=True):
    """By name."""

    roles: list[RoleInfo]


class RoleSyncParams(Params, frozen=True, kw_only=True):
    """Exactly these roles, and `operator`, exist afterwards."""

    roles: Annotated[list[Role], meta(Rule(kind="list", max=SYNC_ROLES), maxItems=SYNC_ROLES)]


class RoleSyncResult(Result, frozen=True, kw_only=True):
    """The names that changed."""

    upserted: list[Name]
    removed: list[Name]


class FaultRecordParams(Params, frozen=True, kw_only=True):
    """What went wrong, with what; at least one of `task_id`, `msg_id`, `session_id` and `role`."""

    kind: FaultKind
    reason: Text1K
    task_id: Id | None = None
    msg_id: Id | None = None
    session_id: Name | None = None
    role: Name | None = None
    generation: Count | None = None
    seq: Count | None = None
    detail: Json = None
    op_id: OpId | None = None


class FaultResult(Result, frozen=True, kw_only=True):
    """The fault after the call."""

    fault: Fault
    changed: bool


class FaultRecordResult(FaultResult, frozen=True, kw_only=True):
    """As FaultResult."""

    replayed: bool = False


class FaultListParams(PageParams, frozen=True, kw_only=True):
    """Filters are combined."""

    task_id: Id | None = None
    session_id: Name | None = None
    role: Name | None = None
    kind: FaultKind | None = None
    state: FaultState | None = None


class FaultListResult(PageResult, frozen=True, kw_only=True):
    """Oldest first."""

    faults: list[Fault]


class FaultAckParams(Params, frozen=True, kw_only=True):
    """Which one; `reason` absent keeps."""

    fault_id: Id
    reason: Text1K | None = None


class FaultMoveParams(Params, frozen=True, kw_only=True):
    """All open faults of a task; `state` is any but `open`."""

    task_id: Id
    state: FaultState
    reason: Text1K | None = None


class FaultMoveResult(Result, frozen=True, kw_only=True):
    """How many were open."""

    moved: int


ROLE_UPSERT = Method(
    name="ledger/role/upsert",
    summary="Make or change a role",
    params=RoleUpsertParams,
    result=RoleUpsertResult,
    kind="write",
    batch=True,
    operator_only=True,
    errors=("not_admin",),
)
ROLE_LIST = Method(
    name="ledger/role/list",
    summary="Roles and who is there",
    params=RoleListParams,
    result=RoleListResult,
    kind="read",
    errors=("limit_out_of_range",),
)
ROLE_SYNC = Method(
    name="ledger/role/sync",
    summary="Make the roles exactly these",
    params=RoleSyncParams,
    result=RoleSyncResult,
    kind="write",
    batch=True,
    operator_only=True,
    errors=("not_admin", "in_use"),
)
FAULT_RECORD = Method(
    name="ledger/fault/record",
    summary="Record something that went wrong",
    params=FaultRecordParams,
    result=FaultRecordResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=("not_owner", "not_found", "op_conflict"),
)
FAULT_LIST = Method(
    name="ledger/fault/list",
    summary="Faults by filter, oldest first",
    params=FaultListParams,
    result=FaultListResult,
    kind="read",
    errors=("limit_out_of_range",),
)
FAULT_ACK = Method(
    name="ledger/fault/ack",
    summary="An operator has seen this fault",
    params=FaultAckParams,
    result=FaultResult,
    kind="write",
    batch=True,
    operator_only=True,
    errors=("not_admin", "not_found", "invalid_transition"),
)
FAULT_MOVE = Method(
    name="ledger/fault/move",
    summary="Move all open faults of a task",
    params=FaultMoveParams,
    result=FaultMoveResult,
    kind="write",
    batch=True,
    operator_only=True,
    errors=("not_admin",),
)

METHODS = (ROLE_UPSERT, ROLE_LIST, ROLE_SYNC, FAULT_RECORD, FAULT_LIST, FAULT_ACK, FAULT_MOVE)
