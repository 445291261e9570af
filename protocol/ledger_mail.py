"""`ledger/send` … `ledger/prune`: params and results of mail (contract ledger 4)."""

from __future__ import annotations

from typing import Annotated, Literal

from interlock.lifecycle.mail import Delivery, Envelope, LedgerRow, MailKind, MailState, Receipt, Record, Verdict
from interlock.lifecycle.roles import Role
from interlock.lifecycle.types import Id, Name, OpId, Rule, Seq, Text1K, Time, WaitMs, meta

from .contract import Method, PageParams, PageResult, Params, Result
from .limits import HOLDS, PULL_LIMIT


class SendParams(Envelope, frozen=True, kw_only=True):
    """The fields of an Envelope."""


class SendResult(Receipt, frozen=True, kw_only=True):
    """A receipt."""

    replayed: bool = False


class MsgParams(Params, frozen=True, kw_only=True):
    """Which message."""

    msg_id: Id


class MsgReasonParams(Params, frozen=True, kw_only=True):
    """Which message, and why."""

    msg_id: Id
    reason: Text1K | None = None


class RequeueParams(MsgReasonParams, frozen=True, kw_only=True):
    """Which message, and why."""

    op_id: OpId | None = None


class FailParams(Params, frozen=True, kw_only=True):
    """Which message cannot be delivered, and why."""

    msg_id: Id
    reason: Text1K


class ExpireParams(Params, frozen=True, kw_only=True):
    """One message, or the queued rows of a role from before an instant."""

    msg_id: Id | None = None
    role: Name | None = None
    before: Time | None = None
    limit: Annotated[int, meta(Rule(kind="limit", min=1, max=500), minimum=1, maximum=500)] = 100
    reason: Text1K = "expired"


class PruneParams(Params, frozen=True, kw_only=True):
    """What retention shall take, oldest first."""

    before: Time
    what: Literal["bodies", "events"] = "bodies"
    limit: Annotated[int, meta(Rule(kind="limit", min=1, max=10_000), minimum=1, maximum=10_000)] = 500


class RowResult(Result, frozen=True, kw_only=True):
    """The row after the call; `changed` is false where what was asked for already held."""

    row: LedgerRow
    changed: bool


class RequeueResult(RowResult, frozen=True, kw_only=True):
    """As RowResult."""

    replayed: bool = False


class ExpireResult(Result, frozen=True, kw_only=True):
    """First form: `row` and `changed`; second form: `expired` and `has_more`."""

    row: LedgerRow | None = None
    changed: bool | None = None
    expired: int | None = None
    has_more: bool | None = None


class PruneResult(Result, frozen=True, kw_only=True):
    """How many rows were taken, and whether there is more."""

    pruned: int
    has_more: bool


class GetResult(Result, frozen=True, kw_only=True):
    """The row and the message."""

    row: LedgerRow
    envelope: Envelope


class QueryParams(PageParams, frozen=True, kw_only=True):
    """Filters are combined; `role` is sender or addressee."""

    task: Id | None = None
    op_id: OpId | None = None
    msg_id: Id | None = None
    role: Name | None = None
    state: MailState | None = None
    kind: MailKind | None = None


class QueryResult(PageResult, frozen=True, kw_only=True):
    """Latest arrival first."""

    rows: list[LedgerRow]


class TaskParams(PageParams, frozen=True, kw_only=True):
    """Which task."""

    task: Id


class TaskResult(QueryResult, frozen=True, kw_only=True):
    """Earliest arrival first, and how the task ended."""

    verdict: Verdict | None = None


class DepthParams(PageParams, frozen=True, kw_only=True):
    """One role, or all."""

    role: Name | None = None


class Depth(Record, frozen=True, kw_only=True):
    """Exact counts of one role: `queued` leaves notes out, `notes` counts queued ones."""

    role: Name
    queued: int
    notes: int
    in_flight: int
    oldest_queued_at: Time | None = None


class DepthResult(PageResult, frozen=True, kw_only=True):
    """By role."""

    depths: list[Depth]


class AttachParams(Params, frozen=True, kw_only=True):
    """Act for this role from now on; `holds` is what this consumer still works on from before."""

    role: Name
    holds: Annotated[list[Id], meta(Rule(kind="list", max=HOLDS), maxItems=HOLDS)] = []


class AttachResult(Result, frozen=True, kw_only=True):
    """`held` and `lost` are together the named ones, in their order."""

    role: Role
    held: list[Id]
    lost: list[Id]
    as_of_seq: Seq


class DetachParams(Params, frozen=True, kw_only=True):
    """Which role; absent: the only one attached."""

    role: Name | None = None


class DetachResult(Result, frozen=True, kw_only=True):
    """How many rows left `in_flight`."""

    role: Name
    requeued: int


class PullParams(Params, frozen=True, kw_only=True):
    """What to offer, and how long to wait for it."""

    role: Name | None = None
    session: Name | None = None
    kinds: Annotated[list[MailKind], meta(Rule(kind="list", min=1, max=4), minItems=1, maxItems=4)] | None = None
    limit: Annotated[int, meta(Rule(kind="limit", min=1, max=PULL_LIMIT), minimum=1, maximum=PULL_LIMIT)] = 1
    wait_ms: WaitMs = 0


class PullResult(Result, frozen=True, kw_only=True):
    """Empty at the time-out; `at_capacity` when tasks were held back."""

    deliveries: list[Delivery]
    as_of_seq: Seq
    at_capacity: bool = False


_ROW = ("not_found", "not_owner", "invalid_transition")

SEND = Method(
    name="ledger/send",
    summary="Store a message for a role",
    params=SendParams,
    result=SendResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=(
        "not_owner",
        "not_found",
        "op_conflict",
        "duplicate",
        "sender_not_allowed",
        "hop_budget_exhausted",
        "deadline_passed",
        "recipient_offline",
        "limit_out_of_range",
    ),
)
GET = Method(
    name="ledger/get",
    summary="One message with its row",
    params=MsgParams,
    result=GetResult,
    kind="read",
    errors=("not_found",),
)
QUERY = Method(
    name="ledger/query",
    summary="Rows by filter, latest arrival first",
    params=QueryParams,
    result=QueryResult,
    kind="read",
    errors=("limit_out_of_range",),
)
TASK = Method(
    name="ledger/task",
    summary="All mail of a task, and its verdict",
    params=TaskParams,
    result=TaskResult,
    kind="read",
    errors=("not_found", "limit_out_of_range"),
)
DEPTH = Method(
    name="ledger/depth",
    summary="Exact queue lengths by role",
    params=DepthParams,
    result=DepthResult,
    kind="read",
    errors=("not_found", "limit_out_of_range"),
)
ATTACH = Method(
    name="ledger/attach",
    summary="Act for a role on this connection",
    params=AttachParams,
    result=AttachResult,
    kind="async",
    errors=("not_found",),
)
DETACH = Method(
    name="ledger/detach",
    summary="Stop acting for a role; what is held goes back",
    params=DetachParams,
    result=DetachResult,
    kind="async",
)
PULL = Method(
    name="ledger/pull",
    summary="Take mail of a role, waiting for it if asked",
    params=PullParams,
    result=PullResult,
    kind="async",
    errors=("not_found", "not_owner", "limit_out_of_range", "at_capacity"),
)
ACK = Method(
    name="ledger/ack",
    summary="The addressee has dealt with it",
    params=MsgReasonParams,
    result=RowResult,
    kind="write",
    batch=True,
    errors=_ROW,
)
REJECT = Method(
    name="ledger/reject",
    summary="The addressee does not want it",
    params=MsgReasonParams,
    result=RowResult,
    kind="write",
    batch=True,
    errors=_ROW,
)
SURFACED = Method(
    name="ledger/surfaced",
    summary="A model has seen it",
    params=MsgParams,
    result=RowResult,
    kind="write",
    batch=True,
    errors=_ROW,
)
REQUEUE = Method(
    name="ledger/requeue",
    summary="Put a message in flight back into the queue",
    params=RequeueParams,
    result=RequeueResult,
    kind="write",
    batch=True,
    idempotent="op_id",
    errors=(*_ROW, "op_conflict"),
)
EXPIRE = Method(
    name="ledger/expire",
    summary="Expire one message, or a role's old backlog",
    params=ExpireParams,
    result=ExpireResult,
    kind="write",
    batch=True,
    errors=(*_ROW, "limit_out_of_range"),
)
FAIL = Method(
    name="ledger/fail",
    summary="Give a message up because it cannot be delivered",
    params=FailParams,
    result=RowResult,
    kind="write",
    batch=True,
    operator_only=True,
    errors=("not_admin", "not_found", "invalid_transition"),
)
PRUNE = Method(
    name="ledger/prune",
    summary="Remove old bodies or old events now",
    params=PruneParams,
    result=PruneResult,
    kind="write",
    operator_only=True,
    errors=("not_admin", "limit_out_of_range"),
)

METHODS = (
    SEND,
    GET,
    QUERY,
    TASK,
    DEPTH,
    ATTACH,
    DETACH,
    PULL,
    ACK,
    REJECT,
    SURFACED,
    REQUEUE,
    EXPIRE,
    FAIL,
    PRUNE,
)
