"""`workgraph/attention/*`: who attends to what (contract workgraph 8)."""

from __future__ import annotations

from typing import Annotated, Literal

from interlock.lifecycle.attention import AttentionBinding, Chars, Projection, Target, TargetOwner
from interlock.lifecycle.mail import Record
from interlock.lifecycle.types import Id, Rule, Seq, Text256, Time, meta
from interlock.lifecycle.work import WorkItem

from .contract import Method, PageResult, Result
from .workgraph import WRITE, BindingOpParams, BindingParams, OpResult, Reason, ScopePageParams, ScopeParams

StateWord = Literal["active", "paused", "superseded", "stopped", "occupying"]


class StateGiven(Record, frozen=True, kw_only=True):
    """A status as results spell it; its `until` plays no part."""

    state: StateWord
    until: Time | None = None


class AttentionListParams(ScopePageParams, frozen=True, kw_only=True):
    """Filters are combined. `active` is eligible now, `paused` is paused and not eligible."""

    status: StateGiven | Annotated[str, meta(Rule(kind="text", max=64))] | None = None
    target: Target | None = None
    item_id: Id | None = None


class AttentionPage(PageResult, frozen=True, kw_only=True):
    """In the order of the last change."""

    attention: list[AttentionBinding]


class AttentionResult(OpResult, frozen=True, kw_only=True):
    """The binding after the call."""

    attention: AttentionBinding


class MovedResult(OpResult, frozen=True, kw_only=True):
    """The binding that was superseded, and its successor."""

    previous: AttentionBinding
    attention: AttentionBinding


class WhoParams(ScopeParams, frozen=True, kw_only=True):
    """Exactly one of the three; `mob_id` goes with `identity`."""

    session_id: Text256 | None = None
    identity: Text256 | None = None
    owner_key: TargetOwner | None = None
    mob_id: Text256 | None = None


class CurrentResult(Result, frozen=True, kw_only=True):
    """What the target attends to now, and what lost against it."""

    target_key: str
    attention: AttentionBinding | None = None
    item: WorkItem | None = None
    starved: list[AttentionBinding]
    superseded_session: Id | None = None
    as_of_seq: Seq


class ProjectionParams(BindingParams, frozen=True, kw_only=True):
    """Which binding; `max_text_chars` can only shorten."""

    max_text_chars: Chars | None = None


class ProjectionResult(Result, frozen=True, kw_only=True):
    """What a turn is told."""

    projection: Projection


class PauseParams(BindingOpParams, frozen=True, kw_only=True):
    """Until when; absent is until it is resumed."""

    until: Time | None = None


class ReassignParams(BindingOpParams, frozen=True, kw_only=True):
    """Whom it goes to."""

    target: Target


class BreakGlassParams(ReassignParams, frozen=True, kw_only=True):
    """Whom it goes to, and why by force."""

    reason: Reason


class StopParams(BindingOpParams, frozen=True, kw_only=True):
    """Which binding, and why."""

    reason: Reason | None = None


class PruneParams(ScopeParams, frozen=True, kw_only=True):
    """Terminal bindings that last changed before this; absent is all."""

    updated_before: Time | None = None


class AttentionPruneResult(Result, frozen=True, kw_only=True):
    """How many were deleted, and whether there are more."""

    pruned: int
    has_more: bool


ADMITTED = (*WRITE, "occupied", "admission_lock_timeout")

ATTENTION_LIST = Method(
    name="workgraph/attention/list",
    summary="Bindings by filter, in the order of their last change",
    params=AttentionListParams,
    result=AttentionPage,
    kind="read",
    errors=("limit_out_of_range", "unavailable"),
)
ATTENTION_GET = Method(
    name="workgraph/attention/get",
    summary="One binding",
    params=BindingParams,
    result=AttentionResult,
    kind="read",
    errors=("not_found",),
)
CURRENT = Method(
    name="workgraph/attention/current",
    summary="What a session, a member or an owner attends to now",
    params=WhoParams,
    result=CurrentResult,
    kind="read",
    errors=("unavailable",),
)
PROJECTION = Method(
    name="workgraph/attention/projection",
    summary="The text that tells a turn what it attends to",
    params=ProjectionParams,
    result=ProjectionResult,
    kind="read",
    errors=("not_found", "invalid_transition"),
)
PAUSE = Method(
    name="workgraph/attention/pause",
    summary="Pause a binding; its target stays taken",
    params=PauseParams,
    result=AttentionResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=WRITE,
)
RESUME = Method(
    name="workgraph/attention/resume",
    summary="Go on with a paused binding",
    params=BindingOpParams,
    result=AttentionResult,
    kind="write",
    batch=True,
    gate=True,
    idempotent="op_id",
    errors=ADMITTED,
)
REASSIGN = Method(
    name="workgraph/attention/reassign",
    summary="Give what a coordinator attends to to another target",
    params=ReassignParams,
    result=MovedResult,
    kind="write",
    batch=True,
    gate=True,
    idempotent="op_id",
    errors=(*ADMITTED, "authority_missing", "unavailable"),
)
BREAK_GLASS = Method(
    name="workgraph/attention/break_glass_reassign",
    summary="Give any binding to another target by force, with an audit",
    params=BreakGlassParams,
    result=MovedResult,
    kind="write",
    batch=True,
    gate=True,
    idempotent="op_id",
    operator_only=True,
    errors=(*ADMITTED, "not_admin", "authority_missing", "unavailable"),
)
STOP = Method(
    name="workgraph/attention/stop",
    summary="End a binding; its item stays as it is",
    params=StopParams,
    result=AttentionResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=WRITE,
)
PRUNE = Method(
    name="workgraph/attention/prune",
    summary="Delete bindings that have ended",
    params=PruneParams,
    result=AttentionPruneResult,
    kind="write",
    batch=True,
)

METHODS = (ATTENTION_LIST, ATTENTION_GET, CURRENT, PROJECTION, PAUSE, RESUME, REASSIGN, BREAK_GLASS, STOP, PRUNE)
