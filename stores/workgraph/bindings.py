"""The attention table: its columns, how a row becomes a record, and what a binding allows (contract workgraph 1, 2)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock.admission.occupancy import Seat
from interlock.admission.targets import target_of
from interlock.lifecycle import authority, binding
from interlock.lifecycle.attention import AttentionBinding, BindingState, Delegated, Mode, ProjectionPolicy
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_text, rfc3339
from interlock.lifecycle.work import BindingStatus, WorkRef

from ..packed import packed, unpacked
from ..tx import Snapshot, Tx
from .scope import Scope


class Binding(NamedTuple):
    """One row, in the order of `ROW`, with its item's id; instants are milliseconds."""

    n: int
    binding_id: str
    realm_id: str
    namespace: str
    item: int
    target_key: str
    alias_key: str | None
    mode: Mode
    delegated_authority: Delegated
    max_text_chars: int
    include_parent_context: int
    status: BindingState
    paused_until: int | None
    superseded_by: str | None
    revision: int
    created_at: int
    updated_at: int
    terminal_at: int | None
    op_id: str | None
    item_id: str

    @property
    def scope(self) -> Scope:
        """Whose it is."""
        return Scope(self.realm_id, self.namespace)

    @property
    def seat(self) -> Seat:
        """What admission sees of it; it occupies."""
        assert self.status in ("active", "paused")
        return Seat(self.binding_id, self.status, self.item_id, self.target_key, self.paused_until, self.created_at)

    def eligible(self, now: int) -> bool:
        """Whether it is to be attended to now."""
        return binding.eligible(self.status, self.paused_until, now)


STORED: Final = Binding._fields[:-1]
ROW: Final = packed([*STORED, "(SELECT id FROM items WHERE items.n = attention.item)"])
"""A row of attention, for `binding_of`."""
BY_ID: Final = f"SELECT {ROW} FROM attention WHERE binding_id = ?"
BY_N: Final = f"SELECT {ROW} FROM attention WHERE n = ?"
INSERT: Final = f"INSERT INTO attention({', '.join(STORED[1:])}) VALUES ({', '.join('?' * len(STORED[1:]))})"
SAVED: Final = (
    *("target_key", "alias_key", "status", "paused_until", "superseded_by", "revision", "updated_at"),
    "terminal_at",
)
SAVE: Final = f"UPDATE attention SET {' = ?, '.join(SAVED)} = ? WHERE n = ?"
OF_ITEM: Final = f"SELECT {ROW} FROM attention WHERE item = ? AND status IN ('active', 'paused') ORDER BY n"
"""Those that occupy, oldest first."""


def binding_of(row: Any) -> Binding:
    """The binding in a row of a statement that selects `ROW`."""
    return Binding._make(unpacked(row))


def rows_of(tx: Tx | Snapshot, sql: str, *params: Any) -> list[Binding]:
    """The rows that a statement over `ROW` finds."""
    return [binding_of(row) for row in tx.execute(sql, params).fetchall()]


def find(tx: Tx | Snapshot, scope: Scope, binding_id: str) -> Binding:
    """One binding. Raises `not_found` where the scope has none."""
    row = tx.execute(BY_ID, (binding_id,)).fetchone()
    found = None if row is None else binding_of(row)
    if found is None or found.scope != scope:
        where = "/".join(scope)
        raise Refusal("not_found", f"there is no binding {binding_id} in {where}", kind="attention", id=binding_id)
    return found


def by_n(tx: Tx | Snapshot, n: int) -> Binding:
    """The row with this number, which exists."""
    return binding_of(tx.execute(BY_N, (n,)).fetchone())


def of_item(tx: Tx | Snapshot, item: int) -> list[Binding]:
    """The bindings that occupy a target for an item, oldest first: at most 64."""
    return rows_of(tx, OF_ITEM, item)


def status_of(row: Binding) -> BindingStatus:
    """Its status as results show it."""
    return BindingStatus(state=row.status, until=as_text(row.paused_until))


def record(tx: Tx | Snapshot, row: Binding) -> AttentionBinding:
    """The binding as results show it."""
    return AttentionBinding(
        binding_id=row.binding_id,
        work_ref=WorkRef(realm_id=row.realm_id, namespace=row.namespace, item_id=row.item_id),
        target=target_of(row.target_key),
        target_key=row.target_key,
        alias_key=row.alias_key,
        mode=row.mode,
        delegated_authority=row.delegated_authority,
        projection_policy=ProjectionPolicy(
            max_text_chars=row.max_text_chars, include_parent_context=bool(row.include_parent_context)
        ),
        status=status_of(row),
        superseded_by=row.superseded_by,
        revision=row.revision,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        terminal_at=as_text(row.terminal_at),
    )


def insert(tx: Tx, row: Binding) -> Binding:
    """Store a new row; the store gives it its number."""
    n = tx.execute(INSERT, row[1:-1]).lastrowid
    assert n is not None
    return row._replace(n=n)


def save(tx: Tx, row: Binding, **changes: Any) -> Binding:
    """Write what one transition changes: the row, a revision later."""
    row = row._replace(revision=row.revision + 1, updated_at=tx.now, **changes)
    tx.execute(SAVE, (*(getattr(row, name) for name in SAVED), row.n))
    return row


def check_authority(row: Binding, item: int, capability: str, now: int) -> None:
    """A binding must let its target act on the item with this number (contract workgraph 2, guard).

    Raises `invalid_params` where it is of another item, `invalid_transition`, `authority_missing`.
    """
    if row.item != item:
        raise Refusal(
            "invalid_params",
            f"{row.binding_id} attends to {row.item_id}, not to this item",
            path="/binding_id",
            expected="a binding of this item",
        )
    check_eligible(row, now)
    if capability not in authority.granted(row.mode, row.delegated_authority):
        raise lacking(row, capability, authority.way_out(capability))


def check_eligible(row: Binding, now: int) -> None:
    """Raise `invalid_transition` where it is not to be attended to now."""
    if not row.eligible(now):
        until = "" if row.paused_until is None else f" until {rfc3339(row.paused_until)}"
        raise transition(row, "binding_not_eligible", f"it is {row.status}{until}")


def lacking(row: Binding, capability: str, remedy: str) -> Refusal:
    """The refusal of what the binding does not allow."""
    return Refusal(
        "authority_missing",
        f"{row.binding_id}, of mode {row.mode} and delegated {row.delegated_authority}, does not have {capability}",
        binding_id=row.binding_id,
        mode=row.mode,
        capability=capability,
        remedy=remedy,
    )


def transition(row: Binding, reason: str, says: str) -> Refusal:
    """The refusal of a binding in a state that does not allow this."""
    return Refusal(
        "invalid_transition",
        f"{row.binding_id}: {says}",
        reason=reason,
        id=row.binding_id,
        status=status_of(row),
        current_revision=row.revision,
    )
