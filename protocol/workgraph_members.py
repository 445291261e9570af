"""`workgraph/member/*`: who is who, and which session each has now (contract workgraph 9)."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from interlock.lifecycle.attention import AttentionBinding, Member, MemberSession, StoredTarget
from interlock.lifecycle.types import Id, Name, Seq, Text1K, Text256

from .contract import Method, PageResult, Result
from .workgraph import ScopePageParams, ScopeParams
from .workgraph_attention import WhoParams


class RegisterParams(ScopeParams, frozen=True, kw_only=True):
    """Which member has which session now. `adopt` takes a session from another member."""

    identity: Name
    session_id: Text256
    mob_id: Name | None = None
    adopt: bool = False


class RegisterResult(Result, frozen=True, kw_only=True):
    """The member, the bindings that came to its key, and those that could not because it was taken."""

    member: Member
    changed: bool
    rekeyed: list[Id] = field(default_factory=list)
    duplicates: list[AttentionBinding] = field(default_factory=list)


class RetireParams(ScopeParams, frozen=True, kw_only=True):
    """Which member, and why."""

    identity: Name
    mob_id: Name | None = None
    reason: Text1K | None = None


class RetireResult(Result, frozen=True, kw_only=True):
    """The member, and the bindings that still occupy its key."""

    member: Member
    changed: bool
    attention: list[AttentionBinding]


class MemberListParams(ScopePageParams, frozen=True, kw_only=True):
    """Members by filter; `status` absent is both."""

    mob_id: Name | None = None
    status: Literal["active", "retired"] | None = None


class MemberPage(PageResult, frozen=True, kw_only=True):
    """By mob and identity."""

    members: list[Member]


class ResolveResult(Result, frozen=True, kw_only=True):
    """The canonical target, the member that it is, and the newest sessions of that member."""

    target_key: str
    target: StoredTarget
    member: Member | None = None
    sessions: list[MemberSession] = field(default_factory=list)
    as_of_seq: Seq


REGISTER = Method(
    name="workgraph/member/register",
    summary="Say which session a member has now",
    params=RegisterParams,
    result=RegisterResult,
    kind="write",
    batch=True,
    errors=("duplicate",),
)
RETIRE = Method(
    name="workgraph/member/retire",
    summary="Say that a member has no session any more",
    params=RetireParams,
    result=RetireResult,
    kind="write",
    batch=True,
    errors=("not_found",),
)
MEMBER_LIST = Method(
    name="workgraph/member/list",
    summary="Members and their sessions",
    params=MemberListParams,
    result=MemberPage,
    kind="read",
    errors=("limit_out_of_range",),
)
RESOLVE = Method(
    name="workgraph/member/resolve",
    summary="Which target a session, an identity or an owner key is",
    params=WhoParams,
    result=ResolveResult,
    kind="read",
)

METHODS = (REGISTER, RETIRE, MEMBER_LIST, RESOLVE)
