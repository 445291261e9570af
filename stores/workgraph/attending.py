"""What is done with bindings: create, pause, resume, reassign, stop, prune, and what time does (contract workgraph 3.2,
8). Each is judged at the transaction's instant and writes its events."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock.lifecycle.attention import ITEM_BINDINGS, Delegated, Mode, ProjectionPolicy
from interlock.lifecycle.binding import Input
from interlock.lifecycle.binding import move as move_of
from interlock.lifecycle.bounds import PRUNE_ROWS
from interlock.lifecycle.readiness import NEVER
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_text

from ..sweep import REMOVE_OP, WORK_PAGE, Page, due_now, earliest
from ..tx import Snapshot, Tx
from . import bindings
from .bindings import Binding
from .judging import stale
from .occupancy import check_free, vacated
from .rows import Item
from .scope import Scope, emit, present

HELD: Final = "SELECT count(*) FROM attention WHERE item = ? AND status IN ('active', 'paused')"
PAUSES_DUE: Final = "SELECT n FROM attention WHERE paused_until <= ? ORDER BY paused_until LIMIT ?"
NEXT_PAUSE: Final = "SELECT min(paused_until) FROM attention WHERE paused_until IS NOT NULL"
NOT_DUE: Final = "UPDATE attention SET paused_until = NULL WHERE n = ?"
ID_OF: Final = "SELECT binding_id FROM attention WHERE n = ?"
SUPERSEDED: Final = (
    "SELECT n, op_id FROM attention WHERE realm_id = ? AND namespace = ? AND status = 'superseded' AND updated_at < ?"
    " ORDER BY updated_at, binding_id LIMIT ?"
)
STOPPED: Final = (
    "SELECT n, op_id FROM attention WHERE realm_id = ? AND namespace = ? AND status = 'stopped' AND updated_at < ?"
    " ORDER BY updated_at, binding_id LIMIT ?"
)
REMOVE: Final = "DELETE FROM attention WHERE n = ?"

SAYS: Final = {"binding_active": "it is active already", "binding_terminal": "it is {state}, for ever"}


class Stance(NamedTuple):
    """How a target attends to an item; it is copied to a successor."""

    mode: Mode
    delegated_authority: Delegated
    policy: ProjectionPolicy


class Forced(NamedTuple):
    """By whom a binding is moved over its mode, and why."""

    principal: str
    reason: str


def create(tx: Tx, item: Item, key: str, stance: Stance, caller: Caller) -> Binding:
    """Let a target attend to an item. Raises `occupied`, `at_capacity`."""
    check_free(tx, item.scope, key, "create the goal")
    if tx.execute(HELD, (item.n,)).fetchone()[0] >= ITEM_BINDINGS:
        says = f"{ITEM_BINDINGS} targets attend to {item.id} already; attention/stop one of them"
        raise Refusal("at_capacity", says, max=ITEM_BINDINGS, id=item.id)
    row = Binding(
        n=0,
        binding_id=tx.new_id("attention"),
        realm_id=item.realm_id,
        namespace=item.namespace,
        item=item.n,
        target_key=key,
        alias_key=None,
        mode=stance.mode,
        delegated_authority=stance.delegated_authority,
        max_text_chars=stance.policy.max_text_chars,
        include_parent_context=int(stance.policy.include_parent_context),
        status="active",
        paused_until=None,
        superseded_by=None,
        revision=1,
        created_at=tx.now,
        updated_at=tx.now,
        terminal_at=None,
        op_id=None,
        item_id=item.id,
    )
    return _created(tx, row, caller)


def _created(tx: Tx, row: Binding, caller: Caller, **more: Any) -> Binding:
    row = bindings.insert(tx, row)
    data = present(
        revision=row.revision,
        item_id=row.item_id,
        target_key=row.target_key,
        mode=row.mode,
        delegated_authority=row.delegated_authority,
        **more,
    )
    emit(tx, row.scope, "attention_created", row.binding_id, data, caller)
    return row


def judge(tx: Tx, scope: Scope, binding_id: str, expected_revision: int, what: Input) -> Binding:
    """The binding, where the input is admitted. Raises `not_found`, `stale_revision`, `invalid_transition`."""
    row = bindings.find(tx, scope, binding_id)
    if row.revision != expected_revision:
        raise stale("attention", binding_id, expected_revision, row.revision)
    reason = move_of(row.status, what).reason
    if reason is not None:
        raise bindings.transition(row, reason, SAYS[reason].format(state=row.status))
    return row


def pause(tx: Tx, scope: Scope, binding_id: str, expected_revision: int, until: int | None, caller: Caller) -> Binding:
    """Pause a binding until an instant, or until it is resumed; a deadline that it has is replaced.

    Raises as `judge`.
    """
    row = judge(tx, scope, binding_id, expected_revision, "pause")
    row = bindings.save(tx, row, status="paused", paused_until=until)
    data = present(revision=row.revision, until=as_text(until))
    emit(tx, scope, "attention_paused", binding_id, data, caller)
    return row


def resume(tx: Tx, scope: Scope, binding_id: str, expected_revision: int, caller: Caller) -> Binding:
    """Go on with a paused binding. Raises as `judge`, then `occupied`."""
    row = judge(tx, scope, binding_id, expected_revision, "resume")
    check_free(tx, scope, row.alias_key or row.target_key, "resume this one", but=row)
    return _resumed(tx, row, "resumed", caller)


def _resumed(tx: Tx, row: Binding, cause: str, caller: Caller | None) -> Binding:
    row = bindings.save(tx, row, status="active", paused_until=None)
    data = present(revision=row.revision, cause=cause)
    emit(tx, row.scope, "attention_resumed", row.binding_id, data, caller)
    return row


def reassign(
    tx: Tx, row: Binding, key: str, caller: Caller, op_id: str | None, forced: Forced | None = None
) -> tuple[Binding, Binding]:
    """Supersede a binding, which was judged, by one of another target: both. Raises `authority_missing`, `occupied`."""
    if forced is None and row.mode != "coordinate":
        remedy = (
            "attention/break_glass_reassign it as the operator, or close its goal and give goal/create the mode"
            " coordinate"
        )
        raise bindings.lacking(row, "can_link_derived_from", remedy)
    check_free(tx, row.scope, key, "reassign to it", but=row)
    successor_id = tx.new_id("attention")
    previous = _end(tx, row, "superseded", superseded_by=successor_id)
    data = present(revision=previous.revision, superseded_by=successor_id)
    emit(tx, row.scope, "attention_superseded", row.binding_id, data, caller)
    successor = row._replace(
        n=0,
        binding_id=successor_id,
        target_key=key,
        alias_key=None,
        status="active",
        paused_until=None,
        revision=1,
        created_at=tx.now,
        updated_at=tx.now,
        op_id=op_id,
    )
    audit = None if forced is None else forced._asdict()
    successor = _created(tx, successor, caller, previous_binding_id=row.binding_id, break_glass=audit)
    vacated(tx, row, caller)
    return previous, successor


def stop(tx: Tx, scope: Scope, binding_id: str, expected_revision: int, reason: str | None, caller: Caller) -> Binding:
    """End a binding; its item stays as it is. Raises as `judge`."""
    row = judge(tx, scope, binding_id, expected_revision, "stop")
    stopped = _stopped(tx, row, "stopped", reason, caller)
    vacated(tx, row, caller)
    return stopped


def stop_of_item(tx: Tx, item: int, caller: Caller | None) -> None:
    """End every binding of an item that is closed, oldest first."""
    ended = bindings.of_item(tx, item)
    for row in ended:
        _stopped(tx, row, "item_closed", None, caller)
    for row in ended:
        vacated(tx, row, caller)


def _stopped(tx: Tx, row: Binding, cause: str, reason: str | None, caller: Caller | None) -> Binding:
    after = _end(tx, row, "stopped")
    data = present(revision=after.revision, cause=cause, reason=reason)
    emit(tx, row.scope, "attention_stopped", row.binding_id, data, caller)
    return after


def _end(tx: Tx, row: Binding, status: str, **changes: Any) -> Binding:
    return bindings.save(tx, row, status=status, paused_until=None, alias_key=None, terminal_at=tx.now, **changes)


def prune(tx: Tx, scope: Scope, before: int | None, caller: Caller) -> tuple[int, bool]:
    """Delete ended bindings that last changed strictly before (None: all); how many, and whether there are more.

    The op ids of the reassigns that made them are forgotten with them.
    """
    found: list[tuple[int, str | None]] = []
    for sql in (SUPERSEDED, STOPPED):
        found += tx.execute(sql, (*scope, NEVER if before is None else before, PRUNE_ROWS + 1 - len(found))).fetchall()
    for n, op_id in found[:PRUNE_ROWS]:
        tx.execute(REMOVE, (n,))
        if op_id is not None:
            tx.execute(REMOVE_OP, (op_id,))
    pruned = min(len(found), PRUNE_ROWS)
    if pruned:
        emit(
            tx,
            scope,
            "attention_pruned",
            scope.namespace,
            present(pruned=pruned, updated_before=as_text(before)),
            caller,
        )
    return pruned, len(found) > PRUNE_ROWS


def due_pauses(tx: Tx) -> Page:
    """Bindings whose pause is over."""
    return due_now(tx, PAUSES_DUE, WORK_PAGE)


def end_pause(tx: Tx, n: int) -> None:
    """Record that a pause is over, if it still is. The key was held all the time, so nothing is admitted."""
    row = bindings.by_n(tx, n)
    if move_of(row.status, "elapse").state is not None and row.eligible(tx.now):
        _resumed(tx, row, "pause_elapsed", None)


def set_aside(tx: Tx, n: int) -> str:
    """Make a row that cannot be handled not due any more; its id."""
    tx.execute(NOT_DUE, (n,))
    binding_id: str = tx.execute(ID_OF, (n,)).fetchone()[0]
    return binding_id


def next_pause(snap: Tx | Snapshot) -> int | None:
    """When the next pause is over."""
    return earliest(snap, NEXT_PAUSE)
