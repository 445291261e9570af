"""Work: items, who holds them, what proves them, how they depend on each other (contract workgraph 1). Records only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import field

from .mail import Record
from .types import Count, Id, Rev, Rule, Seq, Text1K, Text1M, Text2K, Text8K, Text64, Text256, Time, meta

Status = Literal["open", "in_progress", "blocked", "completed", "cancelled", "failed"]
CloseStatus = Literal["completed", "cancelled", "failed"]
Priority = Literal["low", "medium", "high"]
JoinPolicy = Literal["require_success", "propagate", "accept"]
JoinState = Literal["satisfied", "waiting", "propagate_failure", "propagate_cancellation"]
OwnerKind = Literal["principal", "agent", "session", "mob", "label"]
EdgeKind = Literal["blocks", "parent", "related", "supersedes", "derived_from"]
OnFailure = Literal["block", "release"]
ConfirmationKind = Literal[
    "host_confirmation", "principal_confirmation", "supervisor_confirmation", "reviewer_confirmation"
]

TERMINAL: Final[frozenset[str]] = frozenset({"completed", "cancelled", "failed"})
CONFIRMATIONS: Final[frozenset[str]] = frozenset(ConfirmationKind.__args__)  # type: ignore[attr-defined]
"""Kinds of evidence that only `goal/confirm` may write."""

ITEM_LABELS: Final = 64
EXTERNAL_REFS: Final = 64
EVIDENCE_REFS: Final = 256
QUORUM: Final = 64
SUMMARY_BYTES: Final = 8192

Labels = Annotated[list[Id], meta(Rule(kind="list", max=ITEM_LABELS), maxItems=ITEM_LABELS)]
Fence = Annotated[int, meta(Rule(kind="int", min=1), minimum=1, description="orders the holders of an item")]


class OwnerKey(Record, frozen=True, kw_only=True):
    """Somebody, by kind and id. Its text form is `<kind>:<id>`."""

    kind: OwnerKind
    id: Id

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


class Owner(Record, frozen=True, kw_only=True):
    """Who holds an item, as the caller says it is."""

    key: OwnerKey
    display_name: Text256 | None = None


class OwnerGiven(Record, frozen=True, kw_only=True):
    """An Owner as a param: `{key, display_name?}`, or flat `{kind, id, display_name?}`."""

    key: OwnerKey | None = None
    kind: OwnerKind | None = None
    id: Id | None = None
    display_name: Text256 | None = None


class Claim(Record, frozen=True, kw_only=True):
    """Who holds an item, since when and how long. Live while `lease_expires_at` is absent or in the future."""

    owner: Owner
    fence: Fence
    claimed_at: Time
    lease_expires_at: Time | None = None


class ExternalRef(Record, frozen=True, kw_only=True):
    """A thing elsewhere that the item is about. Opaque."""

    kind: Text64
    id: Id
    url: Text2K | None = None


ExternalRefs = Annotated[list[ExternalRef], meta(Rule(kind="list", max=EXTERNAL_REFS), maxItems=EXTERNAL_REFS)]


class Evidence(Record, frozen=True, kw_only=True):
    """Something that speaks for an item. The last five are the daemon's: in params they are accepted and dropped."""

    kind: Annotated[str, meta(Rule(kind="text", max=256, min=1), minLength=1, maxLength=256)]
    id: Id
    label: Text1K | None = None
    summary: Text8K | None = None
    confirmation_kind: ConfirmationKind | None = None
    confirming_owner_key: OwnerKey | None = None
    content_revision: Rev | None = None
    at: Time | None = None
    by: Text1K | None = None


EvidenceRefs = Annotated[list[Evidence], meta(Rule(kind="list", max=EVIDENCE_REFS), maxItems=EVIDENCE_REFS)]


class SelfAttest(Record, frozen=True, kw_only=True, tag="self_attest", tag_field="kind"):
    """Nothing is needed."""


class HostConfirmed(Record, frozen=True, kw_only=True, tag="host_confirmed", tag_field="kind"):
    """The operator has confirmed."""


class PrincipalConfirmed(Record, frozen=True, kw_only=True, tag="principal_confirmed", tag_field="kind"):
    """A trusted principal has confirmed."""


class Supervisor(Record, frozen=True, kw_only=True, tag="supervisor", tag_field="kind"):
    """This one has confirmed."""

    owner_key: OwnerKey


class ReviewerQuorum(Record, frozen=True, kw_only=True, tag="reviewer_quorum", tag_field="kind"):
    """That many different reviewers have confirmed."""

    threshold: Annotated[int, meta(Rule(kind="int", min=1, max=QUORUM), minimum=1, maximum=QUORUM)]


CompletionPolicy = SelfAttest | HostConfirmed | PrincipalConfirmed | Supervisor | ReviewerQuorum


class Confirmations(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What counts now: confirmations of the present content."""

    host: Count = 0
    principal: Count = 0
    supervisors: list[OwnerKey] = field(default_factory=list)
    reviewers: list[OwnerKey] = field(default_factory=list)


class Children(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How many children an item has, by how they stand."""

    active: Count = 0
    completed: Count = 0
    failed: Count = 0
    cancelled: Count = 0


class WorkRef(Record, frozen=True, kw_only=True):
    """An item by its scope and id."""

    realm_id: Id
    namespace: Id
    item_id: Id


class WorkItem(Record, frozen=True, kw_only=True):
    """One thing to be done."""

    id: Id
    realm_id: Id
    namespace: Id
    title: Text1K
    description: Text1M | None = None
    status: Status
    priority: Priority
    labels: list[Id] = field(default_factory=list)
    completion_policy: CompletionPolicy
    failed_child_join_policy: JoinPolicy
    cancelled_child_join_policy: JoinPolicy
    unresolved_blockers: Count
    join_state: JoinState
    children: Children | None = None
    owner: Owner | None = None
    claim: Claim | None = None
    due_at: Time | None = None
    overdue: bool = False
    not_before: Time | None = None
    snoozed_until: Time | None = None
    block_note: Text1K | None = None
    external_refs: list[ExternalRef] = field(default_factory=list)
    evidence_refs: list[Evidence] = field(default_factory=list)
    confirmations: Confirmations | None = None
    content_revision: Rev
    revision: Rev
    created_at: Time
    updated_at: Time
    terminal_at: Time | None = None


class Edge(Record, frozen=True, kw_only=True):
    """How one item stands to another. `on_failure` is there on `blocks` only."""

    realm_id: Id
    namespace: Id
    kind: EdgeKind
    from_id: Id
    to_id: Id
    on_failure: OnFailure | None = None
    created_at: Time


class Wait(Record, frozen=True, kw_only=True):
    """Why an item is not ready: what kind of thing it waits for, why in words, and which method would change it."""

    kind: Literal["terminal", "blocked", "claimed", "blocker", "child", "settles", "gate"]
    text: str
    remedy: str
    status: Status | None = None
    terminal_at: Time | None = None
    note: str | None = None
    owner: Owner | None = None
    fence: Fence | None = None
    lease_expires_at: Time | None = None
    item_id: Id | None = None
    title: str | None = None
    on_failure: OnFailure | None = None
    stuck: bool | None = None
    field_: Literal["not_before", "snoozed_until"] | None = field(name="field", default=None)
    until: Time | None = None


class WaitTotals(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Exact counts, also where the waits show only some."""

    unresolved_blockers: Count
    children_active: Count
    children_failed: Count
    children_cancelled: Count


class Completion(Record, frozen=True, kw_only=True):
    """Whether the item could be completed now, and what lacks."""

    satisfied: bool
    policy: CompletionPolicy
    missing: str | None = None


class BindingStatus(Record, frozen=True, kw_only=True):
    """The state of an attention binding; `until` on a timed pause only."""

    state: Literal["active", "paused", "superseded", "stopped"]
    until: Time | None = None


class ExplainedBinding(Record, frozen=True, kw_only=True):
    """A binding that attends to the item."""

    binding_id: Id
    status: BindingStatus
    target_key: str


class Explanation(Record, frozen=True, kw_only=True):
    """Why an item is ready or not, from one consistent read."""

    item_id: Id
    status: Status
    revision: Rev
    judged_at: Time
    as_of_seq: Seq
    ready: bool
    waits: list[Wait]
    totals: WaitTotals
    next_change_at: Time | None = None
    completion: Completion
    attention: list[ExplainedBinding]
