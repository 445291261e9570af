"""Roles, faults, cursors and the caller (contract ledger 1.3, 1.5, 2.1). Records only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .mail import Presence, Record
from .types import Count, Id, Json, Name, Rule, Seq, Text1K, Time, meta
from .work import OwnerKey

SENDERS_MAX = 256
MAX_SESSIONS = 10_000
MaxSessions = Annotated[int, meta(Rule(kind="int", min=1, max=MAX_SESSIONS), minimum=1, maximum=MAX_SESSIONS)]
Senders = Annotated[list[Name], meta(Rule(kind="list", max=SENDERS_MAX), maxItems=SENDERS_MAX)]

FaultState = Literal["open", "acked", "adopted", "rebound", "retried", "failed", "closed"]
FaultKind = Annotated[str, meta(Rule(kind="name", max=64), minLength=1, maxLength=64)]


class Role(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A named participant and what it allows. `allowed_senders` absent is everybody."""

    name: Name
    admin: bool = False
    max_sessions: MaxSessions = 1
    allowed_senders: Senders | UnsetType = UNSET
    note_queue: bool = True


class RoleInfo(Record, frozen=True, kw_only=True):
    """A role and who is there."""

    role: Role
    presence: Presence
    connections: int
    sessions: int
    updated_at: Time


class RoleChanged(Record, frozen=True, kw_only=True):
    """Data of a `role_changed` event."""

    change: Literal["upserted", "removed"]
    role: Role


class RolePresence(Record, frozen=True, kw_only=True):
    """Data of a `role_presence` event: first attached, last gone."""

    state: Presence


class Fault(Record, frozen=True, kw_only=True):
    """Something that went wrong and waits for an operator. At most one open per (subject, kind)."""

    fault_id: Id
    kind: FaultKind
    state: FaultState
    reason: Text1K
    subject: Id
    task_id: Id | None = None
    msg_id: Id | None = None
    session_id: Name | None = None
    role: Name | None = None
    hook: Name | None = None
    generation: Count | None = None
    seq: Count | None = None
    detail: Json = None
    created_at: Time
    updated_at: Time


class Cursor(Record, frozen=True, kw_only=True):
    """A remembered place in the feed."""

    kind: Literal["inbox", "hook"]
    name: Name
    seq: Seq
    msg_id: Id | None = None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, as the connection knows it: `roles` in the order of attaching (contract ledger 2.1)."""

    instance_id: str
    holder: str
    transport: Literal["socket", "stdio"]
    roles: tuple[str, ...] = ()
    may_operate: bool = True
    principal: str | None = None

    @property
    def operator(self) -> bool:
        """Attached to no role, on a transport that the setting `operator` allows."""
        return not self.roles and self.may_operate

    @property
    def principal_key(self) -> OwnerKey | None:
        """Its trusted principal, whom the kernel vouches for, as an owner (contract workgraph 7)."""
        if self.principal is None:
            return None
        return OwnerKey(kind="principal", id=self.principal.removeprefix("principal:"))

    @property
    def op_role(self) -> str | None:
        """The role that an op id's content names when the params name none (contract daemon 1.6)."""
        return self.roles[0] if self.roles else None
