"""Registering and retiring members, and what that means for the bindings of a session (contract workgraph 5.1, 5.4)."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.admission import targets
from interlock.admission.runtime import MemberId
from interlock.admission.targets import Canonical
from interlock.lifecycle.attention import ITEM_BINDINGS, Target
from interlock.lifecycle.binding import arbitrated
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller

from ..tx import Tx
from . import members, occupancy
from .bindings import Binding
from .members import Mapped, Row, Source, Told
from .scope import Scope, emit, present

SHOWN: Final = ITEM_BINDINGS
"""Of the bindings that a retired member leaves behind, as many are shown."""


class Registered(NamedTuple):
    """The member, whether anything changed, the ids of the bindings that came to its key, and its duplicates."""

    row: Row
    changed: bool
    rekeyed: list[str]
    duplicates: list[Binding]


def register(tx: Tx, scope: Scope, member: MemberId, session_id: str, adopt: bool, caller: Caller) -> Registered:
    """Make a session the member's current one. Raises `duplicate` where it is an active member's, unless `adopt`.

    `scope` is where the call was made: its event is told there.
    """
    row, known = members.find(tx, member), members.mapped(tx, session_id)
    holder = None if known is None or known.id == member else members.find(tx, known.id)
    if holder is not None and holder.status == "active" and not adopt:
        raise Refusal(
            "duplicate",
            f"{session_id} is a session of {holder.owner_key} already; adopt: true takes it over",
            member=members.record(holder),
        )
    if row is not None and known is not None and _stands(row, known, member, session_id):
        return Registered(row, False, [], [])
    return _map(tx, scope, member, session_id, "registered", caller)


def _stands(row: Row, known: Mapped, member: MemberId, session_id: str) -> bool:
    """Whether callers have registered exactly this already; what a runtime said is not a registration."""
    return (known.id, row.session_id) == (member, session_id) and "runtime" not in (row.source, known.source)


def lowered(tx: Tx, scope: Scope, target: Target, told: Told, caller: Caller) -> Canonical:
    """What a target is, for a write: what a runtime said about it is recorded first, so that others find it too.

    Raises `invalid_params`, `too_large`.
    """
    session_id = targets.session_of(target)
    if session_id is not None and session_id in told:
        _record(tx, scope, session_id, told[session_id], caller)
    return targets.canonical(target, scope.realm_id, lambda session_id: members.member_of(tx, session_id, {}))


def _record(tx: Tx, scope: Scope, session_id: str, member: MemberId, caller: Caller) -> None:
    known = members.mapped(tx, session_id)
    if known is None or (known.source == "runtime" and known.id != member):
        _map(tx, scope, member, session_id, "runtime", caller)


def _map(tx: Tx, scope: Scope, member: MemberId, session_id: str, source: Source, caller: Caller) -> Registered:
    """Let a session be a member's, with all that follows."""
    adopted_from = _take(tx, scope, member, session_id, caller)
    before = members.find(tx, member)
    current = source == "registered" or _believes_runtime(before)
    previous = None if before is None or not current or before.session_id == session_id else before.session_id
    if previous is not None:
        members.end_session(tx, previous)
    row = _put(tx, member, before, session_id if current else None, source)
    known = members.mapped(tx, session_id)
    since = known.from_at if known is not None and known.id == member and known.to_at is None else tx.now
    members.put_session(tx, Mapped(session_id, *member, source, since, None if current else tx.now))
    plan = occupancy.plan_rekeying(tx, targets.session_key(session_id), targets.member_key(*member))
    data = present(
        revision=row.revision,
        session_id=session_id,
        previous_session_id=previous,
        adopted_from=None if adopted_from is None else str(members.owner_key(adopted_from)),
        duplicates=[binding.binding_id for binding in plan.duplicates],
    )
    emit(tx, scope, "member_registered", str(row.owner_key), data, caller)
    return Registered(row, True, *occupancy.rekey(tx, plan, caller))


def _take(tx: Tx, scope: Scope, member: MemberId, session_id: str, caller: Caller) -> MemberId | None:
    """Take the session from the member that has it, if it is another one, and say that it has none now: that member."""
    known = members.mapped(tx, session_id)
    if known is None or known.id == member:
        return None
    holder = members.find(tx, known.id)
    if holder is not None and holder.session_id == session_id:
        left = members.changed(tx, holder, session_id=None)
        data = present(revision=left.revision, previous_session_id=session_id)
        emit(tx, scope, "member_registered", str(left.owner_key), data, caller)
    return known.id


def _believes_runtime(row: Row | None) -> bool:
    """Whether a session that a runtime names becomes the current one: not over what a caller registered."""
    return row is None or row.source == "runtime" or (row.status == "active" and row.session_id is None)


def _put(tx: Tx, member: MemberId, before: Row | None, session_id: str | None, source: Source) -> Row:
    """Store the member with its current session; None leaves the one that it has."""
    if before is None:
        return members.put(tx, Row(*member, session_id, "active", source, 1, tx.now, tx.now, None))
    if session_id is None:
        return members.changed(tx, before)
    said: Source = "registered" if "registered" in (source, before.source) else "runtime"
    return members.changed(tx, before, session_id=session_id, status="active", source=said, retired_at=None)


def retire(tx: Tx, scope: Scope, member: MemberId, reason: str | None, caller: Caller) -> tuple[Row, bool]:
    """Say that a member has no session any more; its sessions go on mapping to it. Raises `not_found`."""
    row = members.need(tx, member)
    if row.status == "retired":
        return row, False
    if row.session_id is not None:
        members.end_session(tx, row.session_id)
    after = members.changed(tx, row, session_id=None, status="retired", retired_at=tx.now)
    data = present(revision=after.revision, previous_session_id=row.session_id, reason=reason)
    emit(tx, scope, "member_retired", str(row.owner_key), data, caller)
    return after, True


def left_behind(tx: Tx, member: MemberId) -> list[Binding]:
    """The bindings of every scope that occupy a member's key, duplicates included: the newest 64, newest first."""
    key = targets.member_key(*member)
    holders = occupancy.everywhere(tx, key, SHOWN)
    found = {row.n: row for holder in holders for row in occupancy.occupants(tx, holder.scope, key)}
    return arbitrated(found.values())[:SHOWN]
