"""Whether a write may touch an item: the checks that all of them share, in the contract's order (workgraph 2).

Not found, wrong fence, stale revision, terminal, missing fence, authority of the binding; then the method's own rules.
Everything is judged at the transaction's instant; nothing is written here.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock.lifecycle import authority, items
from interlock.lifecycle.items import Input, Phase
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_text

from ..tx import Tx
from . import bindings, rows
from .rows import Item
from .scope import Scope, present

SAYS: Final = {
    "terminal": "the item is {status}, for ever",
    "blocked": "the item is blocked: workgraph/unblock it first",
    "not_blocked": "the item is {status}, not blocked",
    "not_claimed": "nobody holds the item",
}
"""Why the table of states refuses."""


class Guard(NamedTuple):
    """What a caller brings to touch a claimed item. `capability` is what `binding_id` must grant; None: to close it."""

    fence: int | None = None
    reason: str | None = None
    binding_id: str | None = None
    capability: str | None = None
    alias: bool = False
    """The call came through `mobkit/`: its clients know no fence (contract workgraph 11)."""


class Admitted(NamedTuple):
    """An item that a write may touch now: its row as found, who does it, and what an override puts into the event."""

    item: Item
    caller: Caller
    override: dict[str, Any] | None = None


def admit(
    tx: Tx,
    item: Item,
    caller: Caller,
    given: Input,
    *,
    expected: int | None = None,
    guard: Guard | None = None,
) -> Admitted:
    """Whether `given` is admitted now, by the table of states and the guard; None is a method that asks for no fence.

    Raises `not_found` of a binding, `stale_lease`, `stale_revision`, `invalid_transition`, `fence_required`,
    `not_admin`, `authority_missing`, `already_claimed`.
    """
    phase = item.phase(tx.now)
    binding = None
    if guard is not None:
        # one that is not there is told before anything is judged
        binding = None if guard.binding_id is None else bindings.find(tx, item.scope, guard.binding_id)
        _check_fence(item, guard.fence, phase)
    check_revision(item, expected)
    step = items.step(phase, given)
    if step.reason == "terminal":
        raise transition(item, "terminal", SAYS["terminal"].format(status=item.status))
    override = None
    if guard is not None:
        override = _check_missing_fence(item, guard, caller, phase, given)
        if binding is not None:
            bindings.check_authority(binding, item.n, guard.capability or authority.closing(binding.mode), tx.now)
    if step.code == "already_claimed":
        raise held(item, step.code, f"{item.id} is held by")
    if step.reason is not None:
        raise transition(item, step.reason, SAYS[step.reason].format(status=item.status))
    return Admitted(item, caller, override)


def act_under(tx: Tx, scope: Scope, binding_id: str, item_ns: tuple[int, ...] | None, capability: str) -> None:
    """Whether a binding, of one of these items (None: of any), lets its target do this now.

    Raises `not_found`, `invalid_params`, `invalid_transition` (`binding_not_eligible`), `authority_missing`.
    """
    binding = bindings.find(tx, scope, binding_id)
    wanted = binding.item if item_ns is None or binding.item in item_ns else item_ns[0]
    bindings.check_authority(binding, wanted, capability, tx.now)


def check_revision(item: Item, expected: int | None) -> None:
    """Raise `stale_revision` where the item has moved on. An elapsed lease that nobody has noticed does not count."""
    if expected is not None and expected != item.revision:
        raise stale("item", item.id, expected, item.revision)


def stale(kind: str, id_: str, expected: int, current: int) -> Refusal:
    """The refusal of a revision that is not the present one."""
    return Refusal(
        "stale_revision",
        f"stale: {id_} is at revision {current}, not {expected}; read it again",
        kind=kind,
        id=id_,
        expected_revision=expected,
        current_revision=current,
    )


def transition(item: Item, reason: str, says: str, **more: Any) -> Refusal:
    """The refusal of an item in a state that does not allow this."""
    about = {"id": item.id, "status": item.status, "current_revision": item.revision}
    return Refusal("invalid_transition", f"{item.id}: {says}", reason=reason, **about, **more)


def stale_lease(item: Item, fence: int, phase: Phase) -> Refusal:
    """The refusal of a fence that is not that of a live claim."""
    live = phase == "live"
    more = present(
        current_fence=item.fence if live else None,
        holder=rows.owner_of(item) if live else None,
        lease_expires_at=as_text(item.lease_expires_at) if live else None,
    )
    says = f"fence {fence} of {item.id} is not that of its claim" if live else f"nobody holds {item.id} any more"
    return Refusal("stale_lease", says, fence=fence, current_revision=item.revision, **more)


def held(item: Item, code: str, says: str) -> Refusal:
    """A refusal because of a live claim, with who holds it and until when."""
    more = present(holder=rows.owner_of(item), lease_expires_at=as_text(item.lease_expires_at))
    return Refusal(code, f"{says} {rows.owner_of(item).key}", current_revision=item.revision, **more)


def _check_fence(item: Item, fence: int | None, phase: Phase) -> None:
    if fence is not None and (phase != "live" or fence != item.fence):
        raise stale_lease(item, fence, phase)


def _check_missing_fence(item: Item, guard: Guard, caller: Caller, phase: Phase, given: Input) -> dict[str, Any] | None:
    if phase != "live":
        return None if guard.reason is None else _override(guard, caller)
    if guard.fence is not None or (guard.alias and item.alias_claim):
        return None
    if guard.binding_id is not None and given == "evidence":
        return None  # a reviewer is no claimant; its authority is judged next
    if guard.reason is None:
        raise held(item, "fence_required", f"send the fence of the claim: {item.id} is held by")
    if not caller.operator:
        raise Refusal("not_admin", f"only the operator may override the claim of {item.id} with a reason")
    return _override(guard, caller) | {"holder": rows.owner_of(item), "fence": item.fence}


def _override(guard: Guard, caller: Caller) -> dict[str, Any]:
    principal = caller.principal if caller.operator else None
    return present(reason=guard.reason, principal=principal)
