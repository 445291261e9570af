"""Ending an item, and what that means for others (contract workgraph 3.1, 4, 6).

In one transaction: its bindings are stopped, the counters of what it blocks and of its parents are written, what that
makes ready is said, and that nothing is left open in the namespace.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from interlock.lifecycle import completion, readiness
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import rfc3339
from interlock.lifecycle.work import CloseStatus, OnFailure

from ..tx import Tx
from . import attending, bindings, rows
from .judging import Admitted, transition
from .rows import Item
from .saving import UNCLAIMED, elapse, save, touched
from .scope import Scope, emit, present

Cause = Literal["closed", "goal", "child_join"]

OUT_OF: Final = (
    "SELECT kind, on_failure, to_item FROM edges WHERE from_item = ? AND kind IN ('blocks', 'parent')"
    " ORDER BY kind, to_item"
)
ANY_OPEN: Final = "SELECT 1 FROM items WHERE realm_id = ? AND namespace = ? AND status = 'open' LIMIT 1"
ANY_CLAIMED: Final = "SELECT 1 FROM items WHERE realm_id = ? AND namespace = ? AND status = 'in_progress' LIMIT 1"
ANY_BLOCKED: Final = "SELECT 1 FROM items WHERE realm_id = ? AND namespace = ? AND status = 'blocked' LIMIT 1"


class Ending(NamedTuple):
    """How an item is to end."""

    status: CloseStatus = "completed"
    even_if_incomplete: bool = False
    cause: Cause = "closed"


def close(tx: Tx, admitted: Admitted, ending: Ending) -> tuple[Item, list[str]]:
    """End an item; the bindings that were stopped. Raises `policy_unsatisfied`, `invalid_transition` (`incomplete`)."""
    item = admitted.item
    if ending.status == "completed":
        _check_policy(item)
        _check_complete(item, ending)
    return _close(tx, admitted, ending)


def settle(tx: Tx, item: Item, status: CloseStatus, caller: Caller) -> Item:
    """End a parent as its children have decided; no policy is asked."""
    return _close(tx, Admitted(item, caller), Ending(status, cause="child_join"))[0]


def _check_policy(item: Item) -> None:
    """Raise `policy_unsatisfied` where the item could not be completed now."""
    policy = rows.policy_of(item.policy)
    missing = completion.missing(policy, rows.confirmations_of(item))
    if missing is not None:
        raise Refusal("policy_unsatisfied", f"{item.id} needs {missing}", policy=policy, missing=missing)


def _check_complete(item: Item, ending: Ending) -> None:
    if ending.even_if_incomplete or not (item.children_active or item.unresolved_blockers):
        return
    says = f"{item.children_active} children are open and {item.unresolved_blockers} blockers unresolved"
    about = {"open_children": item.children_active, "unresolved_blockers": item.unresolved_blockers}
    raise transition(item, "incomplete", f"{says}; even_if_incomplete completes it all the same", **about)


def _close(tx: Tx, admitted: Admitted, ending: Ending) -> tuple[Item, list[str]]:
    before, caller = admitted.item, admitted.caller
    live = before.phase(tx.now) == "live"
    item = elapse(tx, before, caller)
    stopped = [row.binding_id for row in bindings.of_item(tx, item.n)]
    after = touched(item, tx.now, status=ending.status, terminal_at=tx.now, block_note=None, **UNCLAIMED)
    data = present(
        revision=after.revision,
        status=ending.status,
        cause=ending.cause,
        fence=before.fence if live else None,
        even_if_incomplete=ending.even_if_incomplete,
        stopped_bindings=stopped,
        override=admitted.override,
    )
    emit(tx, after.scope, "item_closed", after.id, data, caller)
    if stopped:
        attending.stop_of_item(tx, item.n, caller)
    after = save(tx, before, after, caller, "updated")
    _tell_neighbours(tx, after, caller)
    if not _any_open(tx, after.scope):
        emit(tx, after.scope, "namespace_terminal", after.id, {"observed_at": rfc3339(tx.now)}, caller)
    return after, stopped


def _tell_neighbours(tx: Tx, closed: Item, caller: Caller) -> None:
    for kind, on_failure, to_n in tx.execute(OUT_OF, (closed.n,)).fetchall():
        other = rows.by_n(tx, to_n)
        if kind == "blocks":
            _unblock(tx, other, closed, on_failure, caller)
        else:
            _count_child(tx, other, closed, caller)


def _unblock(tx: Tx, other: Item, closed: Item, on_failure: OnFailure, caller: Caller) -> None:
    if not readiness.holds_back(closed.status, on_failure):
        after = other._replace(unresolved_blockers=other.unresolved_blockers - 1)
        save(tx, other, after, caller, "blocker_closed", closed.id)


def _count_child(tx: Tx, parent: Item, closed: Item, caller: Caller) -> None:
    column = f"children_{closed.status}"
    counts = {"children_active": parent.children_active - 1, column: getattr(parent, column) + 1}
    save(tx, parent, parent._replace(**counts), caller, "child_closed", closed.id)


def _any_open(tx: Tx, scope: Scope) -> bool:
    """Whether anything of a scope is not terminal."""
    return any(tx.execute(sql, scope).fetchone() for sql in (ANY_OPEN, ANY_CLAIMED, ANY_BLOCKED))
