"""What the methods of `workgraph/` have in common: scope, op ids, the guard of a claim (contract workgraph 2)."""

from __future__ import annotations

from typing import Annotated

from interlock.lifecycle.types import Id, OpId, Rev, Rule, Time, meta
from interlock.lifecycle.work import Fence

from .contract import PageParams, Params, Result
from .limits import FILTER_LABELS, LEASE_DEFAULT_SECONDS, LEASE_SECONDS

DEFAULT = "default"
WRITE = ("not_found", "stale_revision", "invalid_transition", "op_conflict")
"""What every write to a thing at one of its revisions can answer."""

FilterLabels = Annotated[list[Id], meta(Rule(kind="list", max=FILTER_LABELS), maxItems=FILTER_LABELS)]
Reason = Annotated[
    str,
    meta(Rule(kind="text", max=1024, min=1), minLength=1, maxLength=1024, description="why, at most 1024 bytes"),
]
LeaseSeconds = Annotated[
    int,
    meta(
        Rule(kind="limit", max=LEASE_SECONDS),
        minimum=0,
        maximum=LEASE_SECONDS,
        description=f"0 is never; absent is {LEASE_DEFAULT_SECONDS}",
    ),
]


class ScopeParams(Params, frozen=True, kw_only=True):
    """Whose work it is about. Rows of another scope are `not_found`."""

    realm_id: Id = DEFAULT
    namespace: Id = DEFAULT


class ScopePageParams(PageParams, frozen=True, kw_only=True):
    """A page of one scope."""

    realm_id: Id = DEFAULT
    namespace: Id = DEFAULT


class OpParams(ScopeParams, frozen=True, kw_only=True):
    """A write that may be said again."""

    op_id: OpId | None = None


class OpResult(Result, frozen=True, kw_only=True):
    """`replayed` where this is the first answer again."""

    replayed: bool = False


class GuardParams(OpParams, frozen=True, kw_only=True):
    """How a caller shows that it may touch a claimed item: its claim's `fence`, or an operator's `reason`."""

    fence: Fence | None = None
    reason: Reason | None = None
    binding_id: Id | None = None


class LeaseParams(OpParams, frozen=True, kw_only=True):
    """How long a claim holds: one of the two."""

    lease_seconds: LeaseSeconds | None = None
    lease_expires_at: Time | None = None


class ItemParams(ScopeParams, frozen=True, kw_only=True):
    """Which item."""

    id: Id


class BindingParams(ScopeParams, frozen=True, kw_only=True):
    """Which binding."""

    binding_id: Id


class BindingOpParams(OpParams, frozen=True, kw_only=True):
    """Which binding, at which of its revisions."""

    binding_id: Id
    expected_revision: Rev
