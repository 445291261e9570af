"""The items table: its columns, and how a row becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import msgspec

from interlock.lifecycle import items, readiness
from interlock.lifecycle.items import Phase
from interlock.lifecycle.readiness import PRIORITIES, Stage
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_text, rfc3339
from interlock.lifecycle.work import (
    TERMINAL,
    Children,
    Claim,
    CompletionPolicy,
    Confirmations,
    Evidence,
    ExternalRef,
    JoinPolicy,
    JoinState,
    Owner,
    OwnerKey,
    OwnerKind,
    Status,
    WorkItem,
)

from ..packed import packed, unpacked
from ..tx import Snapshot, Tx
from .scope import Scope


class Item(NamedTuple):
    """One row, in the order of `ROW`; instants are milliseconds."""

    n: int
    id: str
    realm_id: str
    namespace: str
    title: str
    status: Status
    priority: int
    labels: str | None
    policy: str
    failed_join: JoinPolicy
    cancelled_join: JoinPolicy
    unresolved_blockers: int
    join_state: JoinState
    children_active: int
    children_completed: int
    children_failed: int
    children_cancelled: int
    owner_kind: OwnerKind | None
    owner_id: str | None
    owner_name: str | None
    fence: int
    alias_claim: int
    claimed_at: int | None
    lease_expires_at: int | None
    due_at: int | None
    due_order: int
    overdue_at: int | None
    not_before: int | None
    snoozed_until: int | None
    gate_at: int | None
    stage: Stage
    block_note: str | None
    has_content: int
    evidence: int
    confirmations: str | None
    content_revision: int
    revision: int
    created_at: int
    updated_at: int
    terminal_at: int | None

    @property
    def scope(self) -> Scope:
        """Whose it is."""
        return Scope(self.realm_id, self.namespace)

    def phase(self, now: int) -> Phase:
        """Its phase at `now`."""
        return items.phase_of(self.status, self.owner_kind is not None, self.lease_expires_at, now)

    def ready(self, now: int) -> bool:
        """Whether it may be begun at `now`."""
        return readiness.is_ready(self.phase(now), self.unresolved_blockers, self.join_state, self.gate_at, now)

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Its place among ready items: the most urgent is the smallest (contract workgraph 4)."""
        return self.priority, self.due_order, self.created_at, self.id


ROW: Final = packed(Item._fields)
"""A row of items, for `item_of`."""
JOINED_ROW: Final = packed(f"i.{name}" for name in Item._fields)
"""The same where items is joined as `i`."""
BY_ID: Final = f"SELECT {ROW} FROM items WHERE id = ?"
BY_N: Final = f"SELECT {ROW} FROM items WHERE n = ?"
IDS_OF: Final = "SELECT i.n, i.id FROM json_each(?) AS j CROSS JOIN items AS i ON i.n = j.value"
CONTENT_OF: Final = "SELECT description, external_refs FROM item_content WHERE item = ?"
EVIDENCE_OF: Final = "SELECT data FROM item_evidence WHERE item = ? ORDER BY pos"
NO_CHILDREN: Final = Children()

_policy: Final = msgspec.json.Decoder(CompletionPolicy).decode
_confirmations: Final = msgspec.json.Decoder(Confirmations).decode
_evidence: Final = msgspec.json.Decoder(Evidence).decode
_refs: Final = msgspec.json.Decoder(list[ExternalRef]).decode


def item_of(row: Any) -> Item:
    """The item in a row of a statement that selects `ROW`."""
    return Item._make(unpacked(row))


def get(tx: Tx | Snapshot, scope: Scope, item_id: str) -> Item | None:
    """The row of an item, where the scope has it."""
    row = tx.execute(BY_ID, (item_id,)).fetchone()
    item = None if row is None else item_of(row)
    return item if item is not None and item.scope == scope else None


def find(tx: Tx | Snapshot, scope: Scope, item_id: str) -> Item:
    """The row of an item. Raises `not_found` where the scope has none."""
    item = get(tx, scope, item_id)
    if item is None:
        raise Refusal("not_found", f"there is no item {item_id} in {'/'.join(scope)}", kind="item", id=item_id)
    return item


def by_n(tx: Tx | Snapshot, n: int) -> Item:
    """The row with this number, which exists."""
    return item_of(tx.execute(BY_N, (n,)).fetchone())


def ids_of(tx: Tx | Snapshot, numbers: Sequence[int]) -> list[str]:
    """The ids of the rows with these numbers, which exist, in the same order."""
    found: dict[int, str] = dict(tx.execute(IDS_OF, (encoded(numbers),)))
    return [found[n] for n in numbers]


@lru_cache(maxsize=1024)
def policy_of(text: str) -> CompletionPolicy:
    """A stored completion policy."""
    return _policy(text)


@lru_cache(maxsize=256)  # callers choose what is kept, up to 64 labels of 256 bytes each
def _labels(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))


def labels_of(item: Item) -> tuple[str, ...]:
    """Its labels, sorted."""
    return labels_in(item.labels)


def labels_in(column: str | None) -> tuple[str, ...]:
    """The labels that a row has, sorted."""
    return () if column is None else _labels(column)


def confirmations_of(item: Item) -> Confirmations:
    """What counts now."""
    return Confirmations() if item.confirmations is None else _confirmations(item.confirmations)


def encoded(value: object) -> str:
    """As JSON text, the way columns hold it."""
    return msgspec.json.encode(value).decode()


def owner_of(item: Item) -> Owner:
    """Who holds a claimed item."""
    assert item.owner_kind is not None
    assert item.owner_id is not None
    return Owner(key=OwnerKey(kind=item.owner_kind, id=item.owner_id), display_name=item.owner_name)


def content_of(tx: Tx | Snapshot, item: Item) -> tuple[str | None, list[ExternalRef]]:
    """Its description and external references."""
    if not item.has_content:
        return None, []
    description, refs = tx.execute(CONTENT_OF, (item.n,)).fetchone()
    return description, [] if refs is None else _refs(refs)


def evidence_of(tx: Tx | Snapshot, item: Item) -> list[Evidence]:
    """Its evidence, oldest first."""
    return [_evidence(data) for (data,) in tx.execute(EVIDENCE_OF, (item.n,))] if item.evidence else []


_SEEN: Final = 4096
_SMALL: Final = 1024
_seen: Final[dict[tuple[Item, bool], WorkItem]] = {}
"""Small items as readers have shown them. A fleet asks for the same ready items again and again, and a row of which
nothing has changed is shown as before: what lies in other tables changes with its revision. Only for what is committed:
a transaction may yet be undone, and its revision be given out again."""


def record(tx: Tx | Snapshot, item: Item) -> WorkItem:
    """The item as results show it, judged at the transaction's or the snapshot's instant."""
    overdue = item.due_at is not None and item.status not in TERMINAL and item.due_at <= tx.now
    if isinstance(tx, Tx):
        return _record(tx, item, overdue)
    found = _seen.get((item, overdue))
    if found is None:
        found = _record(tx, item, overdue)
        large = item.evidence or found.external_refs
        if not large and len(found.description or "") + len(item.labels or "") <= _SMALL:
            if len(_seen) >= _SEEN:
                _seen.clear()
            _seen[item, overdue] = found
    return found


def _record(tx: Tx | Snapshot, item: Item, overdue: bool) -> WorkItem:
    description, refs = content_of(tx, item)
    claim = None if item.owner_kind is None else _claim(item)
    return WorkItem(
        id=item.id,
        realm_id=item.realm_id,
        namespace=item.namespace,
        title=item.title,
        description=description,
        status=item.status,
        priority=PRIORITIES[item.priority],
        labels=list(labels_of(item)),
        completion_policy=policy_of(item.policy),
        failed_child_join_policy=item.failed_join,
        cancelled_child_join_policy=item.cancelled_join,
        unresolved_blockers=item.unresolved_blockers,
        join_state=item.join_state,
        children=_children(item),
        owner=None if claim is None else claim.owner,
        claim=claim,
        due_at=as_text(item.due_at),
        overdue=overdue,
        not_before=as_text(item.not_before),
        snoozed_until=as_text(item.snoozed_until),
        block_note=item.block_note,
        external_refs=refs,
        evidence_refs=evidence_of(tx, item),
        confirmations=None if item.confirmations is None else _confirmations(item.confirmations),
        content_revision=item.content_revision,
        revision=item.revision,
        created_at=rfc3339(item.created_at),
        updated_at=rfc3339(item.updated_at),
        terminal_at=as_text(item.terminal_at),
    )


def _claim(item: Item) -> Claim:
    return Claim(
        owner=owner_of(item),
        fence=item.fence,
        claimed_at=rfc3339(cast(int, item.claimed_at)),
        lease_expires_at=as_text(item.lease_expires_at),
    )


def _children(item: Item) -> Children | None:
    children = Children(
        active=item.children_active,
        completed=item.children_completed,
        failed=item.children_failed,
        cancelled=item.children_cancelled,
    )
    return None if children == NO_CHILDREN else children
